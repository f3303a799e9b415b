/**
 * The workers of a node, in the order they start: how often each sweep runs, and that one which
 * failed is tried again soon. What follows from failing is decided in worker-failures.ts.
 */
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import { backoffMs, every, sleep } from '../base/time.ts'
import { Refusal } from '../domain/errors.ts'
import type { Sweep } from '../service/sweeps/sweeps.ts'
import type { Health, Worker } from './supervisor.ts'
import { REGIMES, type WorkerName } from './worker-failures.ts'

export interface WorkerParts {
  sweep: Sweep
  /** Listens until the signal fires; rejects when the connection is lost. */
  listen: (signal: AbortSignal, onListening: () => void) => Promise<void>
  log: Log
  metrics: Metrics
  /** Calls back when events have been committed that want a place in the feed. Returns an off. */
  onCommitted: (listener: () => void) => () => void
  reapMs: number
  comeDueMs: number
  /** The placer is nudged by commits; this is how long a lost nudge may delay an event. */
  placeMs: number
  /** For so long lists add up what events have moved. */
  countMs: number
  tidyMs: number
  courier: Worker['run']
}

/**
 * Commits of a busy moment are placed together: a busy feed costs 50 statements a second. The first
 * waits a little as well: whoever was woken by that commit goes first.
 */
const FIRST_MS = 4
const GATHER_MS = 16

/** A sweep that failed is tried again within seconds, however long its interval. */
const SOON = { initialMs: 250, maxMs: 3000 }

export const createWorkers = (parts: WorkerParts): Worker[] => {
  const { sweep, reapMs, comeDueMs, countMs, tidyMs } = parts
  const worker = (name: WorkerName, run: Worker['run']): Worker => ({
    name,
    regime: REGIMES[name],
    run,
  })
  const ticking = (name: WorkerName, label: string, ms: number, work: () => Promise<unknown>) =>
    worker(name, (signal, health) => sweeping(guarded(label, work, parts, health), ms, signal))
  return [
    worker('listener', (signal, health) => parts.listen(signal, health.ok)),
    ticking('reaper', 'reap', reapMs, sweep.reap),
    ticking('bell', 'come_due', comeDueMs, sweep.comeDue),
    ticking('alarm', 'timeout', comeDueMs, sweep.timeOut),
    worker('placer', (signal, health) =>
      placing(guarded('place', sweep.place, parts, health), parts, signal),
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

/** For the supervisor: a sweep has dealt with its own errors. */
const onError = (error: unknown): void => {
  throw error
}

/**
 * A sweep, timed; undefined where it failed. While the database is away that is logged once, not at
 * every try.
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

/** Places as commits come, and looks once more at every interval. */
const placing = async (
  place: () => Promise<'all' | 'more' | 'not our turn' | undefined>,
  { onCommitted, placeMs }: WorkerParts,
  signal: AbortSignal,
): Promise<void> => {
  let committed = false
  let nudge: () => void = () => {}
  const off = onCommitted(() => {
    committed = true
    nudge()
  })
  const idle = (): Promise<void> =>
    new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        nudge = () => {}
        resolve()
      }
      const timer = setTimeout(done, placeMs)
      signal.addEventListener('abort', done, { once: true })
      nudge = done
      if (committed || signal.aborted) done()
    })
  try {
    while (!signal.aborted) {
      if (committed) await sleep(FIRST_MS, signal).catch(() => {})
      committed = false
      const nextAt = performance.now() + GATHER_MS
      const placed = await place()
      // Whoever has the turn may have looked before our commit, so it has to be tried again.
      if (placed === 'not our turn') committed = true
      // What was placed has been told to thousands by now, perhaps: that time counts.
      const restMs = placed === 'more' ? 0 : Math.max(0, nextAt - performance.now())
      await sleep(restMs, signal).catch(() => {})
      if (placed !== 'more') await idle()
    }
  } finally {
    off()
  }
}
