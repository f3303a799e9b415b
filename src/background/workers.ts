/**
 * The workers of a node, in the order they start. How often each sweep runs, and that a failed one
 * is tried again soon, is decided here; what follows from failing, in worker-failures.ts.
 */
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import { backoffMs, every, sleep } from '../base/time.ts'
import { Waiter } from '../base/wait/waiter.ts'
import { Refusal } from '../domain/errors.ts'
import type { Checks, Poll } from '../service/chores.ts'
import type { Sweep } from '../service/sweeps/sweeps.ts'
import type { Health, Worker } from './supervisor.ts'
import { WORKERS, type WorkerName } from './worker-failures.ts'

export interface WorkerParts {
  sweep: Sweep
  /** Listens until the signal fires; rejects when the connection is lost. */
  listen: (signal: AbortSignal, onListening: () => void) => Promise<void>
  log: Log
  metrics: Metrics
  /** Calls back when events without a position in the feed have been committed. Returns an off. */
  onCommitted: (listener: () => void) => () => void
  reapMs: number
  comeDueMs: number
  scheduleMs: number
  /** Commits nudge the sequencer; this is how long a lost nudge may delay an event. */
  sequenceMs: number
  /** How long lists add up what events have moved before it is folded into their totals. */
  countMs: number
  tidyMs: number
  courier: Worker['run']
  hooks: Worker['run']
  activity: (signal: AbortSignal, onCounted: () => void) => Promise<void>
  waiters: { poll: Poll }
  watch: { polls: readonly Poll[] }
  conversations: { checks: Checks }
  childTasks: { checks: Checks }
  /** Calls back after wakes may have been lost. Returns an off. */
  onLost: (listener: () => void) => () => void
}

/**
 * Events committed in a busy moment are sequenced together, so a busy feed costs 50 statements a
 * second. The first waits a little as well, to let whoever was woken by that commit go first.
 */
const FIRST_MS = 4
const GATHER_MS = 16

/** A sweep that failed is tried again within seconds, however long its interval. */
const SOON = { initialMs: 250, maxMs: 3000 }

export const createWorkers = (parts: WorkerParts): Worker[] => {
  const { sweep, reapMs, comeDueMs, scheduleMs, countMs, tidyMs } = parts
  const worker = (name: WorkerName, run: Worker['run']): Worker => ({
    name: WORKERS[name].label,
    policy: WORKERS[name].policy,
    run,
  })
  const ticking = (name: WorkerName, label: string, ms: number, work: () => Promise<unknown>) =>
    worker(name, (signal, health) => sweeping(guarded(label, work, parts, health), ms, signal))
  const checking = (name: WorkerName, { of, check, run }: Checks) =>
    worker(name, (signal, health) => {
      const about = (id: string) => ({ [of]: id })
      return run(reported({ name, work: check, about }, parts, health), signal)
    })
  const polling = (name: WorkerName, polls: readonly Poll[], onLost?: WorkerParts['onLost']) =>
    worker(name, async (signal, health) => {
      const healthOf = sharing(health)
      const loops = polls.map(({ look, everyMs }) => {
        const work = async () => {
          await look()
          return 'looked'
        }
        return pollingEvery(everyMs, reported({ name, work }, parts, healthOf()), signal, onLost)
      })
      await Promise.all(loops)
    })
  return [
    // The first to start end last: until then they hear of what the others do.
    worker('hooks', parts.hooks),
    worker('activity', (signal, health) => parts.activity(signal, health.ok)),
    polling('waiters', [parts.waiters.poll], parts.onLost),
    polling('watch', parts.watch.polls),
    checking('conversations', parts.conversations.checks),
    checking('children', parts.childTasks.checks),
    worker('listener', (signal, health) => parts.listen(signal, health.ok)),
    ticking('reaper', 'reap', reapMs, sweep.reap),
    ticking('dueAnnouncer', 'come_due', comeDueMs, sweep.comeDue),
    ticking('timeouts', 'timeout', comeDueMs, sweep.timeOut),
    ticking('scheduler', 'schedule', scheduleMs, sweep.tick),
    worker('sequencer', (signal, health) =>
      sequencing(guarded('place', sweep.place, parts, health), parts, signal),
    ),
    worker('courier', parts.courier),
    ticking('counter', 'count', countMs, sweep.count),
    ticking('janitor', 'tidy', tidyMs, sweep.tidy),
  ]
}

