/**
 * Everything that moves a todo without being asked: work of revoked and expired endpoints, lapsed
 * leases, interrupts past their deadline, retries that have come due. Every node runs every sweep,
 * and `skip locked` shares out the rows. What was taken back is counted, and logged in one line.
 *
 * Why waits are reclaimed here and not by a loop of their own: docs/design/interrupt-deadline.md.
 */
import { interruptTtlSeconds } from '../../domain/policy.ts'
import type { FeedEvent } from '../../domain/todo.ts'
import type { Moved } from '../../store/move/move.ts'
import { countTodos } from '../../store/todos/counts.ts'
import { sequenceEvents } from '../../store/todos/events.ts'
import { expireKeys } from '../../store/todos/idempotency.ts'
import { countEnded } from '../count-ended.ts'
import type { Parts } from '../parts.ts'
import type { Ticker } from '../schedules/ticks.ts'
import type { SweepRunner } from '../sweep-runner.ts'
import type { ChildTasks } from '../tasks/children.ts'
import type { Conversations } from '../tasks/conversations.ts'
import type { Retention } from './retention.ts'
import type { Revocation } from './revocation.ts'

export interface SweepParts extends Pick<Parts, 'database' | 'registry' | 'metrics' | 'log'> {
  sweepRunner: SweepRunner
  conversations: Conversations
  childTasks: ChildTasks
  revocation: Revocation
  retention: Retention
  ticker: Ticker
  /** Called with the events that were given their positions in the feed here. */
  onSequenced: (events: readonly FeedEvent[]) => void
}

export interface Sweep {
  /**
   * Takes back the work of dead endpoints, then lapsed leases and overdue interrupts; returns how many
   * leases and interrupts.
   */
  reap(): Promise<number>
  /** Moves todos that passed a limit on their time; returns how many. */
  timeOut(): Promise<number>
  /** Announces todos whose retry or delay is over, or lines them up; returns how many. */
  comeDue(): Promise<number>
  /** Makes the todos of schedules whose tick is due; returns how many. */
  tick(): Promise<number>
  /** Gives committed events their positions in the feed, unless another node is at it. */
  place(): Promise<'all' | 'more' | 'not our turn'>
  /** Moves the changes of events into the counts that the totals of lists come from. */
  count(): Promise<'all' | 'more'>
  /** Deletes keys of sends past their window, and todos past their queue's retention. */
  tidy(): Promise<'all' | 'more'>
}

const SEQUENCE_BATCH = 1000
const COUNT_BATCH = 5000
/** A tick deletes a bounded number, a few at a time, so that nobody waits behind it. */
const TIDY_BATCH = 500
const TIDY_BATCHES = 40

export const createSweep = (parts: SweepParts): Sweep => {
  const { database, registry, sweepRunner, revocation, retention, metrics, log } = parts
  const { conversations, childTasks, onSequenced } = parts

  const countReaped = (moved: Moved): void => {
    const { queue } = moved.todo
    metrics.todoLeasesExpired.inc({ queue })
    if (moved.neverStarted) metrics.attemptsNeverStarted.inc({ queue })
    if (moved.unheard) metrics.answersUnheard.inc({ queue })
    countEnded(metrics, moved, 'reaped')
  }

  const countReclaimed = (moved: Moved): void => {
    countReaped(moved)
    metrics.interruptLeasesReclaimed.inc({ queue: moved.todo.queue })
  }

  const countParked = ({ todo: { queue } }: Moved): void => metrics.waitHoldersLost.inc({ queue })

  const countTimedOut = (moved: Moved): void => {
    metrics.timeouts.inc({ queue: moved.todo.queue, timeout: moved.timeout ?? 'unknown' })
    countEnded(metrics, moved, 'timed_out')
  }

  const counted = (sweep: string, rows: number): number => {
    metrics.sweepRows.inc({ sweep }, rows)
    return rows
  }

  let warnedOf: string | null = null

  /** Null is unbounded. A value that does not parse is logged once, and the default is kept. */
  const interruptTtl = async (): Promise<number | null> => {
    const value = (await registry.settings()).get('interrupt_lease_ttl_seconds') ?? null
    const { seconds, parsed } = interruptTtlSeconds(value)
    if (parsed) warnedOf = null
    else if (warnedOf !== value) {
      warnedOf = value
      log.warn({ setting: 'interrupt_lease_ttl_seconds', value }, 'not a number: default kept')
    }
    return seconds
  }

  return {
    reap: async () => {
      // This comes first, so that no sweep requeues into a queue that only a dead endpoint serves.
      counted('revoked', (await revocation.settleDead()) + (await revocation.settleIdle(null)))
      const failures: unknown[] = []
      // A step that fails does not keep the others from running.
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
      // What is past its deadline has gone by now, and is not parked first.
      const parked = await step('holder', () => sweepRunner('park', {}, countParked))
      if (parked > 0) log.info({ count: parked }, 'parked waits of holders that are gone')
      await step('line', conversations.sweep)
      await step('family', childTasks.sweep)
      const count = leases + interrupts
      if (count > 0) log.info({ count }, 'reaped expired leases')
      if (failures.length > 0) throw failures[0]
      return count
    },
    timeOut: async () => {
      const requeued = await sweepRunner('timeOut', {}, countTimedOut)
      const expired = await sweepRunner('expire', {}, countTimedOut)
      const overdue: string[] = []
      const joins = await sweepRunner(
        'joinTimeOut',
        {},
        ({ todo: { id, queue, joinTimedOutAt } }) => {
          if (!joinTimedOutAt) return
          metrics.joinTimeouts.inc({ queue })
          overdue.push(id)
        },
      )
      if (overdue.length > 0) await childTasks.cancelLeft(overdue)
      return counted('timeout', requeued + expired + joins)
    },
    comeDue: async () => {
      // Its line may be free, and then nobody else would hand it over.
      const lined = await sweepRunner('enterLine', {}, ({ todo }) => {
        if (todo.line) conversations.recheckSoon(todo.line)
      })
      return counted('come_due', lined + (await sweepRunner('comeDue')))
    },
    tick: parts.ticker,
    place: async () => {
      const sequenced = await sequenceEvents(database, SEQUENCE_BATCH)
      if (sequenced === null) return 'not our turn'
      onSequenced(sequenced)
      return sequenced.length === SEQUENCE_BATCH ? 'more' : 'all'
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
