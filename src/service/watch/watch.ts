/**
 * All waiting for what others do, in one file: until a todo settles, a todo's events, the feed.
 * Each process has one reader for all settling todos, one tail for each followed todo and one for
 * the feed; what is read is handed to everybody who waits for it. A wake says when to read, and a
 * poll backs it up.
 */

import { EVERYTHING } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { phaseOf, settled } from '../../domain/lifecycle.ts'
import type { Event, FeedEvent, TodoView } from '../../domain/todo.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  type FeedBounds,
  readEvents,
  readFeed,
  readFeedBounds,
  STEP,
} from '../../store/todos/events.ts'
import { readMissing, readSettled, readView } from '../../store/todos/view.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Wakes } from '../../store/wake/wake.ts'
import { createBatcher } from '../batcher.ts'
import type { OpenFeed, Watch } from '../contract.ts'
import { subscribe } from './subscription.ts'
import { createTail, type Tail } from './tail.ts'

export interface WatchParts {
  database: Database
  wakes: Wakes
  /** How long a lost wake can delay a waiter, in ms. */
  pollMs: number
}

export interface RunningWatch extends Watch {
  /** These events were given their positions here. */
  sequenced(events: readonly FeedEvent[]): void
  start(): void
  stop(): void
}

/** How long a ring is remembered, at least, and how many are. */
const LATELY_MS = 10_000
const LATELY_AT_MOST = 20_000

/** A ring holds at most about this much of one todo's events, in characters of JSON. */
const RING_WEIGHT = 1_000_000

const ended = (event: Event): boolean =>
  phaseOf({ state: event.to, nextRetryAt: event.retrying ? true : null }) === 'ended'

const weigh = (event: Event): number =>
  200 +
  (event.message ? JSON.stringify(event.message).length : 0) +
  (event.artifact ? JSON.stringify(event.artifact).length : 0)

/** Of a todo's events: so many after this one. */
interface Page {
  id: string
  after: number
  limit: number
}

interface Settling {
  id: string
  after: number
  done(view: TodoView): void
}

