/**
 * What came back: the result of a call, or the refusal in its place, whether or not it is JSON-RPC.
 */
import { parseExact } from '../../base/exact-json.ts'
import { AgentApiError } from '../errors.ts'

export interface Answer {
  id?: unknown
  result?: unknown
  error?: { code?: unknown; message?: unknown; data?: Record<string, unknown> }
}

/** A single answer or those of a batch; null for anything else. */
export const parsed = (body: string): Answer | Answer[] | null => {
  try {
    const value: unknown = parseExact(body)
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}

/** The answer of a request that was no batch. */
export const single = (answers: Answer | Answer[] | null): Answer | null =>
  Array.isArray(answers) ? null : answers

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

/** A batch has one HTTP status for all; these are the statuses of single calls. */
const STATUS_OF_CODE: Record<number, number> = { [-32013]: 429, [-32014]: 503 }

type Response = Pick<globalThis.Response, 'ok' | 'status' | 'statusText' | 'headers'>

/** The refusal of a call that has no result. */
export const refusalOf = (response: Response, answer: Answer | null): AgentApiError => {
  const error = answer?.error
  const code = typeof error?.code === 'number' ? error.code : 0
  const data = error?.data ?? {}
  const reported = typeof data.reason === 'string' ? data.reason : undefined
  const status = response.ok ? (STATUS_OF_CODE[code] ?? response.status) : response.status
  const reason =
    REASON_OF_STATUS[status] ??
    reported ??
    REASON_OF_CODE[code] ??
    (response.ok ? 'not_an_answer' : `http_${status}`)
  const message =
    typeof error?.message === 'string'
      ? error.message
      : `The server answered ${response.status} ${response.statusText}`.trim()
  const retryAfterSeconds = retryAfterOf(response, data)
  return new AgentApiError({ code, reason, message, data, status, retryAfterSeconds })
}

const retryAfterOf = (response: Response, data: Record<string, unknown>): number | undefined => {
  const header = response.headers.get('retry-after')
  const seconds = Number(header ?? data.retryAfterSeconds)
  if (Number.isFinite(seconds)) return Math.max(0, seconds)
  // The header may also be a date (RFC 9110, 10.2.3).
  const date = header === null ? Number.NaN : Date.parse(header)
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000)
}

/** The result in an answer. Throws AgentApiError. */
export const resultOf = (response: Response, answer: Answer | null): unknown => {
  if (response.ok && answer !== null && 'result' in answer) return answer.result
  throw refusalOf(response, answer)
}
