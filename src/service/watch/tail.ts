/**
 * A tail: the end of an ordered log, kept by one reader for however many follow it. The newest
 * entries stay in a small ring; a follower is only a cursor. One that keeps up is served from the
 * ring, without a query of its own; one that lags, or resumes from long ago, reads the pages it
 * missed. So nothing is buffered for anybody, and nothing can be missed or come twice. Of thousands
 * that keep up, each may be handed what comes by a plain call.
 */

export interface TailOptions<Entry> {
  /** Entries after the cursor, oldest first, at most `limit`. */
  read: (after: number, limit: number) => Promise<Entry[]>
  cursorOf: (entry: Entry) => number
  /** Where the tail begins: what is later goes through the ring. */
  head: number
  /** Nothing lies behind the head, unless a nudge says so: there is no need to look. */
  upToDate?: boolean
  ringEntries?: number
  /** About how much an entry weighs; the ring holds `ringWeight` at most. */
  weigh?: (entry: Entry) => number
  ringWeight?: number
}

export interface Tail<Entry> {
  /** Something may have been appended. */
  nudge(): void
  /** These were appended right behind `before`: where the tail stands there, it need not read them. */
  append(before: number, entries: readonly Entry[]): void
  /** The log goes at least up to here: where nobody waits, what lies before need not go through the ring. */
  skipTo(cursor: number): void
  /** Entries after the cursor, as soon as there are any; none once it is over or the signal fires. */
  next(after: number, signal: AbortSignal): Promise<Entry[]>
  /**
   * Hands over what is appended from now on, as it comes, until `take` says false: it has not taken
   * that, and `end` is called. Null where there is something to be read first. Returns an off.
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
  /** Whether these were taken. */
  take(entries: readonly Entry[]): boolean
  end(): void
}

const PAGE = 200

export const createTail = <Entry>(options: TailOptions<Entry>): Tail<Entry> => {
  const { read, cursorOf, weigh = () => 1 } = options
  const ringEntries = options.ringEntries ?? 1000
  const ringWeight = options.ringWeight ?? Number.POSITIVE_INFINITY
  let ring: Entry[] = []
  let weight = 0
  /** Everything after `floor` up to `head` is in the ring. */
  let floor = options.head
  let head = options.head
  let dirty = !options.upToDate
  let reading: Promise<boolean> | null = null
  let waiting = new Set<() => void>()
  const live = new Set<LiveReader<Entry>>()
  let count = 0
  let over = false

  const wakeAll = (): void => {
    const woken = waiting
    waiting = new Set()
    for (const wake of woken) wake()
  }

  /** One that breaks pulls from where it is, like one that does not keep up; the others go on. */
  const takes = (reader: LiveReader<Entry>, entries: readonly Entry[]): boolean => {
    try {
      return reader.take(entries)
    } catch {
      return false
    }
  }

  const hand = (entries: readonly Entry[]): void => {
    for (const reader of live) {
      if (takes(reader, entries)) continue
      live.delete(reader)
      reader.end()
    }
  }

  const append = (entries: readonly Entry[]): void => {
    for (const entry of entries) {
      ring.push(entry)
      weight += weigh(entry)
      head = cursorOf(entry)
    }
    let drop = 0
    while (ring.length - drop > ringEntries || (weight > ringWeight && drop < ring.length)) {
      const dropped = ring[drop]!
      weight -= weigh(dropped)
      floor = cursorOf(dropped)
      drop += 1
    }
    if (drop > 0) ring = ring.slice(drop)
    if (entries.length > 0) hand(entries)
  }

  /**
   * One read at a time, and whether it could be done; a nudge during one asks for another. Whoever
   * waits is woken after each, however fast the nudges come. Never rejects.
   */
  const refresh = (): Promise<boolean> => {
    reading ??= (async () => {
      dirty = false
      try {
        const entries = await read(head, PAGE)
        if (entries.length === PAGE) dirty = true
        append(entries)
      } catch {
        // The database is away. Followers wait on; the next nudge, at the latest a poll, reads.
        dirty = true
        return false
      } finally {
        reading = null
      }
      wakeAll()
      if (dirty && live.size > 0) void refresh()
      return true
    })()
    return reading
  }

  const change = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (signal.aborted) return resolve()
      const done = (): void => {
        waiting.delete(done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      waiting.add(done)
      signal.addEventListener('abort', done, { once: true })
    })

  const from = (after: number): Entry[] => {
    let low = 0
    let high = ring.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (cursorOf(ring[middle]!) > after) high = middle
      else low = middle + 1
    }
    return ring.slice(low, low + PAGE)
  }

  const nudge = (): void => {
    dirty = true
    if (waiting.size > 0 || live.size > 0) void refresh()
  }

  const next = async (after: number, signal: AbortSignal): Promise<Entry[]> => {
    let cursor = after
    while (!signal.aborted) {
      const isRead = !dirty || cursor < head || (await refresh())
      const entries = cursor >= floor ? from(cursor) : await read(cursor, PAGE)
      if (entries.length > 0) return signal.aborted ? [] : entries
      // Nothing is kept between the cursor and the ring; or the ring has been served.
      if (cursor < floor) cursor = floor
      else if (over) return []
      else if (!dirty || !isRead) await change(signal)
    }
    return []
  }

  return {
    nudge,
    append: (before, entries) => {
      if (reading || before !== head) return nudge()
      append(entries)
      wakeAll()
    },
    next,
    skipTo: (cursor) => {
      if (cursor <= head || reading || waiting.size > 0 || live.size > 0) return
      ring = []
      weight = 0
      floor = cursor
      head = cursor
    },
    live: (after, reader) => {
      if (dirty || reading || over || after < head) return null
      live.add(reader)
      return () => void live.delete(reader)
    },
    async *follow(after, signal) {
      count += 1
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
        count -= 1
      }
    },
    end: () => {
      over = true
      wakeAll()
    },
    followers: () => count,
    head: () => head,
  }
}
