/**
 * The kinds of refusal, as a table. A refusal is an expected "no": store and service throw it, callers
 * match it by kind (never by text), and protocol/errors.ts turns it into codes, once for each surface.
 * Anything else that is thrown is a fault, whose message never leaves the process.
 */
import type { StoredMessage } from './todo.ts'

/** Thrown into a stream whose reader fell too far behind and must resume from its last id. */
export class TooSlow extends Error {}

export const REFUSALS = {
  invalid: 'The request is not valid',
  not_found: 'There is no such thing here, or it is not yours',
  forbidden: 'This token does not allow that',
  stale_fence: 'You no longer hold this todo',
  wrong_state: 'The todo is in a state that does not allow this',
  unread_messages: 'There are messages the holder has not acknowledged',
  finished: 'The todo has ended and takes no further messages',
  not_cancelable: 'The todo has ended and can no longer be canceled',
  duplicate: 'This was already recorded',
  idempotency_conflict: 'This idempotency key was used for a send with another content',
  budget_exhausted: 'The budget is exhausted, and the todo has ended',
  limit: 'A limit was reached',
  rate_limited: 'Too many requests',
  unavailable: 'The service is not available at the moment',
  unsupported: 'This operation is not supported',
  push_unsupported: 'Push notifications are not supported',
  content_type: 'A part has a media type this agent does not accept',
  no_extended_card: 'No extended agent card is configured',
} as const

export type RefusalKind = keyof typeof REFUSALS

/** One field at fault; `field` is a path such as `message.parts[0].text`. */
export interface Violation {
  field: string
  description: string
}

/** What a program may want to know. It never holds anything of another tenant. */
export interface RefusalDetail {
  state?: string
  /** What the todo failed with, if it has ended so. */
  error?: string
  unread?: StoredMessage[]
  limit?: number
  /** The names of what was requested beyond what may be given. */
  refused?: string[]
  retryAfterSeconds?: number
  /** For `unavailable`: it may have been done all the same, and only the answer was lost. */
  outcome?: 'unknown'
  violations?: Violation[]
  id?: string
}

export class Refusal extends Error {
  readonly kind: RefusalKind
  readonly detail: RefusalDetail

  constructor(kind: RefusalKind, detail: RefusalDetail = {}, message: string = REFUSALS[kind]) {
    super(message)
    this.name = 'Refusal'
    this.kind = kind
    this.detail = detail
  }
}

export const invalid = (field: string, description: string): Refusal =>
  new Refusal('invalid', { violations: [{ field, description }] })

/** What was looked for. Refuses if it is not there: not_found. */
export const orNotFound = <T>(found: T | null | undefined): T => {
  if (found === null || found === undefined) throw new Refusal('not_found')
  return found
}

/** Whether this is a refusal, of one of these kinds if any are named. */
export const isRefusal = (error: unknown, ...kinds: RefusalKind[]): error is Refusal =>
  error instanceof Refusal && (kinds.length === 0 || kinds.includes(error.kind))
