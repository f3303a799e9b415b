/**
 * How many reads of whole tasks a process does at a time. Each may bring megabytes, and takes some
 * times its size until it is written out, so those beyond the bound wait. Whoever has the fewest in
 * progress comes next, so that a hundred large reads of one owner delay another by one read.
 */
import { Refusal } from '../../domain/errors.ts'
import type { Account } from './body-room.ts'

const MAX_READS = 12
const WAIT_MS = 10_000

interface Waiting {
  begin(): void
}

export class ReadSlots {
  readonly #most: number
  readonly #waitMs: number
  #running = 0
  /** Oldest first. */
  readonly #waiting = new Map<Account, Set<Waiting>>()

  constructor(most = MAX_READS, waitMs = WAIT_MS) {
    this.#most = most
    this.#waitMs = waitMs
  }

  get #perOwner(): number {
    return Math.max(1, Math.floor(this.#most / 2))
  }

  #begin(account: Account): void {
    this.#running += 1
    account.reads += 1
  }

  /** Undefined where it may begin at once. Refuses after a while: rate_limited. */
  take(account: Account): Promise<void> | undefined {
    if (this.#running < this.#most && account.reads < this.#perOwner) {
      this.#begin(account)
      return
    }
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        begin: () => {
          clearTimeout(timer)
          this.#forget(account, waiting)
          this.#begin(account)
          resolve()
        },
      }
      const timer = setTimeout(() => {
        this.#forget(account, waiting)
        const why = 'Too many reads of whole tasks are in progress on this node'
        const detail = { limit: this.#perOwner, retryAfterSeconds: 1 }
        reject(new Refusal('rate_limited', detail, why))
      }, this.#waitMs)
      const others = this.#waiting.get(account) ?? new Set()
      this.#waiting.set(account, others.add(waiting))
    })
  }

  give(account: Account): void {
    this.#running -= 1
    account.reads -= 1
    let next: Account | undefined
    for (const each of this.#waiting.keys()) {
      if (each.reads < (next?.reads ?? this.#perOwner)) next = each
    }
    const [first] = (next && this.#waiting.get(next)) ?? []
    first?.begin()
  }

  #forget(account: Account, waiting: Waiting): void {
    const others = this.#waiting.get(account)
    others?.delete(waiting)
    if (others?.size === 0) this.#waiting.delete(account)
  }
}
