/** `retry`: sends a dead letter again, as a new task with the same message. Once. */
import type { Command } from 'commander'
import { print, printJson } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions } from '../../program.ts'
import { resolveId, type Todo } from '../../todo.ts'

export const addRetry = (program: Command): void => {
  clientCommand(program, 'retry <id>', 'send a dead letter again, as a new task').action(
    async (given: string, options: SharedOptions) => {
      const { client, json } = openSession(options)
      const todo = await client.call<Todo>('todos.retry', { id: await resolveId(client, given) })
      if (json) printJson(todo)
      else print(todo.id)
    },
  )
}
