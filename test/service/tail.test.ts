import { expect, test } from 'vitest'
import { createTail, type TailOptions } from '../../src/service/watch/tail.ts'
import { until } from '../support/until.ts'

/** A log in memory: its reads are counted, and may fail for a while. */
const createLog = () => {
  const entries: number[] = []
  const reads: number[] = []
  let away = false
  const options: TailOptions<number> = {
    read: async (after, limit) => {
      reads.push(after)
      await new Promise(setImmediate)
      if (away) throw new Error('away')
      return entries.filter((entry) => entry > after).slice(0, limit)
    },
    cursorOf: (entry) => entry,
    head: 0,
    ringEntries: 50,
  }
  return {
    entries,
    reads,
    options,
    setAway: (now: boolean) => {
      away = now
    },
  }
}

const collect = (source: AsyncIterable<number>): number[] => {
  const seen: number[] = []
  void (async () => {
    for await (const entry of source) seen.push(entry)
  })()
  return seen
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, n) => from + n)

test('followers that keep up share one read, however many they are', async () => {
  const log = createLog()
  const tail = createTail(log.options)
  const stops = range(1, 200).map(() => new AbortController())
  const seen = stops.map(({ signal }) => collect(tail.follow(0, signal)))
  await until(() => tail.followers() === 200, { what: 'all follow' })
  await until(() => log.reads.length > 0, { what: 'the first look' })
  const before = log.reads.length
  for (let n = 1; n <= 10; n += 1) {
    log.entries.push(n)
    tail.nudge()
    await until(() => seen.every((all) => all.length === n), { what: `entry ${n} everywhere` })
  }
  expect(seen.every((all) => all.join() === range(1, 10).join())).toBe(true)
  expect(log.reads.length - before).toBe(10)
  for (const stop of stops) stop.abort()
})

test('a follower from long ago reads the pages it missed and then joins the others', async () => {
  const log = createLog()
  log.entries.push(...range(1, 1000))
  const tail = createTail({ ...log.options, head: 1000 })
  const stop = new AbortController()
  const early = collect(tail.follow(1000, stop.signal))
  const late = collect(tail.follow(300, stop.signal))
  await until(() => late.length === 700, { what: 'the missed entries' })
  log.entries.push(1001)
  tail.nudge()
  await until(() => late.length === 701 && early.length === 1, { what: 'the next entry' })
  expect(late).toEqual(range(301, 1001))
  stop.abort()
})

test('a follower that falls out of the ring misses nothing and gets nothing twice', async () => {
  const log = createLog()
  const tail = createTail(log.options)
  const stop = new AbortController()
  const slow = tail.follow(0, stop.signal)
  const quick = collect(tail.follow(0, stop.signal))
  log.entries.push(1)
  tail.nudge()
  expect((await slow.next()).value).toBe(1)
  for (let n = 2; n <= 400; n += 20) {
    log.entries.push(...range(n, Math.min(n + 19, 400)))
    tail.nudge()
    await until(() => quick.length === Math.min(n + 19, 400), { what: `entries from ${n}` })
  }
  const rest: number[] = []
  while (rest.at(-1) !== 400) rest.push((await slow.next()).value as number)
  expect(rest).toEqual(range(2, 400))
  stop.abort()
})

test('while the log cannot be read a follower waits, and goes on when it is back', async () => {
  const log = createLog()
  const tail = createTail(log.options)
  const stop = new AbortController()
  log.entries.push(1, 2)
  log.setAway(true)
  const seen = collect(tail.follow(0, stop.signal))
  await until(() => log.reads.length === 1, { what: 'a failed read' })
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate)
  expect(log.reads.length).toBe(1)
  log.setAway(false)
  tail.nudge()
  await until(() => seen.length === 2, { what: 'both entries' })
  stop.abort()
})

