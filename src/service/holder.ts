/**
 * What every verb of a holder has in common: it names the todo and the fence of its claim, is
 * refused with stale_fence once the lease is lost, and counts what it ends.
 */
import type { Metrics } from '../base/metrics.ts'
import type { Verb } from '../domain/lifecycle.ts'
import { type Caller, type Endpoint, endpointWith, type Scope } from '../domain/scope.ts'
import type { Change } from '../store/change.ts'
import type { Database, Session } from '../store/database.ts'
import { type Moved, transitionOne } from '../store/transition.ts'
import type { Held } from './contract.ts'

export interface HolderParts {
  database: Database
  metrics: Metrics
}

export interface Holder {
  move(verb: Verb, held: Held, caller: Caller, change?: Change, session?: Session): Promise<Moved>
  /** Counts an attempt that ended so. */
  count(moved: Moved, outcome: string): void
}

/** Every todo in the queues of this agent. */
export const scopeOf = (endpoint: Endpoint): Scope => ({ kind: 'queues', queues: endpoint.queues })

export const createHolder = ({ database, metrics }: HolderParts): Holder => ({
  move: (verb, { id, fence }, caller, change = {}, session = database) => {
    const endpoint = endpointWith(caller, 'work')
    const whole = { ...change, endpoint: endpoint.id, fence }
    return transitionOne(session, verb, id, whole, scopeOf(endpoint))
  },
  count: ({ todo }, outcome) => {
    metrics.attemptsEnded.inc({ queue: todo.queue, outcome })
    if (todo.finishedAt) metrics.todosFinished.inc({ queue: todo.queue, state: todo.state })
  },
})
