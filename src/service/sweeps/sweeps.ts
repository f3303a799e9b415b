/**
 * Everything that frees a todo without being asked: work of revoked and expired endpoints, lapsed
 * leases, interrupts past their deadline, retries that have come due. Every node runs every sweep;
 * rows are shared out by `skip locked`. What was taken back is counted, and logged in one line.
 *
 * Why waits are reclaimed here and not by a loop of their own: docs/design/interrupt-deadline.md.
 */
import type { Log } from '../../base/log.ts'
import type { Metrics } from '../../base/metrics.ts'
import { OPEN_STATES } from '../../domain/lifecycle.ts'
import { interruptTtlSeconds } from '../../domain/policy.ts'
import type { FeedEvent } from '../../domain/todo.ts'
import type { Moved } from '../../store/move/move.ts'
import type { Database } from '../../store/postgres/database.ts'
import { countTodos } from '../../store/todos/counts.ts'
import { sequenceEvents } from '../../store/todos/events.ts'
import { expireKeys } from '../../store/todos/idempotency.ts'
import type { Registry } from '../registry.ts'
import type { SweepRunner } from '../sweep-runner.ts'
import type { ChildTasks } from '../tasks/children.ts'
import type { Conversations } from '../tasks/conversations.ts'
import type { Retention } from './retention.ts'
import type { Revocation } from './revocation.ts'

export interface SweepParts {
  database: Database
  registry: Registry
  sweepRunner: SweepRunner
  conversations: Conversations
  childTasks: ChildTasks
  revocation: Revocation
  retention: Retention
  metrics: Metrics
  log: Log
  /** Told the events that were given their places in the feed here. */
  onPlaced: (events: readonly FeedEvent[]) => void
}

export interface Sweep {
  /** Lapsed leases and overdue interrupts, after the work of dead endpoints; how many of the two. */
  reap(): Promise<number>
  /** Todos that passed a limit on their time; how many. */
  timeOut(): Promise<number>
  /** Announces todos whose retry or delay is over; how many. */
  comeDue(): Promise<number>
  /** Gives committed events their place in the feed; another node may be at it. */
  place(): Promise<'all' | 'more' | 'not our turn'>
  /** Takes what events have moved into the counts that lists are summed up from. */
  count(): Promise<'all' | 'more'>
  /** Deletes what is over: keys of sends past their window, todos past their queue's retention. */
  tidy(): Promise<'all' | 'more'>
}

const PLACE_BATCH = 1000
const COUNT_BATCH = 5000
/** A tick deletes a bounded number, a few at a time: nobody waits behind it. */
const TIDY_BATCH = 500
const TIDY_BATCHES = 40

export const createSweep = (parts: SweepParts): Sweep => {
  const {
    database,
    registry,
    sweepRunner,
    conversations,
    childTasks,
    revocation,
    retention,
    metrics,
    log,
  } = parts
  const { onPlaced } = parts

  const countReaped = ({ todo }: Moved): void => {
    metrics.todoLeasesExpired.inc({ queue: todo.queue })
    metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'reaped' })
    if (todo.finishedAt) metrics.todosFinished.inc({ queue: todo.queue, state: todo.state })
  }

  const countReclaimed = (moved: Moved): void => {
    countReaped(moved)
    metrics.interruptLeasesReclaimed.inc({ queue: moved.todo.queue })
  }

  const countTimedOut = ({ todo, from, timeout }: Moved): void => {
    metrics.timeouts.inc({ queue: todo.queue, timeout: timeout ?? 'unknown' })
    if (OPEN_STATES.includes(from)) {
      metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'timed_out' })
    }
    if (todo.finishedAt) metrics.todosFinished.inc({ queue: todo.queue, state: todo.state })
  }

  const counted = (sweep: string, rows: number): number => {
    metrics.sweepRows.inc({ sweep }, rows)
    return rows
  }

  let complainedOf: string | null = null

  /** Null is unbounded. A value that does not parse is logged once, and the default kept. */
  const interruptTtl = async (): Promise<number | null> => {
    const value = (await registry.settings()).get('interrupt_lease_ttl_seconds') ?? null
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
      // First, so that no sweep requeues into a queue that only a dead endpoint could claim.
      counted('revoked', await revocation.settleDead())
      const failures: unknown[] = []
      // One that fails keeps none of the others from what they are for.
      const step = async (sweep: string, run: () => Promise<number>): Promise<number> => {
        try {
          return counted(sweep, await run())
        } catch (error) {
          failures.push(error)
          return 0
        }
      }
      const leases = await step('lease', () =>
        sweepRunner('reapLease', { cause: 'lease_expired' }, countReaped),
      )
      const interrupts = await step('interrupt', async () => {
        const change = { ttlSeconds: await interruptTtl(), cause: 'interrupt_expired' }
        return sweepRunner('reapInterrupt', change, countReclaimed)
      })
      await step('line', conversations.sweep)
      await step('family', childTasks.sweep)
      const count = leases + interrupts
      if (count > 0) log.info({ count }, 'reaped expired leases')
      if (failures.length > 0) throw failures[0]
      return count
    },
    timeOut: async () => {
      const requeued = await sweepRunner('timeOut', {}, countTimedOut)
      return counted('timeout', requeued + (await sweepRunner('expire', {}, countTimedOut)))
    },
    comeDue: async () => counted('come_due', await sweepRunner('comeDue')),
    place: async () => {
      const placed = await sequenceEvents(database, PLACE_BATCH)
      if (placed === null) return 'not our turn'
      onPlaced(placed)
      return placed.length === PLACE_BATCH ? 'more' : 'all'
    },
    count: async () => ((await countTodos(database, COUNT_BATCH)) === COUNT_BATCH ? 'more' : 'all'),
    tidy: async () => {
      let gone = 0
      for (let batch = 0; batch < TIDY_BATCHES; batch += 1) {
        const deleted = await expireKeys(database, TIDY_BATCH)
        gone += deleted
        if (deleted < TIDY_BATCH) break
      }
      counted('idempotency_keys', gone)
      const { deleted, more } = await retention.sweep()
      counted('retention', deleted)
      return more ? 'more' : 'all'
    },
  }
}
