/**
 * Endpoints and what they may do and see. Every read of todos takes a Scope. A todo that is not the
 * caller's is refused like one that does not exist.
 */
import { Refusal } from './errors.ts'

export const ENDPOINT_VERBS = ['send', 'work', 'answer', 'watch'] as const
export type EndpointVerb = (typeof ENDPOINT_VERBS)[number]

/** A vended credential. The token itself is shown once and stored as SHA-256. */
export interface Endpoint {
  id: string
  name: string
  queues: string[]
  verbs: EndpointVerb[]
  defaultLeaseSeconds: number
  interruptTtlSeconds: number | null
  effects: string[] | null
  sendPerMinute: number | null
  /** How many todos it may hold claimed at once; null is no limit. */
  concurrency: number | null
  /** The priorities that its sends may name, the first and the last; null leaves that to the queue. */
  highestPriority: number | null
  lowestPriority: number | null
  createdAt: Date
  expiresAt: Date | null
  revokedAt: Date | null
}

/** Who makes a call: the operator (admin token) or an endpoint. */
export type Caller = { kind: 'operator' } | { kind: 'endpoint'; endpoint: Endpoint }

/**
 * Which todos a query may touch. `client`: those that this endpoint sent to this queue. `queues`: all
 * in these queues. `all`: every todo, for the operator.
 */
export type Scope =
  | { kind: 'client'; clientId: string; queue: string }
  | { kind: 'queues'; queues: readonly string[] }
  | { kind: 'all' }

export const EVERYTHING: Scope = { kind: 'all' }

/**
 * The reason of a signal that ends a wait because its caller lost the right to what it waits for.
 * `now` is what the caller may do at present; null where its credential is no longer good.
 */
export class Withdrawn {
  readonly refusal: Error
  readonly now: Caller | null

  constructor(refusal: Error, now: Caller | null) {
    this.refusal = refusal
    this.now = now
  }
}

export const may = (caller: Caller, verb: EndpointVerb, queue: string): boolean =>
  caller.kind === 'operator' ||
  (caller.endpoint.verbs.includes(verb) && caller.endpoint.queues.includes(queue))

/** Names the caller among all who call. */
export const readerOf = (caller: Caller): string =>
  caller.kind === 'operator' ? 'operator' : caller.endpoint.id

/** The caller's endpoint. Refuses a caller that may not do `verb` at all: forbidden. */
export const endpointWith = (caller: Caller, verb: EndpointVerb): Endpoint => {
  if (caller.kind === 'operator' || !caller.endpoint.verbs.includes(verb)) {
    throw new Refusal('forbidden')
  }
  return caller.endpoint
}

/** Which todos this caller may see through the operator API and the board. */
export const watchScope = (caller: Caller, verb: 'watch' | 'answer' = 'watch'): Scope =>
  caller.kind === 'operator'
    ? EVERYTHING
    : { kind: 'queues', queues: endpointWith(caller, verb).queues }
