/**
 * The one way to wait for what others do. Register a waiter with whatever wakes it, then look, then
 * sleep until a wake, the poll behind the wakes, the deadline or the signal, and look again. A wake
 * that comes between the registration and the sleep is kept, so none is missed; one that is lost on
 * its way is made up for by the poll. Nothing here knows what is waited for.
 */

/** The longest that a timer can wait, about 24 days; whoever sleeps longer looks once in between. */
const LONGEST_MS = 2 ** 31 - 1

/** A class because thousands wait at once, and none should have functions of its own. */
export class Waiter {
  #woken = false
  /** Ends the sleep under way. */
  #end: (() => void) | null = null

  /** Whether a wake has come since the last `clear`. */
  get isWoken(): boolean {
    return this.#woken
  }

  /** Ends the sleep under way, or the next one. Any number of wakes count as one. */
  wake(): void {
    this.#woken = true
    this.#end?.()
  }

  /** Call it right before a look, which sees whatever the wakes so far were about. */
  clear(): void {
    this.#woken = false
  }

  /**
   * Resolves once it is woken, after `ms` (Infinity: never), or when the signal fires; never rejects.
   * A wake that has not been cleared counts. Throws if it sleeps already.
   */
  sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (this.#end) throw new Error('a waiter sleeps once at a time')
    if (this.#woken || ms <= 0 || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', end)
        this.#end = null
        resolve()
      }
      // A timer drops fractions, and would end a little before its time.
      const timer =
        ms === Number.POSITIVE_INFINITY
          ? undefined
          : setTimeout(end, Math.min(Math.ceil(ms), LONGEST_MS))
      signal.addEventListener('abort', end, { once: true })
      this.#end = end
    })
  }
}

export interface Looking<Found> {
  look(): Promise<Found>
  /** Whether there is nothing left to wait for. */
  isEnough(found: NoInfer<Found>): boolean
  /** Fires when nobody waits any more. */
  signal: AbortSignal
  /** When to give up, in ms on the clock of `performance.now()`. By default never. */
  deadline?: number
  /** How long a lost wake may go unnoticed, in ms. Infinity, the default: others poll and wake it. */
  pollMs?: number
  /** Sleeps by this, for a caller that lends out what it holds meanwhile. */
  rest?(sleep: Promise<void>): Promise<void>
}

/**
 * Looks at once and after each sleep, and resolves to what the last look found: the first that was
 * enough, else the one after the deadline or after the signal has fired. Rejects with what a look
 * throws. The waiter must be registered with its wakes before.
 */
export const lookUntil = async <Found>(
  waiter: Waiter,
  { look, isEnough, signal, deadline, pollMs, rest }: Looking<Found>,
): Promise<Found> => {
  const endsAt = deadline ?? Number.POSITIVE_INFINITY
  for (;;) {
    waiter.clear()
    const found = await look()
    if (isEnough(found) || signal.aborted) return found
    const leftMs = endsAt - performance.now()
    if (leftMs <= 0) return found
    const sleep = waiter.sleep(Math.min(leftMs, pollMs ?? Number.POSITIVE_INFINITY), signal)
    await (rest ? rest(sleep) : sleep)
  }
}
