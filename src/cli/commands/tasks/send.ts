/**
 * `send`: gives a queue a task, and by default waits until the task ends or asks. The operator's token
 * sends by the operator API; a client's, which may not use that, by A2A.
 */
import { type Command, InvalidArgumentError } from 'commander'
import { isRefusal } from '../../../agent-kit/errors.ts'
import { defined } from '../../../base/defined.ts'
import { type Amounts, MAX_AMOUNT, SPEND_KINDS, type SpendKind } from '../../../domain/spend.ts'
import { print } from '../../output.ts'
import { clientCommand, list, wholeNumber, withClient } from '../../program.ts'
import type { Todo } from '../../todo.ts'
import { act } from '../../wait-for-todo.ts'
import { sendAsClient } from './send-as-client.ts'

interface Options {
  wait: boolean
  priority?: number
  context?: string
  task?: string
  budget?: Amounts
  author?: string
  notBefore?: string
  delay?: number
}

const isKind = (word: string): word is SpendKind => SPEND_KINDS.some((kind) => kind === word)

/** `tokens=1000,calls=5`, or each by itself. */
const amounts = (text: string, before: Amounts = {}): Amounts => {
  const given: Amounts = { ...before }
  for (const word of list(text, [])) {
    const [kind = '', number = '', more] = word.split('=')
    if (!isKind(kind) || more !== undefined) {
      throw new InvalidArgumentError(
        `It must be ${SPEND_KINDS.join('=n, ')}=n, or several of them.`,
      )
    }
    given[kind] = wholeNumber(0, MAX_AMOUNT)(number)
  }
  return given
}

const TEN_YEARS = 315_360_000

export const addSend = (program: Command): void => {
  clientCommand(program, 'send <queue> <text>', 'send a task; waits until it ends or asks')
    .option('--no-wait', 'print the task id and return at once')
    .option('--priority <0-2>', '0 is first, 1 the default, 2 last', wholeNumber(0, 2))
    .option('--budget <kind=n...>', 'what it may spend: tokens=, cents=, calls=', amounts)
    .option('--not-before <time>', 'it may begin then: 2026-01-31T09:00:00+01:00')
    .option('--delay <seconds>', 'it may begin so long from now', wholeNumber(0, TEN_YEARS))
    .option('--context <id>', 'go on in this conversation')
    .option('--task <id>', "with a client's token: answer this task, or say more about it")
    .option('--author <name>', 'on whose behalf')
    .action(
      withClient(async (session, queue: string, text: string, given: Options) => {
        const { wait, priority, context, task, budget, author, notBefore, delay } = given
        const message = defined({ parts: [{ text }], contextId: context })
        const options = { priority, budget, author, notBefore, delaySeconds: delay }
        const params = defined({ queue, message, ...options })
        const asClient = { queue, text, wait, context, task, options }
        if (task !== undefined) return sendAsClient(session, asClient)
        const send = () => session.client.call<Todo>('todos.send', params)
        try {
          await act(session, send, { wait, show: ({ id }) => print(id) })
        } catch (error) {
          // Nothing was done: a client's token may not use the operator API.
          if (!isRefusal(error, 'forbidden')) throw error
          await sendAsClient(session, asClient)
        }
      }),
    )
}
