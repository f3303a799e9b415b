/**
 * How much one caller may have in progress on a node, so that one token cannot take what all of
 * them need: calls, event streams, and the bytes of the bodies it sends. Each node counts for
 * itself.
 */
import type { Caller } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { type Account, BodyRoom } from './body-room.ts'
import { ReadSlots } from './read-slots.ts'

const MAX_CALLS = 1000
const MAX_STREAMS = 1000

/** Whose a call is: an endpoint's id, or one name for all operators. */
export const ownerOf = (caller: Caller): string =>
  caller.kind === 'operator' ? caller.kind : caller.endpoint.id

export interface CallersOptions {
  maxCalls?: number
  maxStreams?: number
  /** How many bytes the bodies of all calls in progress may have. */
  bodyBytes?: number
  /** How many reads of whole tasks may be in progress. */
  maxReads?: number
}

export class Callers {
  readonly #accounts = new Map<string, Account>()
  readonly #maxCalls: number
  readonly #maxStreams: number
  readonly bodies: BodyRoom
  readonly reads: ReadSlots

  constructor({ maxCalls, maxStreams, bodyBytes, maxReads }: CallersOptions = {}) {
    this.#maxCalls = maxCalls ?? MAX_CALLS
    this.#maxStreams = maxStreams ?? MAX_STREAMS
    this.bodies = new BodyRoom(bodyBytes)
    this.reads = new ReadSlots(maxReads)
  }

  #accountOf(owner: string): Account {
    const known = this.#accounts.get(owner)
    if (known) return known
    const account = { owner, calls: 0, streams: 0, reads: 0, bodyBytes: 0 }
    this.#accounts.set(owner, account)
    return account
  }

  /** Begins a call. Refuses: rate_limited. */
  enter(owner: string): Admission {
    const account = this.#accountOf(owner)
    if (account.calls >= this.#maxCalls) throw tooMany(this.#maxCalls, 'calls in progress')
    account.calls += 1
    return new Admission(this, account)
  }

  /** Begins a stream that no call has begun; the function it returns ends it. Refuses: rate_limited. */
  openStream(owner: string): () => void {
    const account = this.#accountOf(owner)
    this.enterStream(account)
    return () => {
      account.streams -= 1
      this.forgetIdle(account)
    }
  }

  /** Counts a stream. Refuses: rate_limited. */
  enterStream(account: Account): void {
    if (account.streams >= this.#maxStreams) throw tooMany(this.#maxStreams, 'event streams open')
    account.streams += 1
  }

  /** To be called when something of the account has ended. */
  forgetIdle({ owner, calls, streams, bodyBytes }: Account): void {
    if (calls + streams + bodyBytes === 0) this.#accounts.delete(owner)
  }
}

const tooMany = (limit: number, what: string): Refusal =>
  new Refusal(
    'rate_limited',
    { limit, retryAfterSeconds: 1 },
    `An endpoint may have at most ${limit} ${what} on a node`,
  )

/** What one call has taken, until it ends. */
export class Admission {
  readonly #callers: Callers
  readonly #account: Account
  #isCall = true
  #isStream = false
  #isRead = false
  #bodyBytes = 0

  constructor(callers: Callers, account: Account) {
    this.#callers = callers
    this.#account = account
  }

  get owner(): string {
    return this.#account.owner
  }

  /**
   * A row is about to be called: one that reads whole tasks waits for its turn, and one that streams
   * is counted. Refuses: rate_limited.
   */
  begin({ kind, reads }: { kind: 'unary' | 'stream'; reads?: boolean }): Promise<void> | undefined {
    if (kind === 'stream' && !this.#isStream) {
      this.#callers.enterStream(this.#account)
      this.#isStream = true
    }
    // The calls of a batch have one turn together.
    if (!reads || this.#isRead) return
    this.#isRead = true
    return this.#callers.reads.take(this.#account)?.catch((error: unknown) => {
      this.#isRead = false
      throw error
    })
  }

  /** Waits without a turn: what waits for minutes reads nothing, and would keep all turns. */
  async rest(wait: Promise<void>): Promise<void> {
    if (!this.#isRead) return wait
    this.#giveTurn()
    await wait
    if (this.#isCall) await this.begin({ kind: 'unary', reads: true })
  }

  #giveTurn(): void {
    if (this.#isRead) this.#callers.reads.give(this.#account)
    this.#isRead = false
  }

  /**
   * Makes room for a body that has so many bytes in all: now, or by a promise. Refuses, also by
   * throwing: rate_limited, unavailable.
   */
  room(bytes: number): Promise<void> | undefined {
    const more = bytes - this.#bodyBytes
    if (more <= 0) return
    const waiting = this.#callers.bodies.take(this.#account, more)
    if (waiting === undefined) {
      this.#bodyBytes = bytes
      return
    }
    return waiting.then(() => {
      if (this.#isCall) this.#bodyBytes = bytes
      else this.#callers.bodies.give(this.#account, more)
    })
  }

  /** The body is read, and has so many bytes: what was made room for beyond them is given back. */
  settle(bytes: number): void {
    const over = this.#bodyBytes - bytes
    if (over <= 0) return
    this.#bodyBytes = bytes
    this.#callers.bodies.give(this.#account, over)
  }

  /** What has been called is done with the body: the answer is there, or its stream begins. */
  endCall(): void {
    if (!this.#isCall) return
    this.#isCall = false
    this.#account.calls -= 1
    this.#giveTurn()
    if (this.#bodyBytes > 0) this.#callers.bodies.give(this.#account, this.#bodyBytes)
    this.#bodyBytes = 0
    this.#callers.forgetIdle(this.#account)
  }

  end(): void {
    this.endCall()
    if (!this.#isStream) return
    this.#isStream = false
    this.#account.streams -= 1
    this.#callers.forgetIdle(this.#account)
  }
}
