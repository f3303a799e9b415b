/**
 * `cancel` ends a task that has not ended, whoever works on it. `retry` sends a dead letter again,
 * once, as a new task with the same conversation. `why` says what a task waits for, until when, and what
 * would move it.
 */
import type { Command } from 'commander'
import { print } from '../../output.ts'
import { clientCommand, showing } from '../../program.ts'
import { resolveId, resolveIdOrLatest, type Todo } from '../../todo.ts'

/** A command that makes one call about one task, and prints a line. */
const addCall = <Answer extends object>(
  program: Command,
  name: string,
  description: string,
  line: (answer: Answer & { id: string }) => string,
  {
    resolve = resolveId,
    options = [],
  }: {
    resolve?: typeof resolveId
    /** Its options that the call takes, each under its own name. */
    options?: readonly (readonly [name: string, help: string])[]
  } = {},
): void => {
  const command = clientCommand(program, `${name} <id>`, description)
  for (const [option, help] of options) command.option(`--${option}`, help)
  command.action(
    showing(
      async (client, given: string, chosen: Record<string, true>) => {
        const id = await resolve(client, given)
        const more = Object.fromEntries(
          options.flatMap(([option]) => (chosen[option] ? [[option, true]] : [])),
        )
        return { id, ...(await client.call<Answer>(`todos.${name}`, { id, ...more })) }
      },
      (answer) => print(line(answer)),
    ),
  )
}

export const addCancelRetryWhy = (program: Command): void => {
  const state = ({ id, state }: Todo): string => `${id} is ${state}`
  addCall(program, 'cancel', 'cancel a task', state)
  addCall(program, 'retry', 'send a dead letter again, as a new task', ({ id }: Todo) => id, {
    options: [['artifacts', 'with the artifacts that the dead one has']],
  })
  const why = 'say what a task waits for and what would move it; <id> may be "latest"'
  const line = (found: { id: string; why: string }): string => `${found.id} ${found.why}`
  addCall<{ why: string }>(program, 'why', why, line, { resolve: resolveIdOrLatest })
}
