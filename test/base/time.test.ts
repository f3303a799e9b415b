import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { backoffMs, every, sleep, TimedOut, withTimeout } from '../../src/base/time.ts'
import { until } from '../support/until.ts'

const never = () => new Promise<never>(() => {})
const fail = (error: unknown) => {
  throw error
}

describe('sleep', () => {
  test('a sleep ends with the reason of its signal', async () => {
    const stop = new AbortController()
    const asleep = sleep(60_000, stop.signal)
    stop.abort(new Error('enough'))
    await expect(asleep).rejects.toThrow('enough')
  })

  test('under a signal that has fired nobody falls asleep', async () => {
    await expect(sleep(60_000, AbortSignal.abort(new Error('too late')))).rejects.toThrow(
      'too late',
    )
  })
})

describe('every', () => {
  test('ticks never overlap, however long one takes', async () => {
    const stop = new AbortController()
    let running = 0
    let most = 0
    let ticks = 0
    const tick = async () => {
      running += 1
      most = Math.max(most, running)
      await sleep(5)
      running -= 1
      ticks += 1
    }
    const ended = every(1, tick, stop.signal, { onError: fail })
    await until(() => ticks >= 5, { what: 'five ticks' })
    stop.abort()
    await ended
    expect(most).toBe(1)
    expect(running).toBe(0)
  })

  test('a tick that asks for the next one sooner gets it', async () => {
    const stop = new AbortController()
    let ticks = 0
    const tick = async () => {
      ticks += 1
      return ticks < 3 ? { againInMs: 1 } : undefined
    }
    const ended = every(60_000, tick, stop.signal, { onError: () => {} })
    await until(() => ticks === 3)
    stop.abort()
    await ended
  })

  test('the first tick comes at once, or after one interval where asked for', async () => {
    const stop = new AbortController()
    let now = 0
    let later = 0
    const count = (add: () => void) => async () => add()
    const loops = [
      every(
        60_000,
        count(() => now++),
        stop.signal,
        { onError: fail },
      ),
      every(
        60_000,
        count(() => later++),
        stop.signal,
        { onError: fail, first: 'later' },
      ),
    ]
    await until(() => now === 1, { what: 'the first tick' })
    stop.abort()
    await Promise.all(loops)
    expect({ now, later }).toEqual({ now: 1, later: 0 })
  })

  test('a tick that throws is reported, and the next one comes all the same', async () => {
    const stop = new AbortController()
    const errors: unknown[] = []
    const tick = () => Promise.reject(new Error('broken'))
    const ended = every(1, tick, stop.signal, { onError: (error) => errors.push(error) })
    await until(() => errors.length >= 3, { what: 'three reports' })
    stop.abort()
    await ended
    expect(errors[0]).toEqual(new Error('broken'))
  })

  test('a tick that has more to do is followed by the next without the pause', async () => {
    const stop = new AbortController()
    let ticks = 0
    const tick = async () => ++ticks < 4
    const ended = every(60_000, tick, stop.signal, { onError: fail })
    await until(() => ticks === 4, { what: 'four ticks' })
    stop.abort()
    await ended
  })

  test('the loop ends only after the tick under way, which sees the signal', async () => {
    const stop = new AbortController()
    let ended = false
    const tick = async (signal: AbortSignal) => {
      await sleep(60_000, signal).catch(() => {})
      await sleep(10)
      ended = true
    }
    const loop = every(1, tick, stop.signal, { onError: fail })
    await sleep(5)
    stop.abort()
    await loop
    expect(ended).toBe(true)
  })
})

describe('backoffMs', () => {
  test('a wait doubles with each attempt up to its limit, at least half of it for certain', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 2000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (n, chance) => {
          const full = Math.min(10_000, 100 * 2 ** Math.max(0, n - 1))
          const wait = backoffMs(n, { initialMs: 100, maxMs: 10_000 }, chance)
          expect(wait).toBeGreaterThanOrEqual(full / 2)
          expect(wait).toBeLessThanOrEqual(full)
        },
      ),
    )
  })
})

describe('withTimeout', () => {
  test('work that is done in time gives its result', async () => {
    await expect(withTimeout(60_000, 'the call', async () => 'done')).resolves.toBe('done')
  })

  test('work that takes too long is told by its signal, and given up even if it ignores it', async () => {
    let told: AbortSignal | undefined
    const work = (signal: AbortSignal) => {
      told = signal
      return never()
    }
    await expect(withTimeout(10, 'the call', work)).rejects.toThrow(
      new TimedOut('the call', 10).message,
    )
    expect(told?.reason).toBeInstanceOf(TimedOut)
  })

  test('the failure of the work is passed on as it is', async () => {
    const failure = new Error('broken')
    await expect(withTimeout(60_000, 'the call', () => Promise.reject(failure))).rejects.toBe(
      failure,
    )
  })

  test('an outer signal ends the work with its own reason', async () => {
    const stop = new AbortController()
    const call = withTimeout(60_000, 'the call', never, stop.signal)
    stop.abort(new Error('shutting down'))
    await expect(call).rejects.toThrow('shutting down')
  })
})
