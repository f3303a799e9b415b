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
  notBefore?: string
  delay?: number
}

const TEN_YEARS = 315_360_000

export const addSend = (program: Command): void => {
  clientCommand(program, 'send <queue> <text>', 'send a task; waits until it ends or asks')
    .option('--no-wait', 'print the task id and return at once')
    .option('--priority <0-2>', '0 is first, 1 the default, 2 last', wholeNumber(0, 2))
    .option('--not-before <time>', 'it may begin then: 2026-01-31T09:00:00+01:00')
    .option('--delay <seconds>', 'it may begin so long from now', wholeNumber(0, TEN_YEARS))
    .option('--context <id>', 'go on in this conversation')
    .action(
      withClient(async (session, queue: string, text: string, options: Options) => {
        const { wait, priority, context, notBefore, delay } = options
        const message = defined({ parts: [{ text }], contextId: context })
        const params = defined({ queue, message, priority, notBefore, delaySeconds: delay })
        const send = () => session.client.call<Todo>('todos.send', params)
        await act(session, send, { wait, show: ({ id }) => print(id) })
      }),
    )
}
