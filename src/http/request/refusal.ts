/**
 * How a plain GET or POST beside the JSON-RPC endpoints (feeds, board) is refused: with the error
 * of the agent and operator APIs as `{ error }`, under the HTTP status of its kind. A fault is
 * logged here, with the id that its answer names.
 */
import type { ErrorRequestHandler } from 'express'
import type { Log } from '../../base/log.ts'
import { A2A_ERRORS, apiError, isFault, problemOf } from '../../protocol/wire/errors.ts'
import { challengeFor } from './auth.ts'
import { requestIdOf } from './request.ts'

/** The last handler of a router. A response that has begun is cut off: it cannot be refused. */
export const answerRefusal =
  (log: Pick<Log, 'error'>): ErrorRequestHandler =>
  (thrown, req, res, _next) => {
    const request = requestIdOf(res)
    const problem = problemOf(thrown, request)
    if (isFault(problem)) log.error({ err: thrown, request }, 'a request failed')
    if (res.headersSent) {
      res.destroy()
      return
    }
    const { error, retryAfterSeconds } = apiError(problem)
    const { status } = A2A_ERRORS[problem.kind]
    if (status === 401) res.set('WWW-Authenticate', challengeFor(req))
    if (retryAfterSeconds !== undefined) res.set('Retry-After', String(retryAfterSeconds))
    res.set('Cache-Control', 'no-store').status(status).json({ error })
  }
