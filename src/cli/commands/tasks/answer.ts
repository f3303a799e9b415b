/** `answer`: answers a task's question, and waits until the next question or the end. */
import type { Command } from 'commander'
import { CliError, EXIT } from '../../exit.ts'
import { clientCommand, withClient } from '../../program.ts'
import { asks, resolveIdOrLatest, type Todo } from '../../todo.ts'
import { act } from '../../wait-for-todo.ts'

export const addAnswer = (program: Command): void => {
  clientCommand(program, 'answer <id> <text>', 'answer a question; <id> may be "latest"')
    .option('--no-wait', 'return at once')
    .action(
      withClient(async (session, given: string, text: string, { wait }: { wait: boolean }) => {
        const { client } = session
        const id = await resolveIdOrLatest(client, given)
        const todo = await client.call<Todo>('todos.show', { id })
        if (!asks(todo)) {
          const why = `Task ${id} asks nothing at the moment: it is ${todo.state}`
          throw new CliError(EXIT.refused, why)
        }
        const send = () => client.call<Todo>('todos.answer', { id, message: { parts: [{ text }] } })
        await act(session, send, { wait, answered: todo.interruptedAt, show: () => {} })
      }),
    )
}
