/**
 * Everything that frees a todo without being asked: lapsed leases, interrupts past their deadline,
 * retries that have come due. One tick runs them in this order, in bounded batches, on every node;
 * rows are shared out by `skip locked`. Counts what it took back and logs one line when it did.
 *
 * Source: ADR-0046, Mechanics.
 */
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import { interruptTtlSeconds } from '../domain/policy.ts'
import type { Database } from '../store/database.ts'
import { placeEvents } from '../store/events.ts'
import { type Moved, transitionDue } from '../store/transition.ts'
import type { Directory } from './directory.ts'

export interface SweepParts {
  database: Database
  directory: Directory
  metrics: Metrics
  log: Log
}

export interface Sweep {
  /** Lapsed leases and overdue interrupts; how many it took back. */
  reap(): Promise<number>
  /** Announces todos whose retry or delay is over; how many. */
  comeDue(): Promise<number>
  /** Gives committed events their place in the feed; another node may be at it. */
  place(): Promise<'all' | 'more' | 'not our turn'>
}

const BATCH = 200
const PLACE_BATCH = 1000

export const createSweep = ({ database, directory, metrics, log }: SweepParts): Sweep => {
  const inBatches = async (
    sweep: () => Promise<Moved[]>,
    each: (moved: Moved) => void = () => {},
  ): Promise<number> => {
    let total = 0
    for (;;) {
      const moved = await sweep()
      moved.forEach(each)
      total += moved.length
      if (moved.length < BATCH) return total
    }
  }

  const countReaped = ({ todo }: Moved): void => {
    metrics.todoLeasesExpired.inc({ queue: todo.queue })
    metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'reaped' })
    if (todo.finishedAt) metrics.todosFinished.inc({ queue: todo.queue, state: todo.state })
  }

  let complainedOf: string | null = null

  /** Null is unbounded. A value that does not parse is logged once, and the default kept. */
  const interruptTtl = async (): Promise<number | null> => {
    const value = (await directory.settings()).get('interrupt_lease_ttl_seconds') ?? null
    const { seconds, parsed } = interruptTtlSeconds(value)
    if (parsed) complainedOf = null
    else if (complainedOf !== value) {
      complainedOf = value
      log.warn({ setting: 'interrupt_lease_ttl_seconds', value }, 'not a number: default kept')
    }
    return seconds
  }

  return {
    reap: async () => {
      let count = await inBatches(
        () => transitionDue(database, 'reapLease', BATCH, { cause: 'lease_expired' }),
        countReaped,
      )
      const ttlSeconds = await interruptTtl()
      count += await inBatches(
        () =>
          transitionDue(database, 'reapInterrupt', BATCH, {
            ttlSeconds,
            cause: 'interrupt_expired',
          }),
        (moved) => {
          countReaped(moved)
          metrics.interruptLeasesReclaimed.inc({ queue: moved.todo.queue })
        },
      )
      if (count > 0) log.info({ count }, 'reaped expired leases')
      return count
    },
    comeDue: () => inBatches(() => transitionDue(database, 'comeDue', BATCH)),
    place: async () => {
      const placed = await placeEvents(database, PLACE_BATCH)
      if (placed === null) return 'not our turn'
      return placed === PLACE_BATCH ? 'more' : 'all'
    },
  }
}
