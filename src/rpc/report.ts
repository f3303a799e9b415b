/**
 * What was thrown, read as a problem and logged as it deserves: a fault with its stack, a service
 * that is away as a warning, a refusal in a whisper. The same for every binding.
 */
import type { Log } from '../base/log.ts'
import { Refusal } from '../domain/errors.ts'
import { isFault, type Problem, problemOf } from '../protocol/wire/errors.ts'

/** Answered, where anybody still reads, when a call's signal ended its wait. Not worth a log line. */
const ABANDONED = new Refusal('unavailable')

/** A wait that ended because nobody waits for it is no fault of the method. */
export const sparingAborts = (error: unknown, signal: AbortSignal | undefined): unknown =>
  signal?.aborted &&
  (error === signal.reason || (error instanceof Error && error.name === 'AbortError'))
    ? ABANDONED
    : error

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
