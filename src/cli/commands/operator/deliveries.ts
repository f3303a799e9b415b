/** `deliveries`, `redeliver`, `rotate-secret`: what webhooks were told, and a hand where they were not. */
import type { Command } from 'commander'
import { localMoment, note, oneLine, print, printJson, printTable } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions, wholeNumber } from '../../program.ts'
import { resolveId } from '../../todo.ts'

interface Delivery {
  id: string
  todoId: string
  configId: string
  url: string | null
  seq: number
  state: string
  attempts: number
  status: number | null
  reason: string | null
  createdAt: string
  nextAttemptAt: string | null
  settledAt: string | null
}

interface Options extends SharedOptions {
  task?: string
  state?: string
  limit: number
  page?: string
}

interface RotateOptions extends SharedOptions {
  overlap?: number
}

const MAX_OVERLAP_SECONDS = 2_592_000

export const addDeliveries = (program: Command): void => {
  clientCommand(program, 'deliveries', 'list what webhooks were told or are owed, newest first')
    .option('--task <id>', 'only of this task')
    .option('--state <state>', 'only pending, delivered or dead ones')
    .option('--limit <n>', 'at most so many', wholeNumber(1, 100), 50)
    .option('--page <token>', 'the page after, by the token that the page before gave')
    .action(async ({ task, state, limit, page, ...options }: Options) => {
      const { client, json } = openSession(options)
      const found = await client.call<{ deliveries: Delivery[]; nextPageToken: string }>(
        'deliveries.list',
        {
          pageSize: limit,
          ...(task === undefined ? {} : { todoId: await resolveId(client, task) }),
          ...(state === undefined ? {} : { state }),
          ...(page === undefined ? {} : { pageToken: page }),
        },
      )
      if (json) return printJson(found)
      printTable(
        ['ID', 'TASK', 'EVENT', 'STATE', 'TRIES', 'STATUS', 'NEXT TRY', 'TO', 'WHY'],
        found.deliveries.map(row),
      )
      if (found.nextPageToken !== '') note(`more: --page ${found.nextPageToken}`)
    })

  clientCommand(program, 'redeliver <id>', 'try a dead delivery again').action(
    async (id: string, options: SharedOptions) => {
      const { client, json } = openSession(options)
      const delivery = await client.call<Delivery>('deliveries.retry', { id })
      if (json) printJson(delivery)
      else print(`delivery ${delivery.id} is ${delivery.state}`)
    },
  )

  clientCommand(program, 'rotate-secret <task> <config>', 'give a webhook another signing secret')
    .option(
      '--overlap <seconds>',
      'how long the one before still signs, too',
      wholeNumber(0, MAX_OVERLAP_SECONDS),
    )
    .action(async (task: string, config: string, { overlap, ...options }: RotateOptions) => {
      const { client, json } = openSession(options)
      const rotated = await client.call<{ secret: string; previousUntil: string }>(
        'push.rotateSecret',
        {
          todoId: await resolveId(client, task),
          id: config,
          ...(overlap === undefined ? {} : { overlapSeconds: overlap }),
        },
      )
      if (json) return printJson(rotated)
      print(rotated.secret)
      note(`the one before signs, too, until ${localMoment(rotated.previousUntil)}`)
    })
}

const row = (delivery: Delivery): string[] => [
  delivery.id,
  delivery.todoId,
  String(delivery.seq),
  delivery.state,
  String(delivery.attempts),
  delivery.status === null ? '-' : String(delivery.status),
  localMoment(delivery.nextAttemptAt),
  oneLine(delivery.url ?? '(deleted)'),
  oneLine(delivery.reason ?? ''),
]
