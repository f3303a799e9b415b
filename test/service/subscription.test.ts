import { expect, test } from 'vitest'
import type { FeedEvent } from '../../src/domain/todo.ts'
import { subscribe } from '../../src/service/watch/subscription.ts'
import { createTail } from '../../src/service/watch/tail.ts'
import { anEvent } from '../http/live-feed.ts'

const createFeed = () => {
  const events: FeedEvent[] = []
  const tail = createTail<FeedEvent>({
    read: async (after, limit) => events.filter(({ position }) => position > after).slice(0, limit),
    cursorOf: ({ position }) => position,
    head: 2,
    upToDate: true,
  })
  const stop = new AbortController()
  return {
    tell: (...more: FeedEvent[]): void => {
      events.push(...more)
      tail.append(tail.head(), more)
    },
    reader: (queues: readonly string[] | null, cursor = 2) =>
      subscribe({ from: cursor + 1, tail, cursor, queues, signal: stop.signal }),
  }
}

test('readers of the same queues are handed the same list, and each only what it has not seen', () => {
  const feed = createFeed()
  const handed: (readonly FeedEvent[])[] = []
  const take = (events: readonly FeedEvent[]): boolean => handed.push(events) > 0
  const end = (): void => {}
  for (const queues of [['a'], ['a'], null, null]) feed.reader(queues).live(take, end)
  feed.reader(null, 4).live(take, end)
  const told = [4, 6, 8].map((position) => anEvent({ position, queue: position === 6 ? 'b' : 'a' }))
  feed.tell(...told)
  expect(handed.map((events) => events.map(({ position }) => position))).toEqual([
    [4, 8],
    [4, 8],
    [4, 6, 8],
    [4, 6, 8],
    [6, 8],
  ])
  expect(handed[1]).toBe(handed[0])
  expect(handed[3]).toBe(handed[2])
})

test('where events before one were deleted it is not handed over: the reader pulls, and hears of the gap', async () => {
  const feed = createFeed()
  const reader = feed.reader(['a'])
  const handed: number[] = []
  let ended = 0
  reader.live(
    (events) => handed.push(...events.map(({ position }) => position)) > 0,
    () => {
      ended += 1
    },
  )
  feed.tell(anEvent({ position: 4 }))
  feed.tell(anEvent({ position: 10, deleted: [{ queue: 'a', position: 8 }] }))
  expect(handed).toEqual([4])
  expect(ended).toBe(1)
  const events = reader.events[Symbol.asyncIterator]()
  expect((await events.next()).value).toEqual({ gap: true, oldest: 10 })
  expect((await events.next()).value).toMatchObject({ position: 10 })
})
