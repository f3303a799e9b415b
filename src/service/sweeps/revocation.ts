/**
 * What becomes of a revoked or expired endpoint's work. What it holds, interrupted todos too, goes
 * back to the queue where another live endpoint may claim it, and is dead-lettered where nobody
 * could: requeued, it would park for good. Its own sent tasks go on, unless the operator asks to
 * cancel them.
 */
import type { Metrics } from '../../base/metrics.ts'
import { sleep } from '../../base/time.ts'
import { type Endpoint, EVERYTHING } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { STATE_NAMES, STATES } from '../../domain/lifecycle.ts'
import {
  readDeadHolders,
  readQueuesSentTo,
  readQueuesServed,
  revokeExpired,
} from '../../store/admin/endpoints.ts'
import type { Moved } from '../../store/move/move.ts'
import type { Database } from '../../store/postgres/database.ts'
import { listTodos } from '../../store/todos/list.ts'
import type { SweepRunner } from '../sweep-runner.ts'
import { cancelTodo } from '../tasks/cancel.ts'

export interface RevocationParts {
  database: Database
  sweepRunner: SweepRunner
  metrics: Metrics
}

export interface Revocation {
  /** Settles what this endpoint holds; how many todos. */
  settle(endpointId: string): Promise<number>
  /** Revokes what has expired, and settles what any revoked endpoint still holds. */
  settleDead(): Promise<number>
  /** Cancels every live todo this endpoint sent. One that ends meanwhile is left as it ended. */
  cancelAllOf(client: Endpoint): Promise<void>
}

const PAGE = 200
const PASSES = 5
const PAUSE_MS = 10
const LIVE = STATE_NAMES.filter((state) => STATES[state] !== 'ended' || state === 'failed')

export const createRevocation = ({
  database,
  sweepRunner,
  metrics,
}: RevocationParts): Revocation => {
  const countEnded = ({ todo }: Moved): void => {
    metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'revoked' })
    if (todo.finishedAt) metrics.todosFinished.inc({ queue: todo.queue, state: todo.state })
  }

  const settleOnce = async (endpointId: string): Promise<number> => {
    const held = await readDeadHolders(database, endpointId)
    const queues = held.map(({ queue }) => queue)
    const served = await readQueuesServed(database, queues)
    const change = { endpoint: endpointId, cause: 'endpoint_revoked' }
    const stranded = queues.filter((queue) => !served.includes(queue))
    const requeued = await sweepRunner('revoke', { ...change, queues: served }, countEnded)
    return requeued + (await sweepRunner('strand', { ...change, queues: stranded }, countEnded))
  }

  /** A row that its holder is just writing to is passed over: it is asked for again. */
  const settle = async (endpointId: string): Promise<number> => {
    let total = 0
    for (let pass = 1; ; pass += 1) {
      const settled = await settleOnce(endpointId)
      total += settled
      if (pass === PASSES || (pass > 1 && settled === 0)) return total
      await sleep(PAUSE_MS)
    }
  }

  return {
    settle,
    settleDead: async () => {
      await revokeExpired(database)
      const holders = new Set((await readDeadHolders(database, null)).map(({ owner }) => owner))
      let total = 0
      for (const owner of holders) total += await settle(owner)
      return total
    },
    cancelAllOf: async ({ id: clientId }) => {
      for (const queue of await readQueuesSentTo(database, clientId)) {
        for (let full = true; full; ) {
          const { todos } = await listTodos(
            database,
            { states: LIVE, retrying: 'only', pageSize: PAGE, includeArtifacts: false },
            { kind: 'client', clientId, queue },
          )
          for (const { todo } of todos) {
            await cancelTodo(database, metrics, todo.id, EVERYTHING).catch((error: unknown) => {
              if (!(error instanceof Refusal)) throw error
            })
          }
          full = todos.length === PAGE
        }
      }
    },
  }
}
