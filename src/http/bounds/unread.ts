/**
 * Answers that their readers have not taken yet. What a socket does not take stays in the memory of
 * the process, so it is counted, for all of them together, and has a limit in time. Past the bound
 * in bytes the owner with most of them loses its oldest; past the time, a reader is cut off.
 */
import type { ServerResponse } from 'node:http'
import { Refusal } from '../../domain/errors.ts'

const TOTAL_BYTES = 64 * 1024 * 1024
const DRAIN_MS = 30_000
/** A larger answer has the same time again for each of these. */
const STEP_BYTES = 4 * 1024 * 1024

const LARGE = 64 * 1024

/**
 * What is to be written of a text. A large one leaves as bytes, outside of the heap: Node would copy the text
 * to put the headers before it, and a text with one wide character takes two bytes for each.
 */
export const contentOf = (text: string): Buffer | string =>
  text.length > LARGE ? Buffer.from(text) : text

/** One answer, or what is buffered of a stream. */
export interface Unread {
  readonly owner: string
  readonly bytes: number
  /** Breaks the connection off. */
  readonly cut: () => void
}

export interface UnreadOptions {
  totalBytes?: number
  drainMs?: number
}

export class UnreadAnswers {
  readonly #total: number
  readonly #drainMs: number
  /** Oldest first. */
  readonly #all = new Set<Unread>()
  readonly #byOwner = new Map<string, number>()
  #bytes = 0

  constructor({ totalBytes, drainMs }: UnreadOptions = {}) {
    this.#total = totalBytes ?? TOTAL_BYTES
    this.#drainMs = drainMs ?? DRAIN_MS
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Refuses an owner who leaves half of all that may be unread: rate_limited. */
  check(owner: string): void {
    if (this.#bytes === 0) return
    const limit = Math.floor(this.#total / 2)
    if ((this.#byOwner.get(owner) ?? 0) <= limit) return
    const why = 'Too many bytes of answers to this endpoint wait to be read'
    throw new Refusal('rate_limited', { limit, retryAfterSeconds: 1 }, why)
  }

  add(unread: Unread): void {
    const { owner, bytes } = unread
    while (this.#all.size > 0 && this.#bytes + bytes > this.#total) {
      const oldest = this.#oldestOfHeaviest()
      this.remove(oldest)
      oldest.cut()
    }
    this.#all.add(unread)
    this.#byOwner.set(owner, (this.#byOwner.get(owner) ?? 0) + bytes)
    this.#bytes += bytes
  }

  /** To be called when it was read, or the connection is gone; more than once does no harm. */
  remove(unread: Unread): void {
    if (!this.#all.delete(unread)) return
    const { owner, bytes } = unread
    this.#bytes -= bytes
    const left = (this.#byOwner.get(owner) ?? 0) - bytes
    if (left > 0) this.#byOwner.set(owner, left)
    else this.#byOwner.delete(owner)
  }

  /** How long a reader may take for so many bytes. */
  timeFor(bytes: number): number {
    return this.#drainMs * Math.max(1, Math.ceil(bytes / STEP_BYTES))
  }

  #oldestOfHeaviest(): Unread {
    const [heaviest] = [...this.#byOwner].reduce((a, b) => (b[1] > a[1] ? b : a))
    for (const unread of this.#all) if (unread.owner === heaviest) return unread
    throw new TypeError(`nothing of ${heaviest} is unread`)
  }
}

/** The answers that are guarded, by whichever of those that send them came first. */
const guarded = new WeakSet<ServerResponse>()

/**
 * Counts what the reader of an answer that has been ended does not take, until it is read or its
 * time is over. `owner` may be left out where nobody knows whose it is.
 */
export const guardUnread = (answers: UnreadAnswers, res: ServerResponse, owner = ''): void => {
  if (guarded.has(res) || res.closed) return
  guarded.add(res)
  const bytes = res.writableLength
  // An answer that waits behind others of its connection has no socket of its own yet.
  const cut = (): void => void res.req.socket.destroy()
  const unread: Unread = { owner, bytes, cut }
  const timer = setTimeout(cut, answers.timeFor(bytes))
  res.once('close', () => {
    clearTimeout(timer)
    answers.remove(unread)
  })
  answers.add(unread)
}
