/**
 * What each kind of refusal is on the wire: code, text, reason and HTTP status, once for A2A 1.0
 * (spec 5.4, 9.5; docs/protocol.md, "Errors") and once for the agent and operator APIs
 * (docs/agents.md, "Without the kit", has their table). The domain's refusals are joined by the
 * wire's own: what can be wrong with a request before anyone serves it. A fault (anything else
 * that is thrown) has one fixed text; its message stays in the log.
 */
import { defined } from '../../base/defined.ts'
import { REFUSALS, Refusal, type RefusalKind, type Violation } from '../../domain/errors.ts'
import type { State } from '../../domain/lifecycle.ts'
import type { StoredMessage } from '../../domain/todo.ts'
import { PROJECTION, type TaskState } from '../json/enums.ts'
import { fromStored } from '../json/todo.ts'

/** The wire refuses these itself, before it asks a service. */
export const WIRE_REFUSALS = {
  parse: 'Invalid JSON payload',
  envelope: 'Request payload validation error',
  method: 'Method not found',
  verb: 'This path does not take this HTTP method',
  version: 'This protocol version is not supported',
  extension: 'This agent requires an extension that was not asked for',
  unauthenticated: 'A valid bearer token is required',
  too_large: 'The request body is too large',
  too_late: 'The request body did not arrive in time',
  media_type: 'The request body has an unsupported media type',
  fault: 'Internal error',
} as const

export type WireKind = keyof typeof WIRE_REFUSALS
export type ProblemKind = RefusalKind | WireKind

/** The wire's own refusal. `metadata` is for programs; its values are strings (google.rpc). */
export class WireRefusal extends Error {
  readonly kind: WireKind
  readonly metadata: Record<string, string>

  constructor(
    kind: WireKind,
    message: string = WIRE_REFUSALS[kind],
    metadata: Record<string, string> = {},
  ) {
    super(message)
    this.name = 'WireRefusal'
    this.kind = kind
    this.metadata = metadata
  }
}

/** What went wrong, before any surface has written it in its own form. */
export interface Problem {
  kind: ProblemKind
  /** Set only if it says more than the kind's own text. */
  message?: string
  violations?: readonly Violation[]
  state?: string
  error?: string
  unread?: readonly StoredMessage[]
  limit?: number
  /** The names of what was requested and may not be given. */
  refused?: readonly string[]
  retryAfterSeconds?: number
  /** The call may have taken effect all the same. */
  outcome?: 'unknown'
  metadata?: Record<string, string>
  requestId?: string
}

/** Seconds after which a client may try again if nothing better is known. */
const RETRY_AFTER = { unavailable: 2, rate_limited: 1 } as const

const ofRefusal = ({ kind, message, detail }: Refusal, requestId: string): Problem => {
  const { retryAfterSeconds, outcome, id: _, ...shown } = detail
  const mayRetry = kind === 'unavailable' || kind === 'rate_limited'
  return defined<Problem>({
    kind,
    // What is not there and what is not yours get one answer: nothing of the refusal shows.
    ...(kind !== 'not_found' && {
      ...shown,
      message: message === REFUSALS[kind] ? undefined : message,
    }),
    retryAfterSeconds: mayRetry
      ? Math.max(1, Math.ceil(retryAfterSeconds ?? RETRY_AFTER[kind]))
      : undefined,
    requestId: kind === 'unavailable' ? requestId : undefined,
    outcome,
  })
}

const unlessEmpty = <T extends object>(members: T): T | undefined =>
  Object.keys(members).length > 0 ? members : undefined

/** What was thrown, as a problem. `requestId` (any short string) shows only if the log has more. */
export const problemOf = (thrown: unknown, requestId: string): Problem => {
  if (thrown instanceof Refusal) return ofRefusal(thrown, requestId)
  if (thrown instanceof WireRefusal) {
    const { kind, message, metadata } = thrown
    return defined<Problem>({
      kind,
      message: message === WIRE_REFUSALS[kind] ? undefined : message,
      metadata: unlessEmpty(metadata),
    })
  }
  return { kind: 'fault', requestId }
}

/** True for what must be logged with its stack: faults, and a service that is away. */
export const isFault = (problem: Problem): boolean =>
  problem.kind === 'fault' || problem.kind === 'unavailable'

interface RpcError {
  code: number
  message: string
  data?: unknown
}

/** A problem as one surface answers it. `status` is the HTTP status of a JSON-RPC answer. */
export interface ErrorAnswer {
  status: number
  error: RpcError
  retryAfterSeconds?: number
}

