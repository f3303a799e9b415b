import { expect, test } from 'vitest'
import { lookUntil, Waiter } from '../../src/base/wait/waiter.ts'

const never = new AbortController().signal
const isThere = (found: string | null): boolean => found !== null

/** A fact that somebody brings about, with or without a word to those who wait for it. */
const createFact = () => {
  const listeners = new Set<() => void>()
  let fact: string | null = null
  let looks = 0
  return {
    come: (): void => {
      fact = 'there'
    },
    tell: (): void => {
      for (const listener of listeners) listener()
    },
    on: (listener: () => void) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    read: async (): Promise<string | null> => {
      looks += 1
      const read = fact
      await new Promise(setImmediate)
      return read
    },
    listeners: () => listeners.size,
    looks: () => looks,
  }
}

/** Resolves to 'asleep' where the promise has not settled after a few turns. */
const soon = <T>(promise: Promise<T>): Promise<T | 'asleep'> =>
  Promise.race([
    promise,
    (async () => {
      for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate)
      return 'asleep' as const
    })(),
  ])

test('a wake between the look and the sleep is not lost', async () => {
  const fact = createFact()
  const waiter = new Waiter()
  fact.on(() => waiter.wake())
  const look = async () => {
    const found = await fact.read()
    if (found === null) {
      fact.come()
      fact.tell()
    }
    return found
  }
  expect(await lookUntil(waiter, { look, isEnough: isThere, signal: never })).toBe('there')
  expect(fact.looks()).toBe(2)
})

test('a wake between the registration and the first look costs no second look', async () => {
  const fact = createFact()
  const waiter = new Waiter()
  fact.on(() => waiter.wake())
  fact.tell()
  const found = lookUntil(waiter, { look: fact.read, isEnough: isThere, signal: never })
  expect(await soon(found)).toBe('asleep')
  expect(fact.looks()).toBe(1)
  fact.come()
  fact.tell()
  expect(await found).toBe('there')
  expect(fact.looks()).toBe(2)
})

test('what came without a wake is found by the poll', async () => {
  const fact = createFact()
  const looking = { look: fact.read, isEnough: isThere, signal: never, pollMs: 5 }
  const found = lookUntil(new Waiter(), looking)
  fact.come()
  expect(await found).toBe('there')
})

test('without a poll of its own it sleeps until somebody wakes it', async () => {
  const fact = createFact()
  const waiter = new Waiter()
  const found = lookUntil(waiter, { look: fact.read, isEnough: isThere, signal: never })
  fact.come()
  expect(await soon(found)).toBe('asleep')
  waiter.wake()
  expect(await found).toBe('there')
})

test('at the deadline it looks once more, and answers with what that found', async () => {
  const fact = createFact()
  const deadline = performance.now() + 20
  const looking = { look: fact.read, isEnough: isThere, signal: never, deadline }
  const late = lookUntil(new Waiter(), looking)
  expect(await late).toBeNull()
  expect(performance.now()).toBeGreaterThanOrEqual(deadline)
  const looks = fact.looks()
  expect(looks).toBeGreaterThanOrEqual(2)
  // One that has passed is no reason not to look.
  expect(await lookUntil(new Waiter(), looking)).toBeNull()
  expect(fact.looks()).toBe(looks + 1)
})

test('a signal ends the sleep; the look after it is the last', async () => {
  const fact = createFact()
  const stop = new AbortController()
  const looking = { look: fact.read, isEnough: isThere, signal: stop.signal, pollMs: 60_000 }
  const found = lookUntil(new Waiter(), looking)
  expect(await soon(found)).toBe('asleep')
  stop.abort()
  expect(await found).toBeNull()
  expect(fact.looks()).toBe(2)
  expect(await lookUntil(new Waiter(), looking)).toBeNull()
  expect(fact.looks()).toBe(3)
})

test('what a look throws ends the wait', async () => {
  const look = () => Promise.reject(new Error('away'))
  const found = lookUntil(new Waiter(), { look, isEnough: () => true, signal: never })
  await expect(found).rejects.toThrow('away')
})

test('it sleeps by what it is given, which sees when the sleep is over', async () => {
  const fact = createFact()
  const waiter = new Waiter()
  const said: string[] = []
  const rest = async (sleep: Promise<void>) => {
    said.push('lent')
    await sleep
    said.push('taken back')
  }
  const found = lookUntil(waiter, { look: fact.read, isEnough: isThere, signal: never, rest })
  expect(await soon(found)).toBe('asleep')
  expect(said).toEqual(['lent'])
  fact.come()
  waiter.wake()
  expect(await found).toBe('there')
  expect(said).toEqual(['lent', 'taken back'])
})

test('a sleep leaves no listener behind, however it ends', async () => {
  let listening = 0
  const stop = new AbortController()
  const signal = new Proxy(stop.signal, {
    get: (target, name) => {
      if (name === 'aborted') return target.aborted
      return (...args: Parameters<AbortSignal['addEventListener']>) => {
        listening += name === 'addEventListener' ? 1 : -1
        return target[name as 'addEventListener'](...args)
      }
    },
  })
  const waiter = new Waiter()
  const woken = waiter.sleep(Number.POSITIVE_INFINITY, signal)
  expect(listening).toBe(1)
  waiter.wake()
  await woken
  expect(listening).toBe(0)
  // Kept until a look clears it.
  await waiter.sleep(60_000, signal)
  waiter.clear()
  await waiter.sleep(1, signal)
  expect(listening).toBe(0)
  const aborted = waiter.sleep(2 ** 40, signal)
  stop.abort()
  await aborted
  expect(listening).toBe(0)
  expect(waiter.isWoken).toBe(false)
})

test('a waiter that sleeps cannot be made to sleep a second time', async () => {
  const waiter = new Waiter()
  const asleep = waiter.sleep(60_000, never)
  expect(() => waiter.sleep(60_000, never)).toThrow('once at a time')
  waiter.wake()
  await asleep
})
