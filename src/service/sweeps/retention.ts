/**
 * Deletes todos that ended longer ago than their queue keeps them. It goes through the ended todos
 * of the queues in turn, oldest first: a small statement, then a rest as long as the statement took,
 * so that it uses at most half of one connection. Todos that must stay for now are skipped, so they
 * are not read again and again. Where a statement fails, its todos are deleted one by one: what cannot
 * be deleted is told of and left, and everything behind it goes on.
 */
import { sleep } from '../../base/time.ts'
import { isRefusal } from '../../domain/errors.ts'
import {
  clearRemains,
  forgetTodos,
  hasRemains,
  type Position,
  readNextEnded,
} from '../../store/admin/retention.ts'
import type { Parts } from '../parts.ts'

export interface Retention {
  /** Works for a moment; returns how many todos were deleted, and whether there is more to do. */
  sweep(): Promise<{ deleted: number; more: boolean }>
}

/** Stopping a node waits no longer than this and a statement. */
const SWEEP_MS = 2000
const MIN_REST_MS = 2
/** After so many one by one it is tried again with many at once. */
const ONE_BY_ONE = 50

const timed = async <T>(work: () => Promise<T>): Promise<T> => {
  const from = performance.now()
  const result = await work()
  await sleep(Math.max(MIN_REST_MS, performance.now() - from))
  return result
}

export const createRetention = ({
  database,
  registry,
  metrics,
  log,
  stuckRows,
}: Pick<Parts, 'database' | 'registry' | 'metrics' | 'log' | 'stuckRows'>): Retention => {
  /** The queues that are not done yet, and where each goes on. */
  let open = new Map<string, Position | null>()
  /** How many were deleted since they began. */
  let count = 0

  const queuesWithRetention = async (): Promise<string[]> =>
    [...(await registry.queues()).values()]
      .filter(({ policy }) => (policy.retentionDays ?? 0) > 0)
      .map(({ name }) => name)

  type Forgotten = Awaited<ReturnType<typeof forgetTodos>>

  const oneByOne = async (queue: string, from: Position | null): Promise<Forgotten> => {
    let [deleted, next] = [0, from]
    for (let n = 0; n < ONE_BY_ONE; n += 1) {
      try {
        const one = await forgetTodos(database, queue, next, true)
        deleted += one.deleted
        next = one.next
      } catch (error) {
        if (isRefusal(error, 'unavailable')) throw error
        next = await readNextEnded(database, queue, next)
        if (next) stuckRows('tidy', { todo: next.id }, 'a todo could not be deleted', error)
      }
      if (!next) break
    }
    return { deleted, next }
  }

  const forgetSome = async (queue: string, from: Position | null): Promise<Forgotten> => {
    try {
      return await forgetTodos(database, queue, from)
    } catch (error) {
      if (isRefusal(error, 'unavailable')) throw error
      return oneByOne(queue, from)
    }
  }

  const forget = async (queue: string, from: Position | null): Promise<number> => {
    const { deleted, next } = await timed(() => forgetSome(queue, from))
    if (next) open.set(queue, next)
    else open.delete(queue)
    metrics.todosDeleted.inc({ queue }, deleted)
    return deleted
  }

  return {
    sweep: async () => {
      const until = performance.now() + SWEEP_MS
      if (open.size === 0) {
        count = 0
        open = new Map((await queuesWithRetention()).map((queue) => [queue, null]))
      }
      let deleted = 0
      let more = true
      while (more && performance.now() < until) {
        // The queues take turns, so that one with a million to delete does not hold up the others.
        for (const [queue, from] of [...open]) deleted += await forget(queue, from)
        const left = (await hasRemains(database)) && (await timed(() => clearRemains(database)))
        more = left || open.size > 0
      }
      count += deleted
      if (!more && count > 0) log.info({ count }, 'deleted todos past their retention')
      return { deleted, more }
    },
  }
}
