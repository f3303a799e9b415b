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

/** What a row names is not there, or a row that goes is named by another. */
export const isReferenceViolation = (error: unknown, constraint: string): boolean =>
  error instanceof pg.DatabaseError && error.code === '23503' && error.constraint === constraint

/** Serialization failure and deadlock: nothing was done, and the remedy is to run it again. */
const RUN_AGAIN = new Set(['40001', '40P01'])
export const RUN_AGAIN_TIMES = 10

/**
 * Why the database does not do what it is asked to, though nothing is wrong with what is asked.
 * `away`: there is no server, or it is ending. `closed`: it is there and lets us not in. `readOnly`: a
 * standby, or told to be. `full`: it has no room. `failing`: its storage or memory fails it. `busy`:
 * a statement took too long, or waited too long for a lock.
 */
type Meaning = 'away' | 'closed' | 'readOnly' | 'full' | 'failing' | 'busy'

interface Condition {
  means: Meaning
  /** Nothing of the statement was done, so it may be repeated. Else its answer may have been lost. */
  undone?: true
  /** The connection leads to a server that is of no use any more. */
  discards?: true
  /** Only where this routine of the server says so: from others the code means something else. */
  routine?: string
}

/** SQLSTATEs, and classes of them (two characters), as in appendix A of PostgreSQL's manual. */
const CONDITIONS: Readonly<Record<string, Condition>> = {
  '08': { means: 'away' }, // connection exceptions
  '08001': { means: 'away', undone: true }, // could not connect
  '08004': { means: 'closed', undone: true }, // the server rejected the connection
  25006: { means: 'readOnly', undone: true, discards: true }, // read-only transaction
  '25P03': { means: 'away', undone: true, discards: true }, // idle in transaction for too long
  28: { means: 'closed', undone: true }, // the login is refused
  '3D000': { means: 'closed', undone: true }, // there is no such database
  40003: { means: 'away' }, // whether the statement completed is not known
  42501: { means: 'closed', undone: true, routine: 'CheckMyDatabase' }, // no right to connect
  53: { means: 'failing', undone: true }, // too little memory, too many temporary files
  53100: { means: 'full', undone: true }, // the disk is full
  53300: { means: 'closed', undone: true }, // too many connections
  55000: { means: 'closed', undone: true, routine: 'CheckMyDatabase' }, // allow_connections is off
  '55P03': { means: 'busy', undone: true }, // lock_timeout
  57014: { means: 'busy', undone: true }, // statement_timeout
  '57P': { means: 'away' }, // shutdown, crash, dropped, idle for too long
  '57P03': { means: 'away', undone: true }, // starting, or in recovery
  58: { means: 'failing' }, // its files: input and output
}

interface Trouble {
  /** What readiness says of it, without values. */
  reason: string
  retryAfterSeconds: number
  /**
   * How many statements must have met it for the node to be unready. Left out where readiness meets
   * it itself, when it asks the database.
   */
  statements?: number
}

export const TROUBLES: Readonly<Record<Meaning, Trouble>> = {
  away: { reason: 'the database cannot be reached', retryAfterSeconds: 1 },
  closed: { reason: 'the database lets nobody in', retryAfterSeconds: 1 },
  readOnly: { reason: 'the database is read-only', retryAfterSeconds: 1 },
  full: { reason: 'the disk of the database is full', retryAfterSeconds: 5, statements: 1 },
  failing: {
    reason: 'statements fail in the database: its log says why',
    retryAfterSeconds: 5,
    statements: 2,
  },
  busy: {
    reason: 'statements wait too long in the database',
    retryAfterSeconds: 1,
    statements: 2,
  },
}

export const READ_ONLY = TROUBLES.readOnly.reason
export const DISK_FULL = TROUBLES.full.reason

/** What the driver says without a SQLSTATE: the system's errors, and sentences of its own. */
const fromDriver = (error: unknown): Condition | null => {
  const { code, message } = (error ?? {}) as NodeJS.ErrnoException
  if (/^(ECONNREFUSED|ENOENT|ENOTFOUND|EAI_AGAIN|EHOST|ENETUNREACH)/.test(code ?? '')) {
    return { means: 'away', undone: true }
  }
  if (/^(ECONN|EPIPE|ETIMEDOUT)/.test(code ?? '')) return { means: 'away' }
  if (!(error instanceof Error)) return null
  // pg has no codes for these: its pool's acquire timeout and its ends of connection.
  if (/timeout exceeded|due to connection timeout|not queryable/.test(message)) {
    return { means: 'away', undone: true }
  }
  return /read timeout|[Cc]onnection (terminated|ended)/.test(message) ? { means: 'away' } : null
}

/** Null where the database did as it was told, and the fault is in what it was told. */
const conditionOf = (error: unknown): Condition | null => {
  if (!(error instanceof pg.DatabaseError)) return fromDriver(error)
  const { code = '', routine } = error
  const found = [code, code.slice(0, 3), code.slice(0, 2)].find((key) => key in CONDITIONS)
  const condition = found === undefined ? null : CONDITIONS[found]!
  return condition?.routine && condition.routine !== routine ? null : condition
}

/** The server has not answered at all, not even to say that the statement took too long. */
const isLost = (error: unknown): error is Error =>
  error instanceof Error && error.message === 'Query read timeout'

/** A limit on the time that a call may wait for the database. */
export type WaitLimit = 'acquire' | 'statement' | 'lock'

/** Which limit on time was reached; null for any other failure. */
export const reachedLimit = (error: unknown): WaitLimit | null => {
  if (isLost(error)) return 'statement'
  if (error instanceof pg.DatabaseError) {
    if (error.code === '57014') return 'statement'
    return error.code === '55P03' ? 'lock' : null
  }
  const said = error instanceof Error ? error.message : ''
  return said === 'timeout exceeded when trying to connect' ? 'acquire' : null
}

export const runsAgain = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && RUN_AGAIN.has(error.code ?? '')

/** To a caller an id is any text; one that is not a uuid names nothing that could exist. */
const isNoId = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === '22P02' && error.routine === 'string_to_uuid'

/** The connection that it came from is not to be used again. */
export const discards = (error: unknown): boolean =>
  isLost(error) || conditionOf(error)?.discards === true

/** Null where the database is not to blame. */
export const troubleOf = (error: unknown): Trouble | null => {
  const condition = conditionOf(error)
  return condition && TROUBLES[condition.means]
}

const TOO_LARGE = 'This is too large to be read at once'

/** `writes`: if it was sent and only its answer got lost, it may have been done. */
export const asRefusal = (error: unknown, writes: boolean): unknown => {
  if (isNoId(error)) return new Refusal('not_found')
  if (isTooLarge(error)) return Object.assign(new Refusal('limit', {}, TOO_LARGE), { cause: error })
  const condition = conditionOf(error)
  if (!condition) return error
  const refusal = new Refusal('unavailable', {
    retryAfterSeconds: TROUBLES[condition.means].retryAfterSeconds,
    ...(writes && !condition.undone && { outcome: 'unknown' as const }),
  })
  return Object.assign(refusal, { cause: error })
}
