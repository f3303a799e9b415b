/** `list`: tasks, newest status first, a page at a time. */
import type { Command } from 'commander'
import { note, oneLine, printJson, printTable, span } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions, wholeNumber } from '../../program.ts'
import { idleText, partsText, type Todo, type TodoPage } from '../../todo.ts'

interface Options extends SharedOptions {
  queue?: string
  state?: string
  dead?: boolean
  context?: string
  limit: number
  page?: string
}

export const addList = (program: Command): void => {
  clientCommand(program, 'list', 'list tasks, newest status first')
    .option('--queue <name>', 'only this queue')
    .option('--state <state>', 'only this state, such as pending or input-required')
    .option('--dead', 'only dead letters')
    .option('--context <id>', 'only this conversation')
    .option('--limit <n>', 'at most so many', wholeNumber(1, 100), 50)
    .option('--page <token>', 'the page after, by the token that the page before gave')
    .action(async (options: Options) => {
      const { client, json } = openSession(options)
      const page = await client.call<TodoPage>('todos.list', {
        pageSize: options.limit,
        ...(options.queue === undefined ? {} : { queue: options.queue }),
        ...(options.state === undefined ? {} : { state: options.state }),
        ...(options.dead ? { dead: true } : {}),
        ...(options.context === undefined ? {} : { contextId: options.context }),
        ...(options.page === undefined ? {} : { pageToken: options.page }),
      })
      if (json) return printJson(page)
      printTable(['ID', 'QUEUE', 'STATE', 'ATTEMPT', 'AGE', 'TASK'], page.todos.map(row))
      if (page.nextPageToken !== '') note(`more: --page ${page.nextPageToken}`)
    })
}

const row = (todo: Todo): string[] => [
  todo.id,
  todo.queue,
  [todo.state, todo.nextRetryAt === null ? '' : 'retries', idleText(todo)]
    .filter(Boolean)
    .join(', '),
  `${todo.attempt}/${todo.maxAttempts}`,
  span(Date.now() - Date.parse(todo.createdAt)),
  todo.message === null ? '' : oneLine(partsText(todo.message)),
]
