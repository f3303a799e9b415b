/**
 * What every failure of the database means. SQLSTATEs are looked at here and, for the very first
 * connection, in probe.ts; nowhere else.
 */
import pg from 'pg'
import { Refusal } from '../../domain/errors.ts'
import { isTooLarge } from './too-large.ts'

/** A unique violation of this constraint. */
export const isUniqueViolation = (error: unknown, constraint: string): boolean =>
  error instanceof pg.DatabaseError && error.code === '23505' && error.constraint === constraint

/** Serialization failure and deadlock: nothing was done, and the remedy is to run it again. */
const RUN_AGAIN = new Set(['40001', '40P01'])
export const RUN_AGAIN_TIMES = 10

/** Classes and codes that say the server is away, going away or full. */
const isAway = (error: unknown): boolean => {
  if (error instanceof pg.DatabaseError) {
    const code = error.code ?? ''
    return code.startsWith('08') || code.startsWith('57P') || code === '53300' || code === '3D000'
  }
  const code = (error as NodeJS.ErrnoException | null)?.code
  if (
    code !== undefined &&
    /^(ECONN|EPIPE|ENOENT|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOST)/.test(code)
  ) {
    return true
  }
  // pg has no codes for these: its pool's acquire timeout and its ends of connection.
  return (
    error instanceof Error &&
    /timeout exceeded|read timeout|[Cc]onnection (terminated|ended)|not queryable/.test(
      error.message,
    )
  )
}

/** The server has not answered at all, not even to say that the statement took too long. */
export const isLost = (error: unknown): error is Error =>
  error instanceof Error && error.message === 'Query read timeout'

export const runsAgain = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && RUN_AGAIN.has(error.code ?? '')

/** A statement cut short by statement_timeout or lock_timeout. */
const isTimeout = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && (error.code === '57014' || error.code === '55P03')

/** To a caller an id is any text; one that is not a uuid names nothing that could exist. */
const isNoId = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === '22P02' && error.routine === 'string_to_uuid'

/** The server accepts no connection now: it is starting or full, or lacks this database. */
const NOT_ACCEPTED = new Set(['57P03', '53300', '3D000', '08001', '08004'])

/** It failed before anything had been sent. */
const isUnsent = (error: unknown): boolean => {
  if (error instanceof pg.DatabaseError) return NOT_ACCEPTED.has(error.code ?? '')
  const { code = '', message } = error as NodeJS.ErrnoException
  return (
    /^(ECONNREFUSED|ENOENT|ENOTFOUND|EAI_AGAIN|EHOST)/.test(code) ||
    /timeout exceeded|due to connection timeout|not queryable/.test(message)
  )
}

const TOO_LARGE = 'This is too large to be read at once'

/** `writes`: if it was sent and only its answer got lost, it may have been done. */
export const asRefusal = (error: unknown, writes: boolean): unknown => {
  if (isNoId(error)) return new Refusal('not_found')
  if (isTooLarge(error)) return Object.assign(new Refusal('limit', {}, TOO_LARGE), { cause: error })
  const away = isAway(error)
  if (!away && !isTimeout(error)) return error
  const refusal = new Refusal('unavailable', {
    retryAfterSeconds: 1,
    ...(away && writes && !isUnsent(error) && { outcome: 'unknown' as const }),
  })
  return Object.assign(refusal, { cause: error })
}
