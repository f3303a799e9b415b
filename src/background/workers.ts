/** The workers of a node: how often each sweep runs, and what its failure costs (nothing but time). */
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import { every, sleep } from '../base/time.ts'
import { Refusal } from '../domain/errors.ts'
import type { Sweep } from '../service/sweep.ts'
import type { Worker } from './supervisor.ts'

export interface WorkerParts {
  sweep: Sweep
  log: Log
  metrics: Metrics
  /** Calls back when events have been committed that want a place in the feed. Returns an off. */
  onCommitted: (listener: () => void) => () => void
  reapMs: number
  comeDueMs: number
  /** The placer is nudged by commits; this is how long a lost nudge may delay an event. */
  placeMs: number
}

/** Commits of a busy moment are placed together: a busy feed costs 200 statements a second. */
const GATHER_MS = 5

export const createWorkers = (parts: WorkerParts): Worker[] => {
  const reap = guarded('reap', parts.sweep.reap, parts)
  const comeDue = guarded('come_due', parts.sweep.comeDue, parts)
  const timeOut = guarded('timeout', parts.sweep.timeOut, parts)
  const place = guarded('place', parts.sweep.place, parts)
  const onError = (error: unknown): void => {
    throw error
  }
  return [
    { name: 'reaper', run: (signal) => every(parts.reapMs, reap, signal, { onError }) },
    { name: 'bell', run: (signal) => every(parts.comeDueMs, comeDue, signal, { onError }) },
    { name: 'alarm', run: (signal) => every(parts.comeDueMs, timeOut, signal, { onError }) },
    { name: 'placer', run: (signal) => placing(place, parts, signal) },
  ]
}

/**
 * A sweep, timed. One that fails is tried again at its next tick; while the database is away it is
 * logged once, not at every tick.
 */
const guarded = <T>(name: string, sweep: () => Promise<T>, { log, metrics }: WorkerParts) => {
  let away = false
  metrics.sweepFailures.inc({ sweep: name }, 0)
  return async (): Promise<T | undefined> => {
    const end = metrics.sweepSeconds.startTimer({ sweep: name })
    try {
      const result = await sweep()
      away = false
      return result
    } catch (error) {
      metrics.sweepFailures.inc({ sweep: name })
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
      committed = false
      const placed = await place()
      // Whoever has the turn may have looked before our commit, so it has to be tried again.
      if (placed === 'not our turn') committed = true
      await sleep(placed === 'more' ? 0 : GATHER_MS, signal).catch(() => {})
      if (placed !== 'more') await idle()
    }
  } finally {
    off()
  }
}
