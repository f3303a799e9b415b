// Field case: backoff never beyond its maximum.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { backoffMs } from '../../src/base/time.ts'
import { interruptTtlSeconds, retryDelaySeconds } from '../../src/domain/policy.ts'

test('the wait of an interrupt is parsed, and bounded by a floor and a ceiling', () => {
  const seconds = (value: string | null) => interruptTtlSeconds(value)
  expect(seconds(null)).toEqual({ seconds: 86_400, parsed: true })
  expect(seconds('3600')).toEqual({ seconds: 3600, parsed: true })
  expect(seconds(' 90 ')).toEqual({ seconds: 90, parsed: true })
  for (const off of ['0', '-1', '-86400'])
    expect(seconds(off)).toEqual({ seconds: null, parsed: true })
  for (const low of ['1', '59', '60']) expect(seconds(low)).toEqual({ seconds: 60, parsed: true })
  for (const bad of ['', 'a day', '1.5', '1e3', '0x10', '99999999999999999999']) {
    expect(seconds(bad)).toEqual({ seconds: 86_400, parsed: false })
  }
})

test('a retry waits longer each time, never past its cap, and within its jitter', () => {
  const backoff = fc.record({
    initialSeconds: fc.double({ min: 0.1, max: 100, noNaN: true }),
    factor: fc.double({ min: 1, max: 10, noNaN: true }),
    maxSeconds: fc.double({ min: 100, max: 1000, noNaN: true }),
    jitter: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  fc.assert(
    fc.property(
      backoff,
      fc.integer({ min: 1, max: 50 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (policy, attempt, chance) => {
        const plain = retryDelaySeconds({ ...policy, jitter: 0 }, attempt, chance)
        const next = retryDelaySeconds({ ...policy, jitter: 0 }, attempt + 1, chance)
        const delay = retryDelaySeconds(policy, attempt, chance)
        expect(plain).toBeLessThanOrEqual(policy.maxSeconds)
        expect(delay).toBeLessThanOrEqual(policy.maxSeconds)
        expect(next).toBeGreaterThanOrEqual(plain)
        expect(delay).toBeGreaterThanOrEqual(plain * (1 - policy.jitter) - 1e-9)
        expect(delay).toBeLessThanOrEqual(plain * (1 + policy.jitter) + 1e-9)
      },
    ),
  )
})

test('nor does any other backoff go beyond its maximum, whatever chance adds', () => {
  const ms = fc.integer({ min: 1, max: 100_000 })
  fc.assert(
    fc.property(
      ms,
      ms,
      fc.integer({ min: 1, max: 2000 }),
      fc.double({ min: 0, max: 1 }),
      (...given) => {
        const [initialMs, maxMs, attempt, chance] = given
        if (Number.isNaN(chance)) return
        expect(backoffMs(attempt, { initialMs, maxMs }, chance)).toBeLessThanOrEqual(maxMs)
      },
    ),
  )
  const long = { initialSeconds: 1, factor: 2, maxSeconds: 300, jitter: 0.2 }
  expect(retryDelaySeconds(long, 20, 1)).toBe(300)
  expect(retryDelaySeconds(long, 20, 0)).toBe(240)
})
