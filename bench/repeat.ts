/** Closed loops: N callers, each making its next call as soon as the one before has ended. */
import { percentile } from './stats.ts'

export const rate = (count: number, started: number): number =>
  (1000 * count) / (performance.now() - started)

const figures = (times: readonly number[], started: number) => ({
  perSecond: rate(times.length, started),
  p50Ms: percentile(times, 0.5),
  p99Ms: percentile(times, 0.99),
})

/** While `more` says so, which is asked before each call. */
export const repeatWhile = async (
  callers: number,
  more: () => boolean,
  step: () => Promise<unknown>,
) => {
  const times: number[] = []
  const started = performance.now()
  const loop = async (): Promise<void> => {
    while (more()) {
      const before = performance.now()
      await step()
      times.push(performance.now() - before)
    }
  }
  await Promise.all(Array.from({ length: callers }, loop))
  return figures(times, started)
}

export const repeat = (callers: number, seconds: number, step: () => Promise<unknown>) => {
  const until = performance.now() + seconds * 1000
  return repeatWhile(callers, () => performance.now() < until, step)
}
