/**
 * Stops the parts of a node one after the other, all within one deadline. Each gets whatever time
 * is left, except what the parts after it are owed. A part that fails or takes too long is logged
 * and left behind, so it keeps no other part from being stopped.
 */
import type { Log } from '../base/log.ts'
import { TimedOut, withTimeout } from '../base/time.ts'

export interface Stop {
  part: string
  /** How much time the parts before it must leave it, in ms. */
  owedMs: number
  /** Gets the time it may take, in ms. */
  run(ms: number): Promise<unknown> | unknown
}

/** So that a part which uses its whole limit is not late. */
const SLACK_MS = 50

export const drain = async (
  stops: readonly Stop[],
  totalMs: number,
  log: Pick<Log, 'warn' | 'error'>,
): Promise<void> => {
  const deadline = performance.now() + totalMs
  for (const [index, { part, run }] of stops.entries()) {
    const left = Math.max(0, deadline - performance.now())
    const owed = stops.slice(index + 1).reduce((sum, { owedMs }) => sum + owedMs, 0)
    // In a short drain every part gets less, but the first still gets half.
    const ms = left - Math.min(owed, left / 2)
    try {
      await withTimeout(ms + SLACK_MS, part, async () => run(ms))
    } catch (error) {
      if (error instanceof TimedOut) log.warn({ part, ms }, 'a part did not stop in time')
      else log.error({ part, err: error }, 'a part failed to stop')
    }
  }
}
