/**
 * Endpoints and what they may do and see. Every read of todos takes a Scope: there is none
 * without. Not yours and not there are one refusal.
 */
import { Refusal } from './errors.ts'

export const ENDPOINT_VERBS = ['send', 'work', 'answer', 'watch'] as const
export type EndpointVerb = (typeof ENDPOINT_VERBS)[number]

/** A vended credential, as kept. The token itself is shown once and stored as SHA-256. */
export interface Endpoint {
  id: string
  name: string
  queues: string[]
  verbs: EndpointVerb[]
  defaultLeaseSeconds: number
  interruptTtlSeconds: number | null
  effects: string[] | null
  sendPerMinute: number | null
  /** Todos it may hold claimed at once; null is no limit. */
  concurrency: number | null
  createdAt: Date
  expiresAt: Date | null
  revokedAt: Date | null
}

/** Who asks: the operator (admin token) or an endpoint. */
export type Caller = { kind: 'operator' } | { kind: 'endpoint'; endpoint: Endpoint }

/**
 * Which todos a query may touch. `client`: those this endpoint sent to this queue. `queues`: all
 * of these queues. `all`: the operator.
 */
export type Scope =
  | { kind: 'client'; clientId: string; queue: string }
  | { kind: 'queues'; queues: readonly string[] }
  | { kind: 'all' }

export const EVERYTHING: Scope = { kind: 'all' }

export const may = (caller: Caller, verb: EndpointVerb, queue: string): boolean =>
  caller.kind === 'operator' ||
  (caller.endpoint.verbs.includes(verb) && caller.endpoint.queues.includes(queue))

/** The endpoint, if it may do `verb` at all; else a `forbidden` refusal. */
export const endpointWith = (caller: Caller, verb: EndpointVerb): Endpoint => {
  if (caller.kind === 'operator' || !caller.endpoint.verbs.includes(verb)) {
    throw new Refusal('forbidden')
  }
  return caller.endpoint
}

/** Which queues' todos this caller may look at through the operator API and the board. */
export const watchScope = (caller: Caller, verb: 'watch' | 'answer' = 'watch'): Scope =>
  caller.kind === 'operator'
    ? EVERYTHING
    : { kind: 'queues', queues: endpointWith(caller, verb).queues }
