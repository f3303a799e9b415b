/**
 * Waiting, with an end to every wait: repeating, pausing, spacing out retries, giving up. Nothing
 * here knows what is waited for. Use it only for spans inside this process: stored times are
 * compared with the database's clock.
 */

/** Rejects with the signal's reason when it fires first. */
export const sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal?.addEventListener('abort', stop, { once: true })
  })

export interface Repeat {
  /** Gets what a tick threw; the next tick comes as if it had not. */
  onError: (error: unknown) => void
  /** `later`: the first tick comes after one interval. */
  first?: 'now' | 'later'
}

/**
 * Ticks one after another until the signal fires; the promise then resolves, once the tick under
 * way has ended. The interval lies between a tick's end and the next one's start. A tick that
 * returns true has more to do, so the next follows at once. One that returns `againInMs` wants the
 * next after that long.
 */
export const every = async (
  intervalMs: number,
  tick: (signal: AbortSignal) => Promise<unknown>,
  signal: AbortSignal,
  { onError, first = 'now' }: Repeat,
): Promise<void> => {
  let pauseMs = first === 'now' ? 0 : intervalMs
  while (!signal.aborted) {
    // Even with 0, since a backlog must not keep timers and sockets from their turn.
    await sleep(pauseMs, signal).catch(() => {})
    if (signal.aborted) return
    pauseMs = intervalMs
    try {
      const wanted = await tick(signal)
      if (wanted === true) pauseMs = 0
      else if (isAgain(wanted)) pauseMs = wanted.againInMs
    } catch (error) {
      onError(error)
    }
  }
}

const isAgain = (wanted: unknown): wanted is { againInMs: number } =>
  typeof wanted === 'object' && wanted !== null && 'againInMs' in wanted

export interface Spacing {
  initialMs: number
  maxMs: number
}

/**
 * The wait before trying again after the `attempt`-th failure (from 1). It doubles up to `maxMs`,
 * and up to half of it is left to `chance` (0..1), so that those who failed together come back
 * apart.
 */
export const backoffMs = (
  attempt: number,
  { initialMs, maxMs }: Spacing = { initialMs: 200, maxMs: 30_000 },
  chance: number = Math.random(),
): number => {
  const full = Math.min(maxMs, initialMs * 2 ** Math.max(0, attempt - 1))
  return full / 2 + (full / 2) * chance
}

export class TimedOut extends Error {
  override name = 'TimedOut'
  readonly ms: number

  constructor(what: string, ms: number) {
    super(`${what} took longer than ${ms} ms`)
    this.ms = ms
  }
}

/** A signal that follows `outer` and also fires after `ms`. `end` removes timer and listener. */
const limited = (ms: number, reason: () => unknown, outer: AbortSignal | undefined) => {
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(reason()), ms)
  const pass = (): void => limit.abort(outer?.reason)
  if (outer?.aborted) pass()
  outer?.addEventListener('abort', pass, { once: true })
  const end = (): void => {
    clearTimeout(timer)
    outer?.removeEventListener('abort', pass)
  }
  return { signal: limit.signal, end }
}

/**
 * Gives work up with TimedOut after `ms`, or when the outer signal fires. The work learns of it
 * through its own signal but is not waited for: it may ignore it.
 */
export const withTimeout = async <T>(
  ms: number,
  what: string,
  work: (signal: AbortSignal) => Promise<T>,
  outer?: AbortSignal,
): Promise<T> => {
  outer?.throwIfAborted()
  const { signal, end } = limited(ms, () => new TimedOut(what, ms), outer)
  const ended = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  return Promise.race([work(signal), ended]).finally(end)
}

/**
 * What `wait` resolves to, or null when it was ended by the time or by a stopping server. A client
 * that hung up (`outer` fired for another reason than `stopping`) makes it reject, as any error of
 * `wait` does. AbortSignal.any with AbortSignal.timeout would leave a timer and a listener behind.
 */
export const withDeadline = async <T>(
  outer: AbortSignal,
  ms: number,
  wait: (signal: AbortSignal) => Promise<T>,
): Promise<T | null> => {
  const { signal, end } = limited(ms, () => 'limit', outer)
  try {
    signal.throwIfAborted()
    return await wait(signal)
  } catch (error) {
    if (signal.reason === 'limit' || signal.reason === 'stopping') return null
    throw error
  } finally {
    end()
  }
}
