/**
 * A tail: the end of an ordered log, kept by one reader for however many follow it. The newest
 * entries stay in a small ring (ring.ts); a follower is only a cursor. One that keeps up is served
 * from the ring, without a query of its own; one that lags, or resumes from long ago, reads the
 * pages it missed. So nothing is buffered for anybody, and nothing can be missed or come twice.
 * Thousands that keep up can each be handed new entries by a plain call.
 */
import { Waiter } from '../../base/wait/waiter.ts'
import { Ring, type RingOptions } from './ring.ts'

export interface TailOptions<Entry> extends RingOptions<Entry> {
  /** Entries after the cursor, oldest first, at most `limit`. */
  read: (after: number, limit: number) => Promise<Entry[]>
  /** The page ends early, and there is more behind this entry. */
  isCut?: (entry: Entry) => boolean
  /** Nothing lies behind the head until a nudge says so, so there is no need to look. */
  upToDate?: boolean
}

export interface Tail<Entry> {
  /** Something may have been appended. */
  nudge(): void
  /** These were appended right behind `before`; a tail whose head is there need not read them. */
  append(before: number, entries: readonly Entry[]): void
  /** The log reaches at least to here; if nobody waits, the ring can skip everything before. */
  skipTo(cursor: number): void
  /** Entries after the cursor, as soon as there are any; none once it is over or the signal fires. */
  next(after: number, signal: AbortSignal): Promise<Entry[]>
  /**
   * Pushes what is appended from now on, as it comes. A `push` that returns false has refused its
   * entries: `end` is called and nothing more is pushed. Returns an off, or null if there is
   * something to be read first.
   */
  live(after: number, reader: LiveReader<Entry>): (() => void) | null
  /** Entries after the cursor, then those to come, until the signal fires. */
  follow(after: number, signal: AbortSignal): AsyncGenerator<Entry, void, undefined>
  /** Nothing will be appended any more: whoever has read everything is done. */
  end(): void
  followers(): number
  head(): number
}

interface LiveReader<Entry> {
  /** Whether these were accepted. */
  push(entries: readonly Entry[]): boolean
  end(): void
}

const PAGE = 200

/** Those who are pushed what is appended. */
const createLiveReaders = <Entry>() => {
  const readers = new Set<LiveReader<Entry>>()

  /** A reader that throws goes back to pulling, like one that does not keep up; the others go on. */
  const accepts = (reader: LiveReader<Entry>, entries: readonly Entry[]): boolean => {
    try {
      return reader.push(entries)
    } catch {
      return false
    }
  }

  return {
    count: () => readers.size,
    add: (reader: LiveReader<Entry>) => {
      readers.add(reader)
      return () => void readers.delete(reader)
    },
    push: (entries: readonly Entry[]): void => {
      if (entries.length === 0) return
      for (const reader of readers) {
        if (accepts(reader, entries)) continue
        readers.delete(reader)
        reader.end()
      }
    },
  }
}

/** Those who wait for the next read. */
const createWaiting = () => {
  let waiting = new Set<Waiter>()
  return {
    count: () => waiting.size,
    add: (waiter: Waiter): void => void waiting.add(waiter),
    remove: (waiter: Waiter): void => void waiting.delete(waiter),
    wakeAll: (): void => {
      const woken = waiting
      waiting = new Set()
      for (const waiter of woken) waiter.wake()
    },
  }
}

export const createTail = <Entry>(options: TailOptions<Entry>): Tail<Entry> => {
  const { read, cursorOf } = options
  const ring = new Ring<Entry>(options)
  const live = createLiveReaders<Entry>()
  const waiting = createWaiting()
  let dirty = !options.upToDate
  let reading: Promise<boolean> | null = null
  let followers = 0
  let over = false

  const append = (entries: readonly Entry[]): void => {
    ring.append(entries)
    live.push(entries)
  }

  /**
   * One read at a time; resolves to whether it succeeded. A nudge during one asks for another.
   * Whoever waits is woken after each, however fast the nudges come. Never rejects.
   */
  const refresh = (): Promise<boolean> => {
    reading ??= (async () => {
      dirty = false
      try {
        const entries = await read(ring.head, PAGE)
        const last = entries.at(-1)
        if (entries.length === PAGE || (last && options.isCut?.(last))) dirty = true
        append(entries)
      } catch {
        // The database is away. Followers wait on; the next nudge, at the latest a poll, reads.
        dirty = true
        return false
      } finally {
        reading = null
      }
      waiting.wakeAll()
      if (dirty && live.count() > 0) void refresh()
      return true
    })()
    return reading
  }

  const nudge = (): void => {
    dirty = true
    if (waiting.count() > 0 || live.count() > 0) void refresh()
  }

  const next = async (after: number, signal: AbortSignal): Promise<Entry[]> => {
    let cursor = after
    while (!signal.aborted) {
      const isRead = !dirty || cursor < ring.head || (await refresh())
      const entries = cursor >= ring.floor ? ring.after(cursor, PAGE) : await read(cursor, PAGE)
      if (entries.length > 0) return signal.aborted ? [] : entries
      // Nothing is kept between the cursor and the ring; or the ring has been served.
      if (cursor < ring.floor) cursor = ring.floor
      else if (over) return []
      else if (!dirty || !isRead) {
        // Nothing is awaited between the look and this, so no wake falls in between.
        const waiter = new Waiter()
        waiting.add(waiter)
        await waiter.sleep(Number.POSITIVE_INFINITY, signal)
        waiting.remove(waiter)
      }
    }
    return []
  }

  return {
    nudge,
    append: (before, entries) => {
      if (reading || before !== ring.head) return nudge()
      append(entries)
      waiting.wakeAll()
    },
    next,
    skipTo: (cursor) => {
      const idle = !reading && waiting.count() === 0 && live.count() === 0
      if (cursor > ring.head && idle) ring.skipTo(cursor)
    },
    live: (after, reader) =>
      dirty || reading || over || after < ring.head ? null : live.add(reader),
    async *follow(after, signal) {
      followers += 1
      try {
        let cursor = after
        for (;;) {
          const entries = await next(cursor, signal)
          if (entries.length === 0) return
          for (const entry of entries) {
            if (signal.aborted) return
            cursor = cursorOf(entry)
            yield entry
          }
        }
      } finally {
        followers -= 1
      }
    },
    end: () => {
      over = true
      waiting.wakeAll()
    },
    followers: () => followers,
    head: () => ring.head,
  }
}
