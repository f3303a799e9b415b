/**
 * The way to PostgreSQL: one bounded pool, named prepared statements, transactions, and what every
 * failure means. Statements are written with `:named` parameters and compiled once. SQLSTATEs are
 * looked at here and, of the very first connection, in reach.ts; nowhere else.
 *
 * A statement rings after it has committed: at once outside a transaction, else after COMMIT.
 */
import pg from 'pg'
import { Refusal } from '../../domain/errors.ts'
import type { Statement, Values } from './statement.ts'

export { type Statement, statement, type Values } from './statement.ts'

/** What is rung after a commit: a topic and, for queues, how many todos became claimable. */
export interface Wake {
  topic: string
  count: number
  /** Who hears it; without it, everybody. */
  only?: 'here' | 'elsewhere'
}

/** What a store function needs: to run statements, and to say what should be rung for them. */
export interface Session {
  run<Row>(statement: Statement<Row>, values: Values): Promise<Row[]>
  /** A one-off query, for lists whose shape depends on their filters. */
  query<Row>(text: string, values: readonly unknown[]): Promise<Row[]>
  wake(rings: readonly Wake[]): void
}

export interface Database extends Session {
  /** May run `work` again after a serialization failure or deadlock: nothing but SQL inside. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>
  onWake(listener: (rings: readonly Wake[]) => void): void
  /** Connections: open, idle, asked for in vain so far, and how many there may be. */
  counts(): { total: number; idle: number; waiting: number; size: number }
  close(): Promise<void>
}

/** Matches `constraint` of a unique violation. */
export const isUniqueViolation = (error: unknown, constraint: string): boolean =>
  error instanceof pg.DatabaseError && error.code === '23505' && error.constraint === constraint

/** Serialization failure and deadlock: nothing was done, and doing it again is the answer. */
const RUN_AGAIN = new Set(['40001', '40P01'])
const RUN_AGAIN_TIMES = 10

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

/** The server has not answered, not even that the statement took too long. */
const isLost = (error: unknown): error is Error =>
  error instanceof Error && error.message === 'Query read timeout'

const again = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && RUN_AGAIN.has(error.code ?? '')

/** A statement cut short by statement_timeout or lock_timeout. */
const isTimeout = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && (error.code === '57014' || error.code === '55P03')

/** An id is any text to a caller; one that is no uuid names nothing that could be there. */
const isNoId = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === '22P02' && error.routine === 'string_to_uuid'

/** Of a server that takes no connection now: starting, full, without this database. */
const NOT_TAKEN = new Set(['57P03', '53300', '3D000', '08001', '08004'])

/** It failed before a word of it had left. */
const isUnsent = (error: unknown): boolean => {
  if (error instanceof pg.DatabaseError) return NOT_TAKEN.has(error.code ?? '')
  const { code = '', message } = error as NodeJS.ErrnoException
  return (
    /^(ECONNREFUSED|ENOENT|ENOTFOUND|EAI_AGAIN|EHOST)/.test(code) ||
    /timeout exceeded|due to connection timeout|not queryable/.test(message)
  )
}

/** `writes`: had it been sent, and only its answer got lost, it may have been done. */
const asRefusal = (error: unknown, writes: boolean): unknown => {
  if (isNoId(error)) return new Refusal('not_found')
  const away = isAway(error)
  if (!away && !isTimeout(error)) return error
  const refusal = new Refusal('unavailable', {
    retryAfterSeconds: 1,
    ...(away && writes && !isUnsent(error) && { outcome: 'unknown' as const }),
  })
  return Object.assign(refusal, { cause: error })
}

const isRead = ({ text }: Statement<unknown>): boolean => /^\s*select\b/i.test(text)

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** `writes` is asked after a failure: whether what had been sent by then may have been done. */
const runAgainWhile = async <T>(work: () => Promise<T>, writes: () => boolean): Promise<T> => {
  for (let run = 1; ; run += 1) {
    try {
      return await work()
    } catch (error) {
      if (!again(error) || run >= RUN_AGAIN_TIMES) throw asRefusal(error, writes())
      await pause(Math.random() * 5 * run)
    }
  }
}

export interface DatabaseOptions {
  connectionString: string
  /** Connections at most; LISTEN has one of its own beside them. */
  poolSize?: number
  /** How long a caller may wait for a connection, in ms. */
  acquireMs?: number
  statementMs?: number
  /** How long a statement may wait for a lock. */
  lockMs?: number
  /**
   * Through a pooler that lends connections for a transaction each: nothing may be left on one, no
   * prepared statement and no setting.
   */
  pooled?: boolean
}

