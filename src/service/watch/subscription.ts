/**
 * One reader of the feed, which is no more than a cursor in its tail: it pulls what comes after the
 * cursor, learns where something is missing, and can be pushed new events once it has caught up.
 */
import { createMemo } from '../../base/memo.ts'
import type { FeedEvent } from '../../domain/todo.ts'
import { STEP } from '../../store/todos/events.ts'
import type { Tail } from './tail.ts'

/** The reader's cursor lies before what is kept: everything up to `oldest` is gone. */
export interface Gap {
  gap: true
  oldest: number
}

export interface OpenFeed {
  /** A reader that has seen everything up to here misses nothing. */
  from: number
  events: AsyncIterable<FeedEvent | Gap>
  /**
   * Pushes what comes from now on by a plain call, for a reader that has pulled all of `events`.
   * A `push` that returns false has refused its events: `end` is called and `events` goes on from
   * there. Returns an off, or null if there is something to be pulled first.
   */
  live?(push: (events: readonly FeedEvent[]) => boolean, end: () => void): (() => void) | null
}

export interface SubscriptionParts {
  from: number
  tail: Pick<Tail<FeedEvent>, 'next' | 'live'>
  /** The last event that the reader needs no more. */
  cursor: number
  /** Null means every queue. */
  queues: readonly string[] | null
  /** What is missing before the first event. */
  gap?: Gap
  signal: AbortSignal
}

/** Up to where events of these queues were deleted that the reader may have missed. */
const deletedBefore = ({ deleted = [] }: FeedEvent, queues: readonly string[] | null): number =>
  Math.max(
    0,
    ...deleted
      .filter(({ queue }) => queues === null || queues.includes(queue))
      .map(({ position }) => position),
  )

const NOTHING: never[] = []

/** Readers of the same queues get the same list, so that its frames are made once. */
const wantedOf = createMemo<readonly FeedEvent[], readonly FeedEvent[]>()

/** A class because there are thousands of them, and none should have functions of its own. */
class Subscription implements OpenFeed {
  readonly from: number
  readonly #tail: SubscriptionParts['tail']
  readonly #queues: readonly string[] | null
  readonly #signal: AbortSignal
  #cursor: number
  #seen: number
  #items: (FeedEvent | Gap)[] = NOTHING
  #push: (events: readonly FeedEvent[]) => boolean = () => false
  #end: () => void = () => {}

  constructor({ from, tail, cursor, queues, gap, signal }: SubscriptionParts) {
    this.from = from
    this.#tail = tail
    this.#queues = queues
    this.#signal = signal
    this.#cursor = cursor
    this.#seen = gap ? gap.oldest : cursor + 1
    if (gap) this.#items = [gap]
  }

  get events(): this {
    return this
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<FeedEvent | Gap, undefined>> {
    while (this.#items.length === 0) {
      const page = await this.#tail.next(this.#cursor, this.#signal)
      if (page.length === 0) return { done: true, value: undefined }
      this.#cursor = page.at(-1)!.position
      // Reversed, so that the next one can be popped.
      this.#items = page.flatMap((event) => this.#itemsOf(event)).reverse()
    }
    return { done: false, value: this.#items.pop()! }
  }

  live(push: (events: readonly FeedEvent[]) => boolean, end: () => void): (() => void) | null {
    if (this.#items.length > 0) return null
    this.#push = push
    this.#end = end
    return this.#tail.live(this.#cursor, this)
  }

  /** Called by the tail. */
  push(events: readonly FeedEvent[]): boolean {
    if (events.some(({ deleted }) => deleted !== undefined)) return false
    const all =
      this.#queues === null
        ? events
        : wantedOf(events, JSON.stringify(this.#queues), () =>
            events.filter((event) => this.#isWanted(event)),
          )
    const isKnown = events[0]!.position <= this.#cursor
    const wanted = isKnown ? all.filter(({ position }) => position > this.#cursor) : all
    if (wanted.length > 0 && !this.#push(wanted)) return false
    this.#cursor = Math.max(this.#cursor, events.at(-1)!.position)
    this.#seen = Math.max(this.#seen, this.#cursor)
    return true
  }

  end(): void {
    this.#end()
  }

  #isWanted({ queue }: FeedEvent): boolean {
    return this.#queues === null || this.#queues.includes(queue)
  }

  #itemsOf(event: FeedEvent): (FeedEvent | Gap)[] {
    // They were deleted while this reader was on its way there.
    const deleted = deletedBefore(event, this.#queues)
    const missing = deleted > this.#seen ? [{ gap: true as const, oldest: deleted + STEP }] : []
    this.#seen = Math.max(this.#seen, deleted, event.position)
    return this.#isWanted(event) ? [...missing, event] : missing
  }
}

export const subscribe = (parts: SubscriptionParts): OpenFeed & Required<Pick<OpenFeed, 'live'>> =>
  new Subscription(parts)