/** How a surface writes its problems. */
export type ErrorWriter = (problem: Problem) => ErrorAnswer

interface Row {
  code: number
  /** Absent: the kind's own text. */
  message?: string
  reason: string
  /** HTTP status in the HTTP+JSON binding, and on JSON-RPC if {@link ON_RPC} has it. */
  status: number
}

/** A JSON-RPC error is HTTP 200, except those that proxies and HTTP clients must understand. */
const ON_RPC: ReadonlySet<number> = new Set([401, 403, 408, 413, 415, 429, 503])

export const messageOf = ({ kind, message }: Problem, row: Row): string =>
  message ??
  row.message ??
  (kind in REFUSALS ? REFUSALS[kind as RefusalKind] : WIRE_REFUSALS[kind as WireKind])

const answer = (problem: Problem, row: Row, data: unknown): ErrorAnswer =>
  defined<ErrorAnswer>({
    status: ON_RPC.has(row.status) ? row.status : 200,
    error: { code: row.code, message: messageOf(problem, row), data },
    retryAfterSeconds: problem.retryAfterSeconds,
  })

/* ---------------------------------------------------------------- A2A 1.0 */

const A2A_DOMAIN = 'a2a-protocol.org'
/** For reasons that A2A does not define. */
const OWN_DOMAIN = 'switchboard'

const unsupported: Row = { code: -32004, reason: 'UNSUPPORTED_OPERATION', status: 400 }

/** The same in the protocol's words, which speak of tasks. */
const unsupportedTask = (message: string): Row => ({ ...unsupported, message })

/** Rows whose reason A2A defines have an A2A code (-32001 to -32009). */
export const A2A_ERRORS: Record<ProblemKind, Row> = {
  invalid: { code: -32602, message: 'Invalid parameters', reason: 'INVALID_PARAMS', status: 400 },
  not_found: { code: -32001, message: 'Task not found', reason: 'TASK_NOT_FOUND', status: 404 },
  not_cancelable: {
    code: -32002,
    message: 'Task cannot be canceled',
    reason: 'TASK_NOT_CANCELABLE',
    status: 400,
  },
  push_unsupported: { code: -32003, reason: 'PUSH_NOTIFICATION_NOT_SUPPORTED', status: 400 },
  unsupported,
  finished: unsupportedTask('The task has ended and takes no further messages'),
  wrong_state: unsupportedTask('The task is in a state that does not allow this'),
  stale_fence: unsupportedTask('This task is held by somebody else'),
  unread_messages: unsupported,
  content_type: { code: -32005, reason: 'CONTENT_TYPE_NOT_SUPPORTED', status: 400 },
  media_type: { code: -32005, reason: 'CONTENT_TYPE_NOT_SUPPORTED', status: 415 },
  no_extended_card: { code: -32007, reason: 'EXTENDED_AGENT_CARD_NOT_CONFIGURED', status: 400 },
  extension: { code: -32008, reason: 'EXTENSION_SUPPORT_REQUIRED', status: 400 },
  version: { code: -32009, reason: 'VERSION_NOT_SUPPORTED', status: 400 },
  // A2A has no code for these: -32000 is the one server-defined code that it does not claim.
  forbidden: { code: -32000, reason: 'PERMISSION_DENIED', status: 403 },
  unauthenticated: { code: -32000, reason: 'UNAUTHENTICATED', status: 401 },
  rate_limited: { code: -32000, reason: 'RATE_LIMITED', status: 429 },
  limit: { code: -32000, reason: 'LIMIT_REACHED', status: 400 },
  budget_exhausted: {
    code: -32000,
    message: 'The budget is exhausted, and the task has ended',
    reason: 'BUDGET_EXHAUSTED',
    status: 400,
  },
  duplicate: { code: -32000, reason: 'DUPLICATE', status: 409 },
  idempotency_conflict: { code: -32000, reason: 'IDEMPOTENCY_CONFLICT', status: 409 },
  unavailable: { code: -32603, reason: 'UNAVAILABLE', status: 503 },
  fault: { code: -32603, reason: 'INTERNAL', status: 500 },
  parse: { code: -32700, reason: 'PARSE_ERROR', status: 400 },
  envelope: { code: -32600, reason: 'INVALID_REQUEST', status: 400 },
  too_large: { code: -32600, reason: 'REQUEST_TOO_LARGE', status: 413 },
  too_late: { code: -32600, reason: 'REQUEST_TIMEOUT', status: 408 },
  method: { code: -32601, reason: 'METHOD_NOT_FOUND', status: 404 },
  verb: { code: -32601, reason: 'METHOD_NOT_ALLOWED', status: 405 },
}

