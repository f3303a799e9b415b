/**
 * The bytes of all bodies that a process reads or serves at a time: a body costs several times its
 * size until it is stored. A large one waits for room, unread, which is back-pressure for its
 * sender; who waits in vain is told to come again. A part is kept for small ones, and one owner gets
 * at most half, so that large bodies of one do not keep out the calls of others.
 */
import { Refusal } from '../../domain/errors.ts'

const TOTAL_BYTES = 64 * 1024 * 1024
/** What is no larger does not wait. */
export const SMALL_BYTES = 64 * 1024
const LARGE_SHARE = 0.75
const OWNER_SHARE = 0.375
const WAIT_MS = 5000

/** What one owner has in progress. */
export interface Account {
  readonly owner: string
  calls: number
  streams: number
  reads: number
  bodyBytes: number
}

interface Waiting {
  account: Account
  bytes: number
  resolve(): void
}

export class BodyRoom {
  readonly #total: number
  readonly #waitMs: number
  #used = 0
  readonly #waiting = new Set<Waiting>()

  constructor(total = TOTAL_BYTES, waitMs = WAIT_MS) {
    this.#total = total
    this.#waitMs = waitMs
  }

  /** The bytes that are taken now. */
  get used(): number {
    return this.#used
  }

  #ownerFits({ bodyBytes }: Account, bytes: number): boolean {
    return bodyBytes === 0 || bodyBytes + bytes <= this.#total * OWNER_SHARE
  }

  #fits(account: Account, bytes: number): boolean {
    const most = this.#total * (bytes > SMALL_BYTES ? LARGE_SHARE : 1)
    return this.#ownerFits(account, bytes) && (this.#used === 0 || this.#used + bytes <= most)
  }

  #add(account: Account, bytes: number): void {
    this.#used += bytes
    account.bodyBytes += bytes
  }

  /** Undefined where there is room at once. Refuses: rate_limited, unavailable. */
  take(account: Account, bytes: number): Promise<void> | undefined {
    if (this.#fits(account, bytes)) {
      this.#add(account, bytes)
      return
    }
    if (bytes <= SMALL_BYTES) throw this.#refusal(account, bytes)
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        account,
        bytes,
        resolve: () => {
          clearTimeout(timer)
          this.#waiting.delete(waiting)
          this.#add(account, bytes)
          resolve()
        },
      }
      const timer = setTimeout(() => {
        this.#waiting.delete(waiting)
        reject(this.#refusal(account, bytes))
      }, this.#waitMs)
      this.#waiting.add(waiting)
    })
  }

  give(account: Account, bytes: number): void {
    this.#used -= bytes
    account.bodyBytes -= bytes
    // Who waits for others of its own owner does not hold up those behind it.
    for (const waiting of this.#waiting) {
      if (this.#fits(waiting.account, waiting.bytes)) waiting.resolve()
      else if (this.#ownerFits(waiting.account, waiting.bytes)) return
    }
  }

  #refusal(account: Account, bytes: number): Refusal {
    return this.#ownerFits(account, bytes)
      ? new Refusal(
          'unavailable',
          { limit: this.#total, retryAfterSeconds: 1 },
          'This node has too many bytes of requests in progress',
        )
      : new Refusal(
          'rate_limited',
          { limit: Math.floor(this.#total * OWNER_SHARE), retryAfterSeconds: 1 },
          'This endpoint has too many bytes of requests in progress on a node',
        )
  }
}
