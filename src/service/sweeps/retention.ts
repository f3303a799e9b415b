/**
 * Deletes todos that ended longer ago than their queue keeps them. It goes through the ended todos
 * of the queues in turn, oldest first: a small statement, then a rest as long as the statement took,
 * so that it uses at most half of one connection. Todos that must stay for now are skipped, so they
 * are not read again and again.
 */
import { sleep } from '../../base/time.ts'
import {
  clearRemains,
  forgetTodos,
  hasRemains,
  type Position,
} from '../../store/admin/retention.ts'
import type { Parts } from '../parts.ts'

export interface Retention {
  /** Works for a moment; returns how many todos were deleted, and whether there is more to do. */
  sweep(): Promise<{ deleted: number; more: boolean }>
}

/** Stopping a node waits no longer than this and a statement. */
const SWEEP_MS = 2000
const MIN_REST_MS = 2

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
}: Pick<Parts, 'database' | 'registry' | 'metrics' | 'log'>): Retention => {
  /** The queues that are not done yet, and where each goes on. */
  let open = new Map<string, Position | null>()
  /** How many were deleted since they began. */
  let count = 0

  const queuesWithRetention = async (): Promise<string[]> =>
    [...(await registry.queues()).values()]
      .filter(({ policy }) => (policy.retentionDays ?? 0) > 0)
      .map(({ name }) => name)

  const forget = async (queue: string, from: Position | null): Promise<number> => {
    const { deleted, next } = await timed(() => forgetTodos(database, queue, from))
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
