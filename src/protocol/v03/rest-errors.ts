/**
 * Errors of HTTP+JSON in A2A 0.3: the specification leaves their body open, and its clients read
 * the error object of JSON-RPC, bare, under the HTTP status that the error has in 1.0.
 */

import { A2A_ERRORS } from '../wire/errors.ts'
import type { RestErrorWriter } from '../wire/rest-errors.ts'
import { v03Error } from './errors.ts'

export const v03RestError: RestErrorWriter = (problem) => {
  const { error: body, ...rest } = v03Error(problem)
  return { ...rest, status: A2A_ERRORS[problem.kind].status, code: body.code, body }
}
