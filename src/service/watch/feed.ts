/** The feed of all events in order. A process keeps one tail of it for all its readers. */

import type { FeedEvent } from '../../domain/todo.ts'
import type { Database } from '../../store/postgres/database.ts'
import { type FeedBounds, readFeed, readFeedBounds, STEP } from '../../store/todos/events.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Wakes } from '../../store/wake/wake.ts'
import { createBatcher } from '../batcher.ts'
import type { Poll } from '../chores.ts'
import { type OpenFeed, subscribe } from './subscription.ts'
import { createTail, type Tail } from './tail.ts'

export const createFeed = (database: Database, pollMs: number) => {
  let tail: Tail<FeedEvent> | null = null
  let opening: Promise<Tail<FeedEvent>> | null = null

  /** Readers that open the feed at one moment share a query. */
  const boundsOf = createBatcher<readonly string[] | null, FeedBounds>({
    keyOf: (queues) => JSON.stringify(queues),
    runOne: (queues) => readFeedBounds(database, queues),
    runBatch: async (all) => {
      const bounds = await readFeedBounds(database, all[0])
      return all.map(() => bounds)
    },
    maxBatch: Number.POSITIVE_INFINITY,
  })

  const openTail = (): Promise<Tail<FeedEvent>> => {
    opening ??= (async () => {
      const { newest } = await readFeedBounds(database)
      tail = createTail<FeedEvent>({
        read: (after, limit) => readFeed(database, after + 1, limit),
        cursorOf: (event) => event.position,
        head: newest,
      })
      return tail
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
    const opened = await openTail()
    const { oldest, newest, whole } = await boundsOf(queues)
    opened.skipTo(newest)
    const open = { tail: opened, queues, signal }
    // The last event's ready hook has the position after its own.
    if (after === 'now') return subscribe({ ...open, from: newest + 1, cursor: newest })

    if (after + 2 < whole) {
      // Some of what lies before may still be there, from todos that have not ended.
      const cursor = Math.max(after, oldest) - 1
      return subscribe({ ...open, from: after, cursor, gap: { gap: true, oldest: whole } })
    }
    if (after > newest + 1) {
      // The cursor is from another database, or from one restored from a backup.
      return subscribe({ ...open, from: after, cursor: newest, gap: { gap: true, oldest } })
    }
    // An event comes again when only its ready hook is new: whoever makes frames leaves out what
    // the reader has seen.
    return subscribe({ ...open, from: after, cursor: after - 1 })
  }

  const nudge = (): void => tail?.nudge()

  return {
    feed,
    // The last event's ready hook has the position after its own.
    position: async () => (await readFeedBounds(database)).newest + 1,
    sequenced: (events: readonly FeedEvent[]): void => {
      const [first] = events
      // Positions are drawn one after the other: if one is missing, another node has drawn it.
      if (first) tail?.append(first.position - STEP, events)
    },
    nudge,
    polls: [{ everyMs: pollMs, look: async () => nudge() }] satisfies Poll[],
    start: (wakes: Wakes): (() => void)[] => [wakes.on(topics.sequenced, nudge)],
  }
}
