// Field cases: Retry-After by one rule; receivers that are being deployed; backoff never beyond its
// maximum.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  maskUrl,
  PUSH_LIMITS,
  pushLimits,
  retryAfterSeconds,
  type Tried,
  verdictOf,
} from '../../src/domain/push.ts'

const verdict = (tried: Tried, { attempts = 1, ageSeconds = 0, chance = 0.5 } = {}) =>
  verdictOf(tried, { attempts, ageSeconds }, PUSH_LIMITS, chance)

describe('what becomes of a delivery after a try', () => {
  test.each([200, 201, 202, 204, 299])('%i delivers it', (status) => {
    expect(verdict({ status })).toMatchObject({ state: 'delivered', status, reason: null })
  })

  test.each([301, 302, 307, 308, 408, 409, 421, 423, 425, 429, 500, 502, 503, 504, 599])(
    'after %i it is tried again',
    (status) => {
      expect(verdict({ status })).toMatchObject({ state: 'pending', reason: `answered ${status}` })
    },
  )

  test.each([400, 401, 403, 404, 405, 410, 412, 413, 418, 422, 424, 426, 451, 499])(
    'after %i it is given up',
    (status) => {
      expect(verdict({ status })).toMatchObject({ state: 'dead', status })
    },
  )

  test('without an answer it is tried again, unless there can never be one', () => {
    expect(verdict({ failure: 'no answer in time' })).toMatchObject({
      state: 'pending',
      status: null,
    })
    expect(verdict({ failure: 'x', final: true })).toMatchObject({ state: 'dead', reason: 'x' })
  })

  test('the last try is the last', () => {
    const attempts = PUSH_LIMITS.maxAttempts
    expect(verdict({ status: 500 }, { attempts })).toMatchObject({
      state: 'dead',
      reason: `answered 500; gave up after ${attempts} attempts`,
    })
    expect(verdict({ status: 500 }, { attempts: attempts - 1 })).toMatchObject({ state: 'pending' })
  })

  test('one that would grow too old meanwhile is given up', () => {
    const ageSeconds = PUSH_LIMITS.maxAgeSeconds - 1
    expect(verdict({ status: 500 }, { ageSeconds })).toMatchObject({ state: 'dead' })
    expect(verdict({ status: 200 }, { ageSeconds: 10 * ageSeconds })).toMatchObject({
      state: 'delivered',
    })
  })

  test('gaps grow, are jittered within a quarter, have an end, and honour the receiver', () => {
    const gap = (attempts: number, chance = 0.5) =>
      verdict({ status: 500 }, { attempts, chance }).againSeconds
    expect([1, 2, 3, 4].map((n) => gap(n))).toEqual([2, 4, 8, 16])
    expect([gap(3, 0), gap(3, 1)]).toEqual([6, 10])
    expect(gap(14)).toBe(3600)
    expect(verdict({ status: 429, retryAfterSeconds: 30 }).againSeconds).toBe(30)
    expect(verdict({ status: 429, retryAfterSeconds: 0.1 }).againSeconds).toBe(2)
  })

  test('no gap is longer than the longest backoff, whatever the receiver asks for', () => {
    for (const asked of [3600, 3601, 86_400, 9_999_999_999, Number.POSITIVE_INFINITY]) {
      const later = verdict({ status: 503, retryAfterSeconds: asked })
      expect(later).toMatchObject({ state: 'pending', againSeconds: 3600 })
    }
    expect(verdict({ status: 500 }, { attempts: 14, chance: 1 }).againSeconds).toBe(3600)
  })

  test('no receiver ends a delivery by asking to wait: the last try is made as its time ends', () => {
    const ageSeconds = PUSH_LIMITS.maxAgeSeconds - 100
    const late = verdict({ status: 503, retryAfterSeconds: 86_400 }, { ageSeconds })
    expect(late).toMatchObject({ state: 'pending', againSeconds: 100 })
  })

  test('settings go over the limits of the node; what does not parse is passed over', () => {
    const set = (name: string, value: string) => pushLimits(PUSH_LIMITS, new Map([[name, value]]))
    expect(set('push_max_attempts', '3').maxAttempts).toBe(3)
    expect(set('push_timeout_seconds', '20').timeoutMs).toBe(20_000)
    expect(set('push_max_attempts', 'many')).toEqual(PUSH_LIMITS)
  })
})

describe('a URL as it may be shown', () => {
  test.each([
    ['https://h.example/a?key=s3cret&b=', 'https://h.example/a?key=***&b=***'],
    ['https://u:pw@h.example:8443/a#frag', 'https://***@h.example:8443/a'],
    ['https://h.example', 'https://h.example/'],
    ['nonsense', '[not a URL]'],
  ])('%s', (url, shown) => {
    expect(maskUrl(url)).toBe(shown)
  })

  test('shows no value of a query, whatever it is', () => {
    const secret = fc.stringMatching(/^[a-z0-9]{12,}$/)
    fc.assert(
      fc.property(
        secret,
        (value) => !maskUrl(`https://h.example/?k=${value}&k=${value}`).includes(value),
      ),
    )
  })
})

describe('what Retry-After asks for', () => {
  const now = new Date('2030-01-01T00:00:00Z')
  const sent = 'Sun, 06 Nov 1994 08:49:37 GMT'
  test.each([
    ['0', '', 0],
    [' 120 ', '', 120],
    ['9999999999', '', 9_999_999_999],
    // By the clock of the receiver, which may go wrong.
    ['Mon, 07 Nov 1994 08:49:37 GMT', sent, 86_400],
    ['Sunday, 06-Nov-94 08:50:37 GMT', sent, 60],
    ['Sun Nov  6 08:49:47 1994', sent, 10],
    ['Sun, 06 Nov 1994 08:49:36 GMT', sent, 0],
    // By ours where it does not tell its own.
    ['Tue, 01 Jan 2030 00:00:30 GMT', '', 30],
    ['Tue, 01 Jan 2030 00:00:30 GMT', 'nonsense', 30],
  ])('%j of %j is %d s', (value, date, seconds) => {
    expect(retryAfterSeconds(value, date, now)).toBe(seconds)
  })

  test.each(['', '-1', '1.5', '1e3', '0x10', '10, 20', 'soon', '2030-01-02', 'Someday, 99'])(
    '%j is nonsense, and passed over',
    (value) => {
      expect(retryAfterSeconds(value, sent, now)).toBeNull()
    },
  )
})
