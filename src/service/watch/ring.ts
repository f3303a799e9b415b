/** The newest entries of an ordered log, bounded by their number and by their weight. */

export interface RingOptions<Entry> {
  cursorOf: (entry: Entry) => number
  /** Where the log stands: later entries go through the ring. */
  head: number
  ringEntries?: number
  /** About how much an entry weighs; the ring holds at most `ringWeight`. */
  weigh?: (entry: Entry) => number
  ringWeight?: number
}

export class Ring<Entry> {
  /** Everything after `floor` up to `head` is in the ring. */
  floor: number
  head: number
  readonly #options: Required<RingOptions<Entry>>
  #entries: Entry[] = []
  #weight = 0

  constructor(options: RingOptions<Entry>) {
    const unbounded = { ringEntries: 1000, weigh: () => 1, ringWeight: Number.POSITIVE_INFINITY }
    this.#options = { ...unbounded, ...options }
    this.floor = options.head
    this.head = options.head
  }

  append(entries: readonly Entry[]): void {
    const { cursorOf, weigh, ringEntries, ringWeight } = this.#options
    for (const entry of entries) {
      this.#entries.push(entry)
      this.#weight += weigh(entry)
      this.head = cursorOf(entry)
    }
    const { length } = this.#entries
    let drop = 0
    while (length - drop > ringEntries || (this.#weight > ringWeight && drop < length)) {
      const dropped = this.#entries[drop]!
      this.#weight -= weigh(dropped)
      this.floor = cursorOf(dropped)
      drop += 1
    }
    if (drop > 0) this.#entries = this.#entries.slice(drop)
  }

  /** At most `limit` of the entries after this cursor, which must not lie before the floor. */
  after(cursor: number, limit: number): Entry[] {
    let low = 0
    let high = this.#entries.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#options.cursorOf(this.#entries[middle]!) > cursor) high = middle
      else low = middle + 1
    }
    return this.#entries.slice(low, low + limit)
  }

  /** Drops what it holds and goes on from this cursor. */
  skipTo(cursor: number): void {
    this.#entries = []
    this.#weight = 0
    this.floor = cursor
    this.head = cursor
  }
}
