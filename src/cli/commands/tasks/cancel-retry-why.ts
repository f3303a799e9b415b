/**
 * `cancel` ends a task that has not ended, whoever works on it. `retry` sends a dead letter again,
 * once, as a new task with the same message. `why` says what a task waits for, until when, and what
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
  resolve = resolveId,
): void => {
  clientCommand(program, `${name} <id>`, description).action(
    showing(
      async (client, given: string) => {
        const id = await resolve(client, given)
        return { id, ...(await client.call<Answer>(`todos.${name}`, { id })) }
      },
      (answer) => print(line(answer)),
    ),
  )
}

export const addCancelRetryWhy = (program: Command): void => {
  const state = ({ id, state }: Todo): string => `${id} is ${state}`
  addCall(program, 'cancel', 'cancel a task', state)
  addCall(program, 'retry', 'send a dead letter again, as a new task', ({ id }) => id)
  const why = 'say what a task waits for and what would move it; <id> may be "latest"'
  const line = (found: { id: string; why: string }): string => `${found.id} ${found.why}`
  addCall<{ why: string }>(program, 'why', why, line, resolveIdOrLatest)
}
