/**
 * What was thrown, read as a problem and logged at its level: a fault with its stack as an error, a
 * service that is away as a warning, a refusal for debugging. The same for every binding.
 */
import type { Log } from '../base/log.ts'
import { Withdrawn } from '../domain/endpoint.ts'
import { Refusal } from '../domain/errors.ts'
import { isFault, type Problem, problemOf } from '../protocol/wire/errors.ts'

/** The answer, if anybody still reads it, to a call whose signal ended its wait. It is not logged. */
const ABANDONED = new Refusal('unavailable')

/** A wait that ended because nobody waits any more, or may, is no fault of the method. */
export const withoutAborts = (error: unknown, signal: AbortSignal | undefined): unknown => {
  const reason: unknown = signal?.aborted ? signal.reason : undefined
  const isAbort =
    reason !== undefined &&
    (error === reason || (error instanceof Error && error.name === 'AbortError'))
  if (!isAbort) return error
  return reason instanceof Withdrawn ? reason.refusal : ABANDONED
}

export type Report = (error: unknown, requestId: string, method: string) => Problem

export const createReport =
  (log: Pick<Log, 'debug' | 'warn' | 'error'>): Report =>
  (error, requestId, method) => {
    const problem = problemOf(error, requestId)
    const fields = { request: requestId, method }
    if (error === ABANDONED) return problem
    if (problem.kind === 'fault') log.error({ ...fields, err: error }, 'a call failed')
    else if (isFault(problem)) log.warn({ ...fields, err: error }, 'a call could not be served')
    else log.debug({ ...fields, refusal: problem.kind }, 'a call was refused')
    return problem
  }
