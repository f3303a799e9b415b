/**
 * The workers of a node, in the order they start. How often each sweep runs, and that a failed one
 * is tried again soon, is decided here; what follows from failing, in worker-failures.ts.
 */
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import { backoffMs, every, sleep } from '../base/time.ts'
import { Waiter } from '../base/wait/waiter.ts'
import { Refusal } from '../domain/errors.ts'
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
  /** Commits nudge the sequencer; this is how long a lost nudge may delay an event. */
  sequenceMs: number
  /** How long lists add up what events have moved before it is folded into their totals. */
  countMs: number
  tidyMs: number
  courier: Worker['run']
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
  const { sweep, reapMs, comeDueMs, countMs, tidyMs } = parts
  const worker = (name: WorkerName, run: Worker['run']): Worker => ({
    name: WORKERS[name].label,
    policy: WORKERS[name].policy,
    run,
  })
  const ticking = (name: WorkerName, label: string, ms: number, work: () => Promise<unknown>) =>
    worker(name, (signal, health) => sweeping(guarded(label, work, parts, health), ms, signal))
  return [
    worker('listener', (signal, health) => parts.listen(signal, health.ok)),
    ticking('reaper', 'reap', reapMs, sweep.reap),
    ticking('dueAnnouncer', 'come_due', comeDueMs, sweep.comeDue),
    ticking('timeouts', 'timeout', comeDueMs, sweep.timeOut),
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

/**
 * The sweep with its time measured; it resolves to undefined where it failed. While the database is
 * away that is logged once, not at every try.
 */
const guarded = <T>(
  name: string,
  sweep: () => Promise<T>,
  { log, metrics }: WorkerParts,
  health: Health,
) => {
  let away = false
  metrics.sweepFailures.inc({ sweep: name }, 0)
  return async (): Promise<T | undefined> => {
    const end = metrics.sweepSeconds.startTimer({ sweep: name })
    try {
      const result = await sweep()
      away = false
      health.ok()
      return result
    } catch (error) {
      metrics.sweepFailures.inc({ sweep: name })
      health.failed()
      const unavailable = error instanceof Refusal && error.kind === 'unavailable'
      if (!away || !unavailable) log.error({ sweep: name, err: error }, 'a sweep failed')
      away = unavailable
      return undefined
    } finally {
      end()
    }
  }
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