test('the signal ends a follower that waits', async () => {
  const tail = createTail(createLog().options)
  const stop = new AbortController()
  const next = tail.follow(0, stop.signal).next()
  stop.abort()
  expect(await next).toEqual({ value: undefined, done: true })
  expect(tail.followers()).toBe(0)
})

test('what is known to come right behind the head is taken in without a read; behind anything else it is read', async () => {
  const log = createLog()
  const tail = createTail(log.options)
  const stop = new AbortController()
  const seen = collect(tail.follow(0, stop.signal))
  await until(() => log.reads.length === 1, { what: 'the first look' })
  // It is answered a turn later.
  for (let turn = 0; turn < 3; turn += 1) await new Promise(setImmediate)
  log.entries.push(1, 2)
  tail.append(0, [1, 2])
  await until(() => seen.length === 2, { what: 'what was taken in' })
  expect(log.reads).toEqual([0])
  // Somebody else has appended 3.
  log.entries.push(3, 4)
  tail.append(3, [4])
  await until(() => seen.length === 4, { what: 'what was missing, too' })
  expect(seen).toEqual([1, 2, 3, 4])
  expect(log.reads).toEqual([0, 2])
  stop.abort()
})

test('however fast the nudges come, whoever follows is told after each read', async () => {
  const log = createLog()
  const tail = createTail({
    ...log.options,
    read: async (after, limit) => {
      await new Promise((resolve) => setTimeout(resolve, 10))
      return log.entries.filter((entry) => entry > after).slice(0, limit)
    },
  })
  const stop = new AbortController()
  const seen = collect(tail.follow(0, stop.signal))
  let nudges = 0
  const nudging = setInterval(() => {
    nudges += 1
    log.entries.push(nudges)
    tail.nudge()
  })
  await until(() => seen.length >= 20, { what: 'entries, while the nudges go on' })
  clearInterval(nudging)
  await until(() => seen.length === nudges, { what: 'the rest' })
  expect(seen).toEqual(range(1, nudges))
  stop.abort()
})

test('a live reader that breaks or refuses pulls from where it was; the others are handed on', async () => {
  const log = createLog()
  const tail = createTail({ ...log.options, upToDate: true })
  const taken: (readonly number[])[] = []
  let ends = 0
  const end = (): void => {
    ends += 1
  }
  const broken = () => {
    throw new Error('broken')
  }
  expect(tail.live(0, { push: broken, end })).not.toBeNull()
  expect(tail.live(0, { push: () => false, end })).not.toBeNull()
  const off = tail.live(0, { push: (entries) => taken.push(entries) > 0, end })
  log.entries.push(1)
  tail.append(0, [1])
  expect(ends).toBe(2)
  expect(tail.live(0, { push: () => true, end })).toBeNull()
  expect(await tail.next(0, new AbortController().signal)).toEqual([1])
  log.entries.push(2)
  tail.nudge()
  await until(() => taken.length === 2, { what: 'what was read for the live one' })
  expect(taken).toEqual([[1], [2]])
  off?.()
})

test('who comes after a time without readers does not read what was appended meanwhile', async () => {
  const log = createLog()
  const tail = createTail(log.options)
  for (let n = 1; n <= 2000; n += 1) log.entries.push(n)
  tail.nudge()
  tail.skipTo(2000)
  const stop = new AbortController()
  const seen = collect(tail.follow(2000, stop.signal))
  const late = collect(tail.follow(1990, stop.signal))
  await until(() => late.length === 10, { what: 'what an older cursor misses' })
  log.entries.push(2001)
  tail.nudge()
  await until(() => seen.length === 1 && late.length === 11, { what: 'what comes' })
  expect([seen, late.at(-1)]).toEqual([[2001], 2001])
  expect(log.reads.every((after) => after >= 1990)).toBe(true)
  // Somebody waits: nothing is skipped.
  log.entries.push(2002)
  tail.skipTo(2002)
  tail.nudge()
  await until(() => seen.length === 2, { what: 'the next' })
  stop.abort()
})
