/**
 * JSON-RPC over fetch: one call, its errors, and when to try it again. A call that was certainly
 * not carried out (connection refused, 503, 429) is always tried again; one whose answer was lost,
 * here or between the server and its database, only if it is `repeatable`, that is, harmless when
 * done twice. Every retry is bounded by
 * `retryForMs`; a long outage is for the caller to sit out.
 */
import { backoffMs, sleep } from '../base/time.ts'
import { AgentApiError, ConnectionError } from './errors.ts'

export interface CallOptions {
  /** Ends the call; it then rejects with the signal's reason. */
  signal?: AbortSignal
  /** Doing it twice does no harm, so a lost answer may be asked for again. Default: false. */
  repeatable?: boolean
  /** How long to go on trying, in milliseconds. Default: 30 000. */
  retryForMs?: number
  /** How long one try may take, in milliseconds. Default: 30 000. */
  timeoutMs?: number
}

export interface Connection {
  /**
   * The method's result. Rejects with AgentApiError (the server refused), ConnectionError (no
   * answer) or the reason of `signal`.
   */
  call<Result>(method: string, params: object, options?: CallOptions): Promise<Result>
}

/** `url` is that of the JSON-RPC endpoint itself, such as `http://127.0.0.1:4100/agent`. */
export const connect = ({ url, token }: { url: string; token: string }): Connection => {
  let lastId = 0

  const once = async <Result>(
    method: string,
    params: object,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<Result> => {
    signal?.throwIfAborted()
    // Not AbortSignal.any: its listeners on a signal that lives for days are never collected.
    const controller = new AbortController()
    const abort = () => controller.abort()
    signal?.addEventListener('abort', abort, { once: true })
    const timer = setTimeout(abort, timeoutMs)
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: ++lastId, method, params }),
        signal: controller.signal,
        redirect: 'error',
      })
      return resultOf<Result>(response, await response.text())
    } catch (error) {
      signal?.throwIfAborted()
      if (error instanceof AgentApiError) throw error
      if (controller.signal.aborted) {
        throw new ConnectionError(`No answer from ${url} within ${timeoutMs} ms`, true, error)
      }
      throw asConnectionError(url, error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
  }

  return {
    async call<Result>(method: string, params: object, options: CallOptions = {}) {
      const { signal, repeatable = false, retryForMs = 30_000, timeoutMs = 30_000 } = options
      const started = performance.now()
      for (let failures = 1; ; failures++) {
        try {
          return await once<Result>(method, params, timeoutMs, signal)
        } catch (error) {
          const waitMs = retryDelayMs(error, failures, repeatable)
          if (waitMs === null || performance.now() - started + waitMs > retryForMs) throw error
          await sleep(waitMs, signal)
        }
      }
    },
  }
}

/** Nobody knows whether the call was carried out: its answer was lost. */
export const mayBeDone = (error: unknown): boolean =>
  error instanceof ConnectionError
    ? error.sent
    : error instanceof AgentApiError && error.data.outcome === 'unknown'

/** Milliseconds until the next try, or null where there must be none. `failures` is 1-based. */
export const retryDelayMs = (
  error: unknown,
  failures: number,
  repeatable: boolean,
): number | null => {
  const own = backoffMs(failures)
  if (mayBeDone(error) && !repeatable) return null
  if (error instanceof ConnectionError) return own
  if (error instanceof AgentApiError && (error.status === 503 || error.status === 429)) {
    return Math.max((error.retryAfterSeconds ?? 0) * 1000, own)
  }
  return null
}

/** Codes of failures that happen before a byte of the request has left. */
const NEVER_SENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

export const asConnectionError = (url: string, error: unknown): ConnectionError => {
  const cause = error instanceof Error && error.cause ? error.cause : error
  const code = String((cause as { code?: unknown } | null)?.code ?? '')
  const why = code || (cause instanceof Error ? cause.message : String(cause))
  return new ConnectionError(`Cannot reach ${url}: ${why}`, !NEVER_SENT.has(code), error)
}

interface Answer {
  result?: unknown
  error?: { code?: unknown; message?: unknown; data?: Record<string, unknown> }
}

const resultOf = <Result>(response: Response, body: string): Result => {
  const answer = parsed(body)
  if (response.ok && answer !== null && 'result' in answer) return answer.result as Result
  throw refusalOf(response, body)
}

const parsed = (body: string): Answer | null => {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' ? (value as Answer | null) : null
  } catch {
    return null
  }
}

const REASON_OF_STATUS: Record<number, string> = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'no_such_address',
  429: 'rate_limited',
  503: 'unavailable',
}

const REASON_OF_CODE: Record<number, string> = {
  [-32700]: 'parse_error',
  [-32600]: 'invalid_request',
  [-32601]: 'method_not_found',
  [-32602]: 'invalid_params',
  [-32603]: 'internal_error',
  [-32010]: 'conflict',
  [-32011]: 'forbidden',
  [-32012]: 'not_found',
  [-32013]: 'rate_limited',
  [-32014]: 'unavailable',
}

/** The refusal in a response that has no result, whether or not it is JSON-RPC. */
export const refusalOf = (response: Response, body: string): AgentApiError => {
  const error = parsed(body)?.error
  const code = typeof error?.code === 'number' ? error.code : 0
  const data = error?.data ?? {}
  const told = typeof data.reason === 'string' ? data.reason : undefined
  const reason =
    REASON_OF_STATUS[response.status] ??
    told ??
    REASON_OF_CODE[code] ??
    (response.ok ? 'not_an_answer' : `http_${response.status}`)
  const message =
    typeof error?.message === 'string'
      ? error.message
      : `The server answered ${response.status} ${response.statusText}`.trim()
  return new AgentApiError({
    code,
    reason,
    message,
    data,
    status: response.status,
    retryAfterSeconds: retryAfterOf(response, data),
  })
}

const retryAfterOf = (response: Response, data: Record<string, unknown>): number | undefined => {
  const header = response.headers.get('retry-after')
  const seconds = Number(header ?? data.retryAfterSeconds)
  if (Number.isFinite(seconds)) return Math.max(0, seconds)
  // The header may also be a date (RFC 9110, 10.2.3).
  const date = header === null ? Number.NaN : Date.parse(header)
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000)
}
