/**
 * What every verb of a holder has in common: it names the todo and the fence of its claim, is
 * refused with stale_fence once the lease is lost, and counts what it ends.
 */
import type { Metrics } from '../../base/metrics.ts'
import { type Caller, type Endpoint, endpointWith, type Scope } from '../../domain/endpoint.ts'
import type { Verb } from '../../domain/lifecycle.ts'
import type { BatchItem } from '../../store/move/batch.ts'
import type { Change } from '../../store/move/change.ts'
import {
  BATCHED,
  type BatchedVerb,
  isBatched,
  type Moved,
  transitionMany,
  transitionOne,
} from '../../store/move/move.ts'
import type { Database, Session } from '../../store/postgres/database.ts'
import { createBatcher } from '../batcher.ts'

/** Names the todo and the claim it is held under. `fence` is a number as a decimal string. */
export interface Held {
  id: string
  fence: string
}

export interface HolderParts {
  database: Database
  metrics: Metrics
}

export interface Holder {
  /** Without a session of its own, a verb that comes in crowds shares statements with others. */
  move(verb: Verb, held: Held, caller: Caller, change?: Change, session?: Session): Promise<Moved>
  /** Counts an attempt that ended so. */
  count(moved: Moved, outcome: string): void
}

/** Every todo in the queues of this agent. */
export const scopeOf = (endpoint: Endpoint): Scope => ({ kind: 'queues', queues: endpoint.queues })

/** A move that may share a statement, and within what it may be told why it was refused. */
interface Gathered extends BatchItem {
  scope: Scope
}

export const createHolder = ({ database, metrics }: HolderParts): Holder => {
  const gatherOf = (verb: BatchedVerb) =>
    createBatcher<Gathered, Moved>({
      runOne: ({ id, change, scope }) => transitionOne(database, verb, id, change, scope),
      runBatch: (all) => transitionMany(database, verb, all),
    })
  const gathers = Object.fromEntries(BATCHED.map((verb) => [verb, gatherOf(verb)])) as Record<
    BatchedVerb,
    ReturnType<typeof gatherOf>
  >

  return {
    move: (verb, { id, fence }, caller, more = {}, session = undefined) => {
      const endpoint = endpointWith(caller, 'work')
      const change = { ...more, endpoint: endpoint.id, fence }
      const scope = scopeOf(endpoint)
      return session === undefined && isBatched(verb)
        ? gathers[verb]({ id, change, scope })
        : transitionOne(session ?? database, verb, id, change, scope)
    },
    count: ({ todo }, outcome) => {
      metrics.attemptsEnded.inc({ queue: todo.queue, outcome })
      if (todo.finishedAt) metrics.todosFinished.inc({ queue: todo.queue, state: todo.state })
    },
  }
}
