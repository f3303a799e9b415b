/**
 * Waiting, with an end to every wait: repeating, pausing, spacing out retries, giving up. Decides
 * nothing about what is waited for. Only for spans inside this process: the clock that stored
 * times are compared with is the database's.
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
  /** Told of what a tick threw; the next tick comes as if it had not. */
  onError: (error: unknown) => void
  /** `later`: the first tick comes after one interval. */
  first?: 'now' | 'later'
}

/**
 * Ticks one after another until the signal fires; the promise then resolves, once the tick under
 * way has ended. The interval lies between a tick's end and the next one's start. A tick that
 * returns true has more to do: the next follows at once. One that returns `againInMs` wants the
 * next after so long.
 */
export const every = async (
  intervalMs: number,
  tick: (signal: AbortSignal) => Promise<unknown>,
  signal: AbortSignal,
  { onError, first = 'now' }: Repeat,
): Promise<void> => {
  let pauseMs = first === 'now' ? 0 : intervalMs
  while (!signal.aborted) {
    // Also with 0: a backlog must not keep timers and sockets from their turn.
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
 * The wait before trying again after the `attempt`-th failure (from 1): doubling up to `maxMs`, of
 * which up to half is left to `chance` (0..1), so that those who failed together come back apart.
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

/**
 * Gives work up after `ms` with TimedOut, or when the outer signal fires. The work is told through
 * its signal, but not waited for: it may ignore it.
 */
export const withTimeout = async <T>(
  ms: number,
  what: string,
  work: (signal: AbortSignal) => Promise<T>,
  outer?: AbortSignal,
): Promise<T> => {
  outer?.throwIfAborted()
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(new TimedOut(what, ms)), ms)
  const giveUp = () => limit.abort(outer?.reason)
  outer?.addEventListener('abort', giveUp, { once: true })
  const ended = new Promise<never>((_, reject) => {
    limit.signal.addEventListener('abort', () => reject(limit.signal.reason), { once: true })
  })
  try {
    return await Promise.race([work(limit.signal), ended])
  } finally {
    clearTimeout(timer)
    outer?.removeEventListener('abort', giveUp)
  }
}
