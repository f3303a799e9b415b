/**
 * Errors in A2A 0.3: those of 1.0, whose codes it shares up to -32007. What 0.3 has no code for is
 * an invalid request there; the details, which 0.3 leaves open, still say which one it is. Over
 * HTTP+JSON the specification leaves the whole body open, and clients read the bare error object
 * of JSON-RPC under the HTTP status that the error has in 1.0.
 */
import { A2A_ERRORS, a2aErrorIn, type ErrorWriter, type StateName } from '../wire/errors.ts'
import type { RestErrorWriter } from '../wire/rest-errors.ts'
import { PROTO_STATES } from './proto-json.ts'
import { STATES } from './translate.ts'

/** ExtensionSupportRequired and VersionNotSupported came with 1.0. */
const UNKNOWN_CODES: ReadonlySet<number> = new Set([-32008, -32009])
const INVALID_REQUEST = -32600

const v03ErrorIn = (stateName: StateName): ErrorWriter => {
  const write = a2aErrorIn(stateName)
  return (problem) => {
    const { error, ...answer } = write(problem)
    const code = UNKNOWN_CODES.has(error.code) ? INVALID_REQUEST : error.code
    return { ...answer, error: { ...error, code } }
  }
}

export const v03Error = v03ErrorIn((state) => STATES[state])

const protoError = v03ErrorIn((state) => PROTO_STATES[STATES[state]])

export const v03RestError: RestErrorWriter = (problem) => {
  const { error: body, ...rest } = protoError(problem)
  return { ...rest, status: A2A_ERRORS[problem.kind].status, code: body.code, body }
}
