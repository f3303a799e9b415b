/** `cancel`: ends a task that has not ended, whoever works on it. */
import type { Command } from 'commander'
import { print, printJson } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions } from '../../program.ts'
import { resolveId, type Todo } from '../../todo.ts'

export const addCancel = (program: Command): void => {
  clientCommand(program, 'cancel <id>', 'cancel a task').action(
    async (given: string, options: SharedOptions) => {
      const { client, json } = openSession(options)
      const todo = await client.call<Todo>('todos.cancel', { id: await resolveId(client, given) })
      if (json) printJson(todo)
      else print(`${todo.id} is ${todo.state}`)
    },
  )
}