/** Sweeps at every interval, sooner after a failure, and at once where there is more. */
const sweeping = (
  sweep: () => Promise<unknown>,
  intervalMs: number,
  signal: AbortSignal,
): Promise<void> => {
  let failures = 0
  const tick = async () => {
    const swept = await sweep()
    failures = swept === undefined ? failures + 1 : 0
    if (swept === 'more') return { againInMs: 0 }
    const soon = failures > 0 ? backoffMs(failures, SOON) : intervalMs
    return { againInMs: Math.min(intervalMs, soon) }
  }
  return every(intervalMs, tick, signal, { onError })
}

/** Left to the supervisor, since a sweep has dealt with its own errors. */
const onError = (error: unknown): void => {
  throw error
}

/** For several things that one worker does: it is well when all of them are. */
const sharing = (health: Health): (() => Health) => {
  const failing = new Set<Health>()
  return () => {
    const own: Health = {
      ok: () => {
        failing.delete(own)
        if (failing.size === 0) health.ok()
      },
      failed: () => {
        failing.add(own)
        health.failed()
      },
    }
    return own
  }
}

/**
 * Looks at every interval, sooner after a failure, and at once after wakes may have been lost. `look`
 * resolves to undefined where it failed, and never rejects.
 */
const pollingEvery = async (
  everyMs: number,
  look: () => Promise<unknown>,
  signal: AbortSignal,
  onLost: WorkerParts['onLost'] = () => () => {},
): Promise<void> => {
  const waiter = new Waiter()
  const off = onLost(() => waiter.wake())
  let failures = 0
  try {
    while (!signal.aborted) {
      waiter.clear()
      const looked = await look()
      failures = looked === undefined ? failures + 1 : 0
      const soonMs = failures > 0 ? backoffMs(failures, SOON) : everyMs
      await waiter.sleep(Math.min(everyMs, soonMs), signal)
    }
  } finally {
    off()
  }
}

interface Reported<Args extends unknown[], Result> {
  /** As `switchboard_sweep_failures_total{sweep}` and the log have it. */
  name: string
  work: (...args: Args) => Promise<Result>
  /** What of its arguments goes into the log. */
  about?: (...args: Args) => object
}

/**
 * The work, with its failures counted, logged and told to the supervisor; it resolves to undefined
 * where it failed. While the database is away that is logged once, not at every try.
 */
const reported = <Args extends unknown[], Result>(
  { name, work, about }: Reported<Args, Result>,
  { log, metrics }: Pick<WorkerParts, 'log' | 'metrics'>,
  health: Health,
) => {
  let away = false
  metrics.sweepFailures.inc({ sweep: name }, 0)
  return async (...args: Args): Promise<Result | undefined> => {
    try {
      const result = await work(...args)
      away = false
      health.ok()
      return result
    } catch (error) {
      metrics.sweepFailures.inc({ sweep: name })
      health.failed()
      const unavailable = error instanceof Refusal && error.kind === 'unavailable'
      if (!away || !unavailable) {
        log.error({ sweep: name, ...about?.(...args), err: error }, 'a sweep failed')
      }
      away = unavailable
      return undefined
    }
  }
}

/** A sweep is reported with the time it took. */
const guarded = <T>(name: string, sweep: () => Promise<T>, parts: WorkerParts, health: Health) => {
  const timed = async (): Promise<T> => {
    const end = parts.metrics.sweepSeconds.startTimer({ sweep: name })
    try {
      return await sweep()
    } finally {
      end()
    }
  }
  return reported({ name, work: timed }, parts, health)
}

/** Sequences events as commits come, and looks again at every interval. */
const sequencing = async (
  place: () => Promise<'all' | 'more' | 'not our turn' | undefined>,
  { onCommitted, sequenceMs }: WorkerParts,
  signal: AbortSignal,
): Promise<void> => {
  const committed = new Waiter()
  const off = onCommitted(() => committed.wake())
  try {
    while (!signal.aborted) {
      if (committed.isWoken) await sleep(FIRST_MS, signal).catch(() => {})
      committed.clear()
      const nextAt = performance.now() + GATHER_MS
      const sequenced = await place()
      // Whoever has the turn may have looked before our commit, so it has to be tried again.
      if (sequenced === 'not our turn') committed.wake()
      // Thousands may have been told of these events by now, and that time counts.
      const restMs = sequenced === 'more' ? 0 : Math.max(0, nextAt - performance.now())
      await sleep(restMs, signal).catch(() => {})
      if (sequenced !== 'more') await committed.sleep(sequenceMs, signal)
    }
  } finally {
    off()
  }
}
