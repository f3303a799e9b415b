/** `list`: tasks, newest status first, a page at a time. */
import type { Command } from 'commander'
import { defined } from '../../../base/defined.ts'
import { oneLine, span } from '../../output.ts'
import { clientCommand, type PageOptions, pageOptions, printPage, showing } from '../../program.ts'
import { idleText, partsText, type Todo, type TodoPage } from '../../todo.ts'

interface Options extends PageOptions {
  queue?: string
  state?: string
  dead?: boolean
  context?: string
}

export const addList = (program: Command): void => {
  const command = clientCommand(program, 'list', 'list tasks, newest status first')
    .option('--queue <name>', 'only this queue')
    .option('--state <state>', 'only this state, such as pending or input-required')
    .option('--dead', 'only dead letters')
    .option('--context <id>', 'only this conversation')
  pageOptions(command).action(
    showing(
      (client, { limit: pageSize, queue, state, dead, context, page }: Options) => {
        const filter = { queue, state, dead, contextId: context }
        const params = defined({ pageSize, ...filter, pageToken: page })
        return client.call<TodoPage>('todos.list', params)
      },
      ({ todos, nextPageToken }) =>
        printPage(
          ['ID', 'QUEUE', 'STATE', 'ATTEMPT', 'AGE', ...ifNamed(todos, 'AUTHOR'), 'TASK'],
          todos.map((todo) => row(todo, ifNamed(todos, oneLine(todo.author ?? '-')))),
          nextPageToken,
        ),
    ),
  )
}

/** What a dead letter still owes an answer to. */
const debts = ({ finishedAt, state, unread }: Todo): string =>
  finishedAt !== null && ['failed', 'rejected'].includes(state) && unread > 0
    ? `${unread} unread`
    : ''

/** The column of authors, where the page has any. */
const ifNamed = (todos: readonly Todo[], cell: string): string[] =>
  todos.some(({ author }) => author !== undefined) ? [cell] : []

const row = (todo: Todo, author: string[]): string[] => [
  todo.id,
  todo.queue,
  [todo.state, todo.nextRetryAt === null ? '' : 'retries', idleText(todo), debts(todo)]
    .filter(Boolean)
    .join(', '),
  `${todo.attempt}/${todo.maxAttempts}`,
  span(Date.now() - Date.parse(todo.createdAt)),
  ...author,
  todo.message === null ? '' : oneLine(partsText(todo.message)),
]
