/**
 * Deletes todos that ended longer ago than their queue keeps them. Goes through the ended todos of
 * each queue in turns, oldest first, a small statement and a rest as long as it took, so that it has
 * at most half of one connection. Those that may not go yet are passed over, not looked at for ever.
 */
import type { Log } from '../../base/log.ts'
import type { Metrics } from '../../base/metrics.ts'
import { sleep } from '../../base/time.ts'
import {
  clearRemains,
  forgetTodos,
  hasRemains,
  type Position,
} from '../../store/admin/retention.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Registry } from '../registry.ts'

export interface RetentionParts {
  database: Database
  registry: Pick<Registry, 'queues'>
  metrics: Metrics
  log: Pick<Log, 'info'>
}

export interface Retention {
  /** Works for a moment; how many todos went, and whether there is more to look at. */
  sweep(): Promise<{ deleted: number; more: boolean }>
}

/** Whoever stops a node waits no longer than this and a statement. */
const SWEEP_MS = 2000
const REST_AT_LEAST_MS = 2

const timed = async <T>(work: () => Promise<T>): Promise<T> => {
  const from = performance.now()
  const result = await work()
  await sleep(Math.max(REST_AT_LEAST_MS, performance.now() - from))
  return result
}

export const createRetention = (parts: RetentionParts): Retention => {
  const { database, registry, metrics, log } = parts
  /** Queues whose round was not over when the time was, and where it goes on. */
  let open = new Map<string, Position | null>()
  /** How many went since they began. */
  let count = 0

  const queuesToKeepShort = async (): Promise<string[]> =>
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
        open = new Map((await queuesToKeepShort()).map((queue) => [queue, null]))
      }
      let deleted = 0
      let more = true
      while (more && performance.now() < until) {
        // In turns: a queue with a million to delete does not stand before the others.
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
