/**
 * What becomes of a revoked endpoint's work. What it holds, interrupted todos too, goes back to the
 * queue where another live endpoint may claim it, and is dead-lettered where nobody could. Its own
 * sent tasks go on, unless the operator asks to cancel them.
 */
import type { Metrics } from '../base/metrics.ts'
import { Refusal } from '../domain/errors.ts'
import { STATE_NAMES, STATES } from '../domain/lifecycle.ts'
import { type Endpoint, EVERYTHING, type Scope } from '../domain/scope.ts'
import type { Database } from '../store/database.ts'
import { readQueuesServed } from '../store/endpoints.ts'
import { listTodos } from '../store/todos.ts'
import { transitionDue } from '../store/transition.ts'
import { cancelTodo } from './client.ts'

const BATCH = 200

export const settleRevoked = async (
  database: Database,
  metrics: Metrics,
  endpoint: Endpoint,
): Promise<void> => {
  const served = await readQueuesServed(database, endpoint.queues)
  const stranded = endpoint.queues.filter((queue) => !served.includes(queue))
  for (const [verb, queues] of [
    ['revoke', served],
    ['strand', stranded],
  ] as const) {
    if (queues.length === 0) continue
    for (let moved = BATCH; moved === BATCH; ) {
      const settled = await transitionDue(database, verb, BATCH, {
        endpoint: endpoint.id,
        queues,
        cause: 'endpoint_revoked',
      })
      for (const { todo } of settled) {
        metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'revoked' })
        if (todo.finishedAt) metrics.todosFinished.inc({ queue: todo.queue, state: todo.state })
      }
      moved = settled.length
    }
  }
}

const LIVE = STATE_NAMES.filter((state) => STATES[state] !== 'ended' || state === 'failed')

/** Cancels every live todo this endpoint sent. One that ends meanwhile is left as it ended. */
export const cancelAllOf = async (
  database: Database,
  metrics: Metrics,
  clientId: string,
  queues: readonly string[],
): Promise<void> => {
  for (const queue of queues) {
    const scope: Scope = { kind: 'client', clientId, queue }
    for (let left = true; left; ) {
      const { todos } = await listTodos(
        database,
        { states: LIVE, retrying: 'only', pageSize: BATCH, includeArtifacts: false },
        scope,
      )
      for (const { todo } of todos) {
        await cancelTodo(database, metrics, todo.id, EVERYTHING).catch((error: unknown) => {
          if (!(error instanceof Refusal)) throw error
        })
      }
      left = todos.length === BATCH
    }
  }
}
