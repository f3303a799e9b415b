/**
 * What can go wrong between an agent and its server, as types a program can tell apart: the
 * server said no (AgentApiError), nobody answered (ConnectionError), or the todo is no longer
 * ours (AttemptAborted, AttemptEnded). NonRetryable is what a handler throws to end a todo.
 */

/** The server refused. `reason` is the machine-readable word, `data` all that the server said. */
export class AgentApiError extends Error {
  readonly code: number
  readonly reason: string
  readonly data: Record<string, unknown>
  /** The HTTP status the refusal came with. */
  readonly status: number
  /** Seconds the server asked to wait before trying again, if it did. */
  readonly retryAfterSeconds: number | undefined

  constructor(refusal: {
    code: number
    reason: string
    message: string
    data?: Record<string, unknown>
    status: number
    retryAfterSeconds?: number | undefined
  }) {
    super(refusal.message)
    this.name = 'AgentApiError'
    this.code = refusal.code
    this.reason = refusal.reason
    this.data = refusal.data ?? {}
    this.status = refusal.status
    this.retryAfterSeconds = refusal.retryAfterSeconds
  }
}

/** No answer came. `sent` is false where the request certainly never reached a server. */
export class ConnectionError extends Error {
  readonly sent: boolean

  constructor(message: string, sent: boolean, cause?: unknown) {
    super(message, { cause })
    this.name = 'ConnectionError'
    this.sent = sent
  }
}

/** Thrown by a handler: the todo fails at once and is not tried again. */
export class NonRetryable extends Error {
  readonly code: string | undefined

  constructor(message: string, options: { code?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.name = 'NonRetryable'
    this.code = options.code
  }
}

/**
 * `ctx.tool` was asked for what is not among the effects of the todo. A handler that does not catch it
 * fails its todo at once: another attempt would be allowed no more.
 */
export class EffectDenied extends NonRetryable {
  declare readonly code: 'effect_denied'
  readonly effect: string
  /** What the todo may do. */
  readonly allowed: readonly string[]

  constructor(effect: string, allowed: readonly string[]) {
    super(`The todo may not do ${effect}`, { code: 'effect_denied' })
    this.name = 'EffectDenied'
    this.effect = effect
    this.allowed = allowed
  }
}

/**
 * A spend has gone past the budget: it is counted, and the todo has ended as `budget_exhausted`, without
 * another attempt. `ctx.signal` has fired.
 */
export class BudgetExhausted extends NonRetryable {
  declare readonly code: 'budget_exhausted'
  /** Of what there was not enough. */
  readonly kinds: readonly string[]

  constructor(message: string, kinds: readonly string[]) {
    super(message, { code: 'budget_exhausted' })
    this.name = 'BudgetExhausted'
    this.kinds = kinds
  }
}

/**
 * What was to be sent cannot be: it has no form in JSON, or is beyond a limit. `member` is the path of
 * the member at fault. A handler that does not catch it fails its todo at once, since another attempt
 * would bring the same.
 */
export class DocumentError extends NonRetryable {
  declare readonly code: 'unserializable' | 'too_deep' | 'too_large'
  readonly member: string

  constructor(code: DocumentError['code'], message: string, member: string) {
    super(message, { code })
    this.name = 'DocumentError'
    this.member = member
  }
}

/**
 * Why a handler has to stop. Only after `shutdown` is the todo still ours to hand back, and after
 * `silent` (nothing showed for too long that the work moves) ours to fail.
 */
export type AbortReason = 'canceled' | 'lease_lost' | 'shutdown' | 'silent' | 'budget_exhausted'

/** The reason of `ctx.signal`, and what every call of `ctx` throws once it has fired. */
export class AttemptAborted extends Error {
  readonly reason: AbortReason
  /** Why its client canceled the task, where the client said so and the server's signal came. */
  readonly because: string | undefined

  constructor(reason: AbortReason, because?: string) {
    super(`The attempt was aborted: ${reason}${because === undefined ? '' : ` (${because})`}`)
    this.name = 'AbortError'
    this.reason = reason
    this.because = because
  }
}

/** The handler has already ended this todo (fail, reject, release or park) and went on. */
export class AttemptEnded extends Error {
  constructor(by: string) {
    super(`The attempt has already ended: ${by}`)
    this.name = 'AttemptEnded'
  }
}

/** Nobody answered within `timeoutMs`. The question stays open at the server. */
export class AnswerTimeout extends Error {
  constructor(timeoutMs: number) {
    super(`No answer within ${timeoutMs} ms`)
    this.name = 'AnswerTimeout'
  }
}

/** What a wait for an answer rejects with once `ctx.resume` has taken its question back. */
export class QuestionWithdrawn extends Error {
  constructor() {
    super('The question was taken back')
    this.name = 'QuestionWithdrawn'
  }
}

const HELD_STATES = new Set(['claimed', 'input-required', 'auth-required'])

/** True where a refusal means that the todo is no longer held by whoever asked. */
export const meansLost = (error: unknown): error is AgentApiError =>
  error instanceof AgentApiError &&
  (error.reason === 'stale_fence' ||
    error.reason === 'not_found' ||
    (error.reason === 'wrong_state' && !HELD_STATES.has(String(error.data.state))))

/** What the server says of a document that it will never take. */
const UNTAKEABLE = new Set(['invalid', 'too_large', 'http_413', 'envelope', 'parse'])

/** True where sending the same again would be refused again. */
export const isForGood = (error: unknown): boolean =>
  error instanceof NonRetryable || (error instanceof AgentApiError && UNTAKEABLE.has(error.reason))

export const isRefusal = (error: unknown, reason: string): error is AgentApiError =>
  error instanceof AgentApiError && error.reason === reason
