import { scaled } from './timeouts.ts'

/**
 * Waits for something to become true, instead of sleeping and hoping. What the condition throws
 * counts as "not yet", and is told when the time is up.
 */
export const until = async <T>(
  condition: () => T | Promise<T>,
  { timeoutMs = 20_000, what = 'the condition' }: { timeoutMs?: number; what?: string } = {},
): Promise<NonNullable<T>> => {
  const limitMs = scaled(timeoutMs)
  const deadline = performance.now() + limitMs
  for (let pauseMs = 5; ; pauseMs = Math.min(25, pauseMs + 5)) {
    let last: unknown
    let cause: unknown
    try {
      last = await condition()
      if (last) return last as NonNullable<T>
    } catch (error) {
      cause = error
    }
    if (performance.now() > deadline) {
      const seen = cause === undefined ? `last seen: ${String(last)}` : `last error: ${cause}`
      throw new Error(`${what} did not come about within ${limitMs} ms (${seen})`, { cause })
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
