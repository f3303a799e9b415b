/**
 * What every verb of a holder has in common: it names the todo and the fence of its claim, and is
 * refused with stale_fence once the lease is lost.
 */
import { type Caller, type Endpoint, endpointWith, type Scope } from '../../domain/endpoint.ts'
import type { Verb } from '../../domain/lifecycle.ts'
import type { Todo } from '../../domain/todo.ts'
import type { BatchItem, Change } from '../../store/move/change.ts'
import { type Moved, transitionMany, transitionOne } from '../../store/move/move.ts'
import { BATCHED, type BatchedVerb, isBatched } from '../../store/move/verbs.ts'
import type { Session } from '../../store/postgres/database.ts'
import { createBatcher } from '../batcher.ts'
import { countEnded } from '../count-ended.ts'
import type { Parts } from '../parts.ts'

/** Names the todo and the claim it is held under. `fence` is a number as a decimal string. */
export interface Held {
  id: string
  fence: string
}

export interface Holder {
  /** Without a session of its own, a verb that comes in crowds shares statements with others. */
  move(verb: Verb, held: Held, caller: Caller, change?: Change, session?: Session): Promise<Moved>
  /** The todo once it is moved, with the attempt counted as ended by this outcome. */
  end(moving: Promise<Moved>, outcome: string): Promise<Todo>
}

/** Every todo in the queues of this agent. */
export const scopeOf = (endpoint: Endpoint): Scope => ({ kind: 'queues', queues: endpoint.queues })

/** A move that can share a statement. Its scope limits what a refusal may reveal. */
interface ScopedItem extends BatchItem {
  scope: Scope
}

export const createHolder = ({
  database,
  metrics,
}: Pick<Parts, 'database' | 'metrics'>): Holder => {
  const batcherOf = (verb: BatchedVerb) =>
    createBatcher<ScopedItem, Moved>({
      runOne: ({ id, change, scope }) => transitionOne(database, verb, id, change, scope),
      runBatch: (all) => transitionMany(database, verb, all),
    })
  const batchers = Object.fromEntries(BATCHED.map((verb) => [verb, batcherOf(verb)])) as Record<
    BatchedVerb,
    ReturnType<typeof batcherOf>
  >

  return {
    move: async (verb, { id, fence }, caller, more = {}, session = undefined) => {
      const endpoint = endpointWith(caller, 'work')
      const change = { ...more, endpoint: endpoint.id, fence }
      const scope = scopeOf(endpoint)
      return session === undefined && isBatched(verb)
        ? batchers[verb]({ id, change, scope })
        : transitionOne(session ?? database, verb, id, change, scope)
    },
    end: async (moving, outcome) => {
      const moved = await moving
      countEnded(metrics, moved, outcome)
      return moved.todo
    },
  }
}
