/**
 * Rows that a sweep cannot move: broken by hand, or kept by a trigger that raises. Everything behind
 * them goes on, so nothing else tells of them: each failure is counted, and each row logged, again only
 * after a while, since a sweep meets it at every tick.
 */
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'

/** The labels of `switchboard_sweep_failures_total` under which rows are counted. */
type Sweep = 'reap' | 'timeout' | 'come_due' | 'tidy' | 'schedule'

/** Which row, by the name under which it is logged. */
type Row = { todo: string; verb?: string } | { line: string } | { schedule: string }

export type StuckRows = (sweep: Sweep, row: Row, what: string, error: unknown) => void

const LOGGED_AGAIN_MS = 600_000
/** Beyond these the rows that were logged first may be logged too often. */
const MAX_REMEMBERED = 1000

export const createStuckRows = ({
  log,
  metrics,
}: {
  log: Pick<Log, 'error'>
  metrics: Pick<Metrics, 'sweepFailures'>
}): StuckRows => {
  const loggedAt = new Map<string, number>()

  return (sweep, row, what, error) => {
    metrics.sweepFailures.inc({ sweep })
    const key = JSON.stringify([row, what])
    const before = loggedAt.get(key)
    if (before !== undefined && performance.now() - before < LOGGED_AGAIN_MS) return
    loggedAt.delete(key)
    loggedAt.set(key, performance.now())
    if (loggedAt.size > MAX_REMEMBERED) loggedAt.delete(loggedAt.keys().next().value!)
    log.error({ ...row, sweep, err: error }, what)
  }
}
