/**
 * `send`: gives a queue a task, and by default waits until the task ends or asks. The operator's token
 * sends by the operator API; a client's, which may not use that, by A2A.
 */
import type { Command } from 'commander'
import { isRefusal } from '../../../agent-kit/errors.ts'
import { defined } from '../../../base/defined.ts'
import { CliError, EXIT } from '../../exit.ts'
import { print } from '../../output.ts'
import { clientCommand, wholeNumber, withClient } from '../../program.ts'
import type { Todo } from '../../todo.ts'
import { act } from '../../wait-for-todo.ts'
import { sendAsClient } from './send-as-client.ts'

interface Options {
  wait: boolean
  priority?: number
  context?: string
  task?: string
}

export const addSend = (program: Command): void => {
  clientCommand(program, 'send <queue> <text>', 'send a task; waits until it ends or asks')
    .option('--no-wait', 'print the task id and return at once')
    .option('--priority <0-2>', '0 is first, 1 the default, 2 last', wholeNumber(0, 2))
    .option('--context <id>', 'go on in this conversation')
    .option('--task <id>', "with a client's token: answer this task, or say more about it")
    .action(
      withClient(async (session, queue: string, text: string, options: Options) => {
        const { wait, priority, context, task } = options
        const message = defined({ parts: [{ text }], contextId: context })
        const params = defined({ queue, message, priority })
        const send = () => session.client.call<Todo>('todos.send', params)
        try {
          if (task === undefined) await act(session, send, { wait, show: ({ id }) => print(id) })
        } catch (error) {
          // Nothing was done: a client's token may not use the operator API.
          if (!isRefusal(error, 'forbidden')) throw error
          if (priority === undefined) return sendAsClient(session, { queue, text, wait, context })
          throw new CliError(EXIT.unauthorized, "--priority needs the operator's token")
        }
        if (task !== undefined) await sendAsClient(session, { queue, text, wait, context, task })
      }),
    )
}