const typed = (name: string, members: object): object => ({
  '@type': `type.googleapis.com/google.rpc.${name}`,
  ...members,
})

export const isA2aCode = (code: number): boolean => code <= -32001 && code >= -32009

/** What a version of the protocol calls a state. */
export type StateName = (state: TaskState) => string

const nameOf = (state: string | undefined, stateName: StateName): string | undefined =>
  state !== undefined && Object.hasOwn(PROJECTION, state)
    ? stateName(PROJECTION[state as State])
    : state

/** The google.rpc details, each only if there is something to say. */
export const detailsOf = (
  problem: Problem,
  row: Row,
  stateName: StateName = (state) => state,
): object[] => {
  const { state, error, limit, refused, outcome } = problem
  const { violations, requestId, retryAfterSeconds } = problem
  const metadata = defined<Record<string, string>>({
    ...problem.metadata,
    state: nameOf(state, stateName),
    error,
    limit: limit?.toString(),
    refused: refused?.join(', '),
    outcome,
  })
  const info = {
    reason: row.reason,
    domain: isA2aCode(row.code) ? A2A_DOMAIN : OWN_DOMAIN,
    metadata: unlessEmpty(metadata),
  }
  return [
    typed('ErrorInfo', defined(info)),
    violations && typed('BadRequest', { fieldViolations: violations }),
    retryAfterSeconds !== undefined && typed('RetryInfo', { retryDelay: `${retryAfterSeconds}s` }),
    requestId !== undefined && typed('RequestInfo', { requestId }),
  ].filter((detail) => typeof detail === 'object')
}

/** A2A 1.0 over JSON-RPC: `data` is an array of google.rpc details, each with its `@type`. */
export const a2aErrorIn =
  (stateName?: StateName): ErrorWriter =>
  (problem) => {
    const row = A2A_ERRORS[problem.kind]
    return answer(problem, row, detailsOf(problem, row, stateName))
  }

export const a2aError = a2aErrorIn()

/* ---------------------------------------------------- agent and operator */

const conflict = (reason: string): Row => ({ code: -32010, reason, status: 200 })
const params = (reason: string): Row => ({ code: -32602, reason, status: 200 })

export const API_ERRORS: Record<ProblemKind, Row> = {
  stale_fence: conflict('stale_fence'),
  wrong_state: conflict('wrong_state'),
  finished: conflict('wrong_state'),
  not_cancelable: conflict('wrong_state'),
  unread_messages: conflict('unread_messages'),
  duplicate: conflict('duplicate'),
  idempotency_conflict: conflict('idempotency_conflict'),
  limit: conflict('limit'),
  budget_exhausted: conflict('budget_exhausted'),
  forbidden: { code: -32011, reason: 'forbidden', status: 200 },
  not_found: { code: -32012, reason: 'not_found', status: 200 },
  rate_limited: { code: -32013, reason: 'rate_limited', status: 429 },
  unavailable: { code: -32014, reason: 'unavailable', status: 503 },
  invalid: { ...params('invalid'), message: 'Invalid params' },
  content_type: params('content_type'),
  unsupported: params('unsupported'),
  push_unsupported: params('push_unsupported'),
  no_extended_card: params('no_extended_card'),
  unauthenticated: { code: -32000, reason: 'unauthenticated', status: 401 },
  too_large: { code: -32600, reason: 'too_large', status: 413 },
  too_late: { code: -32600, reason: 'too_late', status: 408 },
  media_type: { code: -32600, reason: 'media_type', status: 415 },
  parse: { code: -32700, reason: 'parse', status: 200 },
  envelope: { code: -32600, reason: 'envelope', status: 200 },
  method: { code: -32601, reason: 'method', status: 200 },
  verb: { code: -32601, reason: 'verb', status: 200 },
  version: { code: -32600, reason: 'version', status: 200 },
  extension: { code: -32600, reason: 'extension', status: 200 },
  fault: { code: -32603, reason: 'internal', status: 200 },
}

/** The agent and operator APIs: `data` is one object, the `reason` and what goes with it. */
export const apiError: ErrorWriter = (problem) => {
  const row = API_ERRORS[problem.kind]
  const { violations, state, error, unread, limit, refused, retryAfterSeconds } = problem
  const { metadata, requestId, outcome } = problem
  const data = {
    reason: row.reason,
    ...metadata,
    violations,
    state,
    error,
    unread: unread?.map(fromStored),
    limit,
    refused,
    retryAfterSeconds,
    outcome,
    requestId,
  }
  return answer(problem, row, defined(data))
}
