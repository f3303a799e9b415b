/** `send`: gives a queue a task, and by default waits until the task ends or asks. */
import type { Command } from 'commander'
import { defined } from '../../../base/defined.ts'
import { print } from '../../output.ts'
import { clientCommand, wholeNumber, withClient } from '../../program.ts'
import type { Todo } from '../../todo.ts'
import { act } from '../../wait-for-todo.ts'

interface Options {
  wait: boolean
  priority?: number
  context?: string
  author?: string
}

export const addSend = (program: Command): void => {
  clientCommand(program, 'send <queue> <text>', 'send a task; waits until it ends or asks')
    .option('--no-wait', 'print the task id and return at once')
    .option('--priority <0-2>', '0 is first, 1 the default, 2 last', wholeNumber(0, 2))
    .option('--context <id>', 'go on in this conversation')
    .option('--author <name>', 'on whose behalf')
    .action(
      withClient(async (session, queue: string, text: string, options: Options) => {
        const { wait, priority, context, author } = options
        const message = defined({ parts: [{ text }], contextId: context })
        const params = defined({ queue, message, priority, author })
        const send = () => session.client.call<Todo>('todos.send', params)
        await act(session, send, { wait, show: ({ id }) => print(id) })
      }),
    )
}