export const createWatch = ({ database, wakes, pollMs }: WatchParts): RunningWatch => {
  /* ------------------------------------------------------------- settling */

  const settling = new Map<string, Set<Settling>>()
  let woken = new Set<string>()
  let looking = false

  /** Reads all that were rung in one statement, however many wait for them. */
  const look = async (): Promise<void> => {
    if (looking) return
    looking = true
    try {
      while (woken.size > 0) {
        const ids = woken
        woken = new Set()
        const watched = [...ids].flatMap((id) => [...(settling.get(id) ?? [])])
        if (watched.length === 0) continue
        // Those who wait for one todo may wait from different events on: read by the earliest.
        const earliest = new Map<string, number>()
        for (const { id, after } of watched) {
          earliest.set(id, Math.min(after, earliest.get(id) ?? after))
        }
        const views = await readSettled(
          database,
          [...earliest].map(([id, after]) => ({ id, after })),
        )
        for (const view of views) {
          for (const waiter of settling.get(view.todo.id) ?? []) {
            if (view.todo.statusSeq > waiter.after) waiter.done(view)
          }
        }
      }
    } catch {
      // The database is away: the poll asks for all of them again.
    } finally {
      looking = false
    }
  }

  /** Rung of late, while nobody looked at them; the older half is forgotten at each turn. */
  let lately = new Set<string>()
  let earlier = new Set<string>()
  const turn = (): void => {
    earlier = lately
    lately = new Set()
  }

  const remember = (id: string): void => {
    if (lately.size >= LATELY_AT_MOST) turn()
    lately.add(id)
  }

  /** After a wake may have been missed, nothing is known of what was not read. */
  let unsureUntil = 0

  /** Of a todo that was read or made this moment: nothing was rung since. */
  const isAsRead = (id: string): boolean =>
    performance.now() > unsureUntil && !lately.has(id) && !earlier.has(id)

  const wakeSettled = (id: string): void => {
    if (!settling.has(id)) return
    woken.add(id)
    // Rings of one moment share a look.
    if (woken.size === 1) setImmediate(() => void look())
  }

  const settle = async (id: string, after: number, signal: AbortSignal): Promise<TodoView> => {
    let off: () => void = () => {}
    const waited = new Promise<TodoView>((resolve, reject) => {
      const waiter: Settling = { id, after, done: resolve }
      const waiters = settling.get(id) ?? new Set()
      settling.set(id, waiters.add(waiter))
      const onAbort = (): void => reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      off = () => {
        signal.removeEventListener('abort', onAbort)
        waiters.delete(waiter)
        if (waiters.size === 0) settling.delete(id)
      }
    })
    waited.catch(() => {})
    try {
      signal.throwIfAborted()
      if (after === 1 && isAsRead(id)) return await waited
      // The wake was asked for first, so what happens during this read is not missed.
      const view = await readView(database, id, EVERYTHING)
      if (!view) throw new Refusal('not_found')
      if (settled(view.todo) && view.todo.statusSeq > after) return view
      return await waited
    } finally {
      off()
    }
  }

  /* ------------------------------------------------------------- following */

  const tails = new Map<string, Tail<Event>>()

  /** Of many todos at once. */
  const readNext = createBatcher<Page, Event[]>({
    keyOf: ({ limit }) => String(limit),
    // Each may be long, with whole artifacts.
    maxBatch: 10,
    runOne: (page) => readEvents(database, [page], page.limit),
    runBatch: async (pages) => {
      // A second page of one todo is read by itself.
      const firsts = new Map(pages.toReversed().map((page) => [page.id, page]))
      const found = new Map<string, Event[]>([...firsts.keys()].map((id) => [id, []]))
      const events = await readEvents(database, [...firsts.values()], pages[0]!.limit)
      for (const event of events) found.get(event.todoId)?.push(event)
      return pages.map((page) => (firsts.get(page.id) === page ? found.get(page.id) : undefined))
    },
  })

  const tailOf = (id: string, head: number, justRead: boolean): Tail<Event> => {
    const known = tails.get(id)
    if (known) return known
    const tail = createTail<Event>({
      read: (after, limit) => readNext({ id, after, limit }),
      cursorOf: (event) => event.seq,
      head,
      upToDate: justRead && isAsRead(id),
      ringWeight: RING_WEIGHT,
      weigh,
    })
    tails.set(id, tail)
    return tail
  }

  async function* follow(
    id: string,
    after: number,
    signal: AbortSignal,
    { justRead = false }: { justRead?: boolean } = {},
  ): AsyncGenerator<Event, void, undefined> {
    const tail = tailOf(id, after, justRead)
    try {
      for await (const event of tail.follow(after, signal)) {
        yield event
        if (ended(event)) return
      }
      // It was deleted before its end was told.
      if (!signal.aborted) throw new Refusal('not_found')
    } finally {
      if (tail.followers() === 0) tails.delete(id)
    }
  }

  const lookForGone = async (): Promise<void> => {
    if (tails.size === 0) return
    // While the database is away nobody is gone: the next poll asks again.
    const missing = await readMissing(database, [...tails.keys()]).catch(() => [])
    for (const id of missing) tails.get(id)?.end()
  }

  /* ------------------------------------------------------------- the feed */

  let feedTail: Tail<FeedEvent> | null = null
  let opening: Promise<Tail<FeedEvent>> | null = null

  /** Readers that open it at one moment ask once. */
  const boundsOf = createBatcher<readonly string[] | null, FeedBounds>({
    keyOf: (queues) => JSON.stringify(queues),
    runOne: (queues) => readFeedBounds(database, queues),
    runBatch: async (all) => {
      const bounds = await readFeedBounds(database, all[0])
      return all.map(() => bounds)
    },
    maxBatch: Number.POSITIVE_INFINITY,
  })

  const openFeed = (): Promise<Tail<FeedEvent>> => {
    opening ??= (async () => {
      const { newest } = await readFeedBounds(database)
      feedTail = createTail<FeedEvent>({
        read: (after, limit) => readFeed(database, after + 1, limit),
        cursorOf: (event) => event.position,
        head: newest,
      })
      return feedTail
    })().catch((error: unknown) => {
      opening = null
      throw error
    })
    return opening
  }

  const feed = async (
    after: number | 'now',
    queues: readonly string[] | null,
    signal: AbortSignal,
  ): Promise<OpenFeed> => {
    const tail = await openFeed()
    const { oldest, newest, whole } = await boundsOf(queues)
    tail.skipTo(newest)
    const open = { tail, queues, signal }
    // The last event's ready hook has the position after its own.
    if (after === 'now') return subscribe({ ...open, from: newest + 1, cursor: newest })

    if (after + 2 < whole) {
      // Some of what lies before may be kept: of todos that go on.
      const cursor = Math.max(after, oldest) - 1
      return subscribe({ ...open, from: after, cursor, gap: { gap: true, oldest: whole } })
    }
    if (after > newest + 1) {
      // A cursor of another database, or of one restored from a backup.
      return subscribe({ ...open, from: after, cursor: newest, gap: { gap: true, oldest } })
    }
    // An event comes again when only its ready hook is new: the reader of frames leaves out what
    // it has seen.
    return subscribe({ ...open, from: after, cursor: after - 1 })
  }

  /* ------------------------------------------------------------- life */

  const offs: (() => void)[] = []

  const lookAtAll = (): void => {
    for (const id of settling.keys()) woken.add(id)
    if (woken.size > 0) void look()
    for (const tail of tails.values()) tail.nudge()
    void lookForGone()
    feedTail?.nudge()
  }

  return {
    settle,
    follow,
    feed,
    // The last event's ready hook has the position after its own.
    position: async () => (await readFeedBounds(database)).newest + 1,
    sequenced: (events) => {
      const [first] = events
      // Positions are drawn one after the other: where one is missing, another node has drawn it.
      if (first) feedTail?.append(first.position - STEP, events)
    },
    start: () => {
      const poll = setInterval(lookAtAll, pollMs)
      const turning = setInterval(turn, LATELY_MS)
      for (const timer of [poll, turning]) timer.unref()
      offs.push(
        () => clearInterval(poll),
        () => clearInterval(turning),
        wakes.onPrefix(topics.settled.prefix, wakeSettled),
        wakes.onPrefix(topics.todo.prefix, (id) => {
          remember(id)
          tails.get(id)?.nudge()
        }),
        wakes.on(topics.sequenced, () => feedTail?.nudge()),
        wakes.onLost(() => {
          unsureUntil = performance.now() + LATELY_MS
          lookAtAll()
        }),
      )
    },
    stop: () => {
      for (const off of offs.splice(0)) off()
    },
  }
}
