/** `deliveries`, `redeliver`, `rotate-secret`: what webhooks were sent, and help where it failed. */
import type { Command } from 'commander'
import { defined } from '../../../base/defined.ts'
import { localMoment, note, oneLine, print } from '../../output.ts'
import {
  clientCommand,
  type PageOptions,
  pageOptions,
  printPage,
  showing,
  wholeNumber,
} from '../../program.ts'
import { resolveId } from '../../todo.ts'

interface Delivery {
  id: string
  todoId: string
  url: string | null
  seq: number
  state: string
  attempts: number
  status: number | null
  reason: string | null
  nextAttemptAt: string | null
}

interface Options extends PageOptions {
  task?: string
  state?: string
}

const MAX_OVERLAP_SECONDS = 2_592_000
const HEAD = ['ID', 'TASK', 'EVENT', 'STATE', 'TRIES', 'STATUS', 'NEXT TRY', 'TO', 'WHY']

export const addDeliveries = (program: Command): void => {
  const deliveries = clientCommand(
    program,
    'deliveries',
    'list what webhooks were told or are owed, newest first',
  )
    .option('--task <id>', 'only of this task')
    .option('--state <state>', 'only pending, delivered or dead ones')
  pageOptions(deliveries).action(
    showing(
      async (client, { task, state, limit: pageSize, page }: Options) => {
        const todoId = task === undefined ? undefined : await resolveId(client, task)
        const params = defined({ pageSize, todoId, state, pageToken: page })
        return client.call<{ deliveries: Delivery[]; nextPageToken: string }>(
          'deliveries.list',
          params,
        )
      },
      (found) => printPage(HEAD, found.deliveries.map(row), found.nextPageToken),
    ),
  )

  clientCommand(program, 'redeliver <id>', 'try a dead delivery again').action(
    showing(
      (client, id: string) => client.call<Delivery>('deliveries.retry', { id }),
      ({ id, state }) => print(`delivery ${id} is ${state}`),
    ),
  )

  clientCommand(program, 'rotate-secret <task> <config>', 'give a webhook another signing secret')
    .option(
      '--overlap <seconds>',
      'how long the one before still signs, too',
      wholeNumber(0, MAX_OVERLAP_SECONDS),
    )
    .action(
      showing(
        async (client, task: string, id: string, { overlap }: { overlap?: number }) => {
          const todoId = await resolveId(client, task)
          const params = defined({ todoId, id, overlapSeconds: overlap })
          return client.call<{ secret: string; previousUntil: string }>('push.rotateSecret', params)
        },
        ({ secret, previousUntil }) => {
          print(secret)
          note(`the one before signs, too, until ${localMoment(previousUntil)}`)
        },
      ),
    )
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