/** What a statement gets beyond its own limit before its connection counts as lost. */
const LOST_AFTER_MS = 5000

/** The URL's own options would replace ours; they come after ours and so have the last word. */
const withOptions = (connectionString: string, ours: string): string => {
  const [address, ...query] = connectionString.split('?')
  const params = new URLSearchParams(query.join('?'))
  params.set('options', [ours, params.get('options')].filter(Boolean).join(' '))
  return `${address}?${params}`
}

/**
 * Plans are kept by each connection, and one made while a table was still small would go on
 * reading all of it. Every statement here finds its rows by an index. Where there is none, before
 * PostgreSQL 18, the plan then costs so much on paper that compiling it would pay: half a second
 * for each statement. Planning a claim takes three times as long as running it, and knowing its
 * parameters changes nothing: it is planned once.
 */
export const PLANNER =
  '-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off -c plan_cache_mode=force_generic_plan'

export const openDatabase = (options: DatabaseOptions): Database => {
  const statementMs = options.statementMs ?? 30_000
  const { pooled = false } = options
  const pool = new pg.Pool({
    connectionString: pooled
      ? options.connectionString
      : withOptions(options.connectionString, PLANNER),
    application_name: 'switchboard',
    max: options.poolSize ?? 16,
    connectionTimeoutMillis: options.acquireMs ?? 5000,
    ...(!pooled && {
      statement_timeout: statementMs,
      lock_timeout: options.lockMs ?? 10_000,
      idle_in_transaction_session_timeout: 10_000,
    }),
    // The limits above are kept by the server. A server that went away without a word keeps none.
    query_timeout: statementMs + LOST_AFTER_MS,
    keepAlive: true,
  })
  // An idle connection that breaks is replaced at the next use; without a listener node would die.
  pool.on('error', () => {})
  // So would it where one that was given back as broken is told once more, while it is closed,
  // that the server ends: by then the pool listens no longer.
  pool.on('connect', (client) => client.on('error', () => {}))

  let listener: (rings: readonly Wake[]) => void = () => {}
  const wakeNow = (rings: readonly Wake[]) => {
    if (rings.length > 0) listener(rings)
  }

  const runOn = async <Row>(
    client: Pick<pg.Pool, 'query'> | Pick<pg.PoolClient, 'query'>,
    { name, text, order, prepared }: Statement<Row>,
    values: Values,
  ): Promise<Row[]> => {
    const result = await client.query<Row & pg.QueryResultRow>({
      ...(prepared && !pooled && { name }),
      text,
      values: order.map((key) => values[key] ?? null),
    })
    return result.rows
  }

  const transaction = async <T>(work: (session: Session) => Promise<T>): Promise<T> => {
    const rings: Wake[] = []
    let committing = false
    const attempt = async (): Promise<T> => {
      rings.length = 0
      const client = await pool.connect()
      let broken: Error | undefined
      // A connection that dies while ours says so twice: to the query, and here.
      const onError = (error: Error) => {
        broken = error
      }
      client.on('error', onError)
      try {
        await client.query('begin')
        const value = await work({
          run: (statement, values) => runOn(client, statement, values),
          query: async (text, values) => (await client.query(text, [...values])).rows,
          wake: (more) => rings.push(...more),
        })
        committing = true
        await client.query('commit')
        return value
      } catch (error) {
        // Nothing is said any more on a connection that gave no answer: it is thrown away.
        if (isLost(error)) broken = error
        else {
          await client.query('rollback').catch((failed: Error) => {
            broken = failed
          })
        }
        throw error
      } finally {
        client.removeListener('error', onError)
        client.release(broken)
      }
    }
    const result = await runAgainWhile(attempt, () => committing)
    wakeNow(rings)
    return result
  }

  return {
    run: (statement, values) =>
      runAgainWhile(
        () => runOn(pool, statement, values),
        () => !isRead(statement),
      ),
    query: (text, values) =>
      runAgainWhile(
        async () => (await pool.query(text, [...values])).rows,
        () => false,
      ),
    wake: wakeNow,
    transaction,
    onWake: (listen) => {
      listener = listen
    },
    counts: () => ({
      total: pool.totalCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
      size: pool.options.max,
    }),
    close: () => pool.end(),
  }
}
