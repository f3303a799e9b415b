/**
 * Errors of the HTTP+JSON binding of A2A 1.0 (spec 11.6): the body of AIP-193, from the same table
 * and with the same details as over JSON-RPC. `code` is the HTTP status, `status` gRPC's name of
 * the kind of error. A path that is not there is no error of A2A's and is told without details.
 */
import { defined } from '../../base/defined.ts'
import { A2A_ERRORS, detailsOf, isA2aCode, messageOf, type Problem } from './errors.ts'

/** A problem as one HTTP answer. */
interface RestError {
  status: number
  /** The JSON-RPC code of the same problem: metrics count by it, whatever the binding. */
  code: number
  body: unknown
  retryAfterSeconds?: number
}

/** How a binding words its problems. */
export type RestErrorWriter = (problem: Problem) => RestError

const BY_STATUS: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  405: 'UNIMPLEMENTED',
  408: 'DEADLINE_EXCEEDED',
  409: 'ALREADY_EXISTS',
  413: 'INVALID_ARGUMENT',
  415: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
}

/** A2A's own errors with 400 say that things are not as they must be, but for the media type. */
const CONTENT_TYPE = A2A_ERRORS.content_type.code

const statusName = (status: number, code: number): string =>
  status === 400 && isA2aCode(code) && code !== CONTENT_TYPE
    ? 'FAILED_PRECONDITION'
    : (BY_STATUS[status] ?? 'UNKNOWN')

/** Neither says anything of A2A: there is just no such resource. */
const isRoute = ({ kind }: Problem): boolean => kind === 'method' || kind === 'verb'

export const restError: RestErrorWriter = (problem) => {
  const row = A2A_ERRORS[problem.kind]
  const { status, code } = row
  const error = {
    code: status,
    status: statusName(status, code),
    message: messageOf(problem, row),
    details: isRoute(problem) ? undefined : detailsOf(problem, row),
  }
  return defined<RestError>({
    status,
    code,
    body: { error: defined(error) },
    retryAfterSeconds: problem.retryAfterSeconds,
  })
}
