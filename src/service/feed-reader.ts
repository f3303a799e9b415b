/**
 * One reader of the feed, which is no more than a cursor in its tail: it pulls what lies behind it,
 * is told where something is missing, and may be handed what comes once it has caught up.
 */
import { createMemo } from '../base/memo.ts'
import type { FeedEvent } from '../domain/todo.ts'
import { STEP } from '../store/events.ts'
import type { Gap, OpenFeed } from './contract.ts'
import type { Tail } from './tail.ts'

export interface ReaderParts {
  tail: Pick<Tail<FeedEvent>, 'next' | 'live'>
  /** The last event that needs no telling. */
  cursor: number
  /** Null stands for all. */
  queues: readonly string[] | null
  /** What is missing before the first event. */
  gap?: Gap
  signal: AbortSignal
}

/** Up to where events of these queues were deleted that a reader of this one may have missed. */
const deletedBefore = ({ deleted = [] }: FeedEvent, queues: readonly string[] | null): number =>
  Math.max(
    0,
    ...deleted
      .filter(({ queue }) => queues === null || queues.includes(queue))
      .map(({ position }) => position),
  )

/** Readers of the same queues are handed the same list, of which frames are made once. */
const wantedOf = createMemo<readonly FeedEvent[], readonly FeedEvent[]>()

export const readerOf = (parts: ReaderParts): Pick<OpenFeed, 'events' | 'live'> => {
  const { tail, queues, gap, signal } = parts
  let cursor = parts.cursor
  let seen = gap ? gap.oldest : cursor + 1
  let items: (FeedEvent | Gap)[] = gap ? [gap] : []

  const way = JSON.stringify(queues)

  const isWanted = ({ queue }: FeedEvent): boolean => queues === null || queues.includes(queue)

  const itemsOf = (event: FeedEvent): (FeedEvent | Gap)[] => {
    // Deleted while this reader was on its way there.
    const deleted = deletedBefore(event, queues)
    const missing = deleted > seen ? [{ gap: true as const, oldest: deleted + STEP }] : []
    seen = Math.max(seen, deleted, event.position)
    return isWanted(event) ? [...missing, event] : missing
  }

  const next = async (): Promise<IteratorResult<FeedEvent | Gap, undefined>> => {
    while (items.length === 0) {
      const page = await tail.next(cursor, signal)
      if (page.length === 0) return { done: true, value: undefined }
      cursor = page.at(-1)!.position
      // Turned round, to be taken from its end.
      items = page.flatMap(itemsOf).reverse()
    }
    return { done: false, value: items.pop()! }
  }

  return {
    events: { [Symbol.asyncIterator]: () => ({ next }) },
    live: (take, end) => {
      if (items.length > 0) return null
      const takeWanted = (events: readonly FeedEvent[]): boolean => {
        if (events.some(({ deleted }) => deleted !== undefined)) return false
        const all = queues === null ? events : wantedOf(events, way, () => events.filter(isWanted))
        const isKnown = events[0]!.position <= cursor
        const wanted = isKnown ? all.filter(({ position }) => position > cursor) : all
        if (wanted.length > 0 && !take(wanted)) return false
        cursor = Math.max(cursor, events.at(-1)!.position)
        seen = Math.max(seen, cursor)
        return true
      }
      return tail.live(cursor, { take: takeWanted, end })
    },
  }
}
