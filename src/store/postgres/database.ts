/**
 * The way to PostgreSQL: one bounded pool, named prepared statements, and transactions. Statements are
 * written with `:named` parameters and compiled once. What an error means is in pg-errors.ts.
 *
 * Wakes go out once their statement has committed: at once outside a transaction, else after COMMIT.
 */

import pg from 'pg'
import { parseExact } from '../../base/exact-json.ts'
import { createLargeReads } from './large-reads.ts'
import {
  asRefusal,
  discards,
  RUN_AGAIN_TIMES,
  reachedLimit,
  runsAgain,
  type WaitLimit,
} from './pg-errors.ts'
import type { Statement, Values } from './statement.ts'
import { guardParsing } from './too-large.ts'
import { createTrouble } from './trouble.ts'

export { isReferenceViolation, isUniqueViolation } from './pg-errors.ts'

export { largeStatement, type Statement, statement, type Values } from './statement.ts'

/** A hint sent after a commit: a topic and, for queues, how many todos became claimable. */
export interface Wake {
  topic: string
  count: number
  /** Which processes hear it; all of them where this is left out. */
  only?: 'here' | 'elsewhere'
}

/** What a store function needs: to run statements, and to wake those who wait for their effect. */
export interface Session {
  run<Row>(statement: Statement<Row>, values: Values): Promise<Row[]>
  /** A one-off query, for lists whose shape depends on their filters. */
  query<Row>(text: string, values: readonly unknown[]): Promise<Row[]>
  wake(wakes: readonly Wake[]): void
}

export interface Database extends Session {
  /** May run `work` again after a serialization failure or deadlock, so it must do nothing but SQL. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>
  onWake(listener: (wakes: readonly Wake[]) => void): void
  /** Why statements fail of late although the database answers, for operators; null where all is well. */
  trouble(): string | null
  /** Connections: how many are open, are idle, are waited for, and may be open at most. */
  counts(): { total: number; idle: number; waiting: number; size: number }
  close(): Promise<void>
}

const isRead = ({ text }: Statement<unknown>): boolean => /^\s*select\b/i.test(text)

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** `writes` is called after a failure: may what had been sent by then have been done? */
const runAgainWhile = async <T>(
  work: () => Promise<T>,
  writes: () => boolean,
  failed: (error: unknown) => void,
): Promise<T> => {
  for (let run = 1; ; run += 1) {
    try {
      return await work()
    } catch (error) {
      failed(error)
      if (!runsAgain(error) || run >= RUN_AGAIN_TIMES) throw asRefusal(error, writes())
      await pause(Math.random() * 5 * run)
    }
  }
}

export interface DatabaseOptions {
  connectionString: string
  /** The most connections it opens; LISTEN has one of its own beside these. */
  poolSize?: number
  /** How long a caller may wait for a connection, in ms. */
  acquireMs?: number
  statementMs?: number
  /** How long a statement may wait for a lock. */
  lockMs?: number
  /**
   * Through a pooler that lends a connection for one transaction at a time: nothing may be left on it, no
   * prepared statement and no setting.
   */
  pooled?: boolean
  /** Called when a limit on time was reached. */
  onTimeout?: (limit: WaitLimit) => void
}

export const DATABASE_DEFAULTS = {
  poolSize: 16,
  acquireMs: 5000,
  statementMs: 30_000,
  lockMs: 10_000,
} as const

/** How long a transaction may do nothing, in ms. */
export const IDLE_IN_TRANSACTION_MS = 10_000

/** How long beyond its own limit a statement may take before its connection counts as lost. */
export const LOST_AFTER_MS = 5000

/** The URL's own options would replace ours; put after ours, they are added and still win. */
const withOptions = (connectionString: string, ours: string): string => {
  const [address, ...query] = connectionString.split('?')
  const params = new URLSearchParams(query.join('?'))
  params.set('options', [ours, params.get('options')].filter(Boolean).join(' '))
  return `${address}?${params}`
}

/**
 * Each connection keeps its plans, and one made while a table was still small would go on reading all
 * of it. Every statement here finds its rows by an index. Where there is none, before
 * PostgreSQL 18, the plan then costs so much on paper that compiling it would pay: half a second
 * for each statement. Planning a claim takes three times as long as running it, and knowing its
 * parameters changes nothing: it is planned once.
 */
export const PLANNER =
  '-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off -c plan_cache_mode=force_generic_plan'

const JSON_OID = pg.types.builtins.JSON

/** Documents keep the digits of their numbers; `json` stores them as they came. */
const getTypeParser: typeof pg.types.getTypeParser = (oid: number, format?: 'text' | 'binary') =>
  oid === JSON_OID && format !== 'binary'
    ? parseExact
    : pg.types.getTypeParser(oid, format as 'text')

/** The driver reads times and intervals in these forms, whatever the database or the role would have. */
const FORMS = '-c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex'

/** Runs a statement, or waits for its turn first. */
const createTurns = () => {
  const largeReads = createLargeReads()
  return <T>({ turnOf }: Statement<unknown>, values: Values, run: () => Promise<T>): Promise<T> =>
    turnOf === undefined ? run() : largeReads.take(String(values[turnOf]), run)
}

type Limits = DatabaseOptions & typeof DATABASE_DEFAULTS

const openPool = (limits: Limits): pg.Pool => {
  const { connectionString, poolSize, acquireMs, statementMs, lockMs, pooled = false } = limits
  const pool = new pg.Pool({
    connectionString: pooled
      ? connectionString
      : withOptions(connectionString, `${PLANNER} ${FORMS}`),
    application_name: 'switchboard',
    max: poolSize,
    connectionTimeoutMillis: acquireMs,
    ...(!pooled && {
      statement_timeout: statementMs,
      lock_timeout: lockMs,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    }),
    // The server enforces the limits above. A server that went away without a word enforces none.
    query_timeout: statementMs + LOST_AFTER_MS,
    keepAlive: true,
    types: { getTypeParser },
  })
  // An idle connection that breaks is replaced at the next use; without a listener Node would exit.
  pool.on('error', () => {})
  // It would also exit where a broken connection, while the pool closes it, hears that the server shuts
  // down: by then the pool no longer listens.
  pool.on('connect', (client) => {
    client.on('error', () => {})
    guardParsing(client)
  })
  return pool
}

export const openDatabase = (options: DatabaseOptions): Database => {
  const limits = { ...DATABASE_DEFAULTS, ...options }
  const { pooled = false, onTimeout } = limits
  const pool = openPool(limits as Limits)

  const failed = (error: unknown): void => {
    const limit = reachedLimit(error)
    if (limit !== null) onTimeout?.(limit)
  }
  const trouble = createTrouble()
  const inTurn = createTurns()
  let listener: (wakes: readonly Wake[]) => void = () => {}
  const wakeNow = (wakes: readonly Wake[]) => {
    if (wakes.length > 0) listener(wakes)
  }

  type Client = Pick<pg.Pool, 'query'> | Pick<pg.PoolClient, 'query'>

  const queryOn = async <Row>(
    client: Client,
    name: string,
    query: pg.QueryConfig,
  ): Promise<Row[]> => {
    try {
      const { rows } = await client.query<Row & pg.QueryResultRow>(query)
      trouble.succeeded(name)
      return rows
    } catch (error) {
      trouble.failed(name, error)
      throw error
    }
  }

  const runOn = <Row>(
    client: Client,
    { name, text, order, prepared }: Statement<Row>,
    values: Values,
  ): Promise<Row[]> =>
    queryOn(client, name, {
      ...(prepared && !pooled && { name }),
      text,
      values: order.map((key) => values[key] ?? null),
    })

  const runOneOff = <Row>(client: Client, text: string, values: readonly unknown[]) =>
    queryOn<Row>(client, 'one-off', { text, values: [...values] })

  const transaction = async <T>(work: (session: Session) => Promise<T>): Promise<T> => {
    const wakes: Wake[] = []
    let committing = false
    const attempt = async (): Promise<T> => {
      wakes.length = 0
      const client = await pool.connect()
      let broken: Error | undefined
      // A connection that dies while we use it reports that twice: to the query, and here.
      const onError = (error: Error) => {
        broken = error
      }
      client.on('error', onError)
      try {
        await client.query('begin')
        const value = await work({
          run: (statement, values) => runOn(client, statement, values),
          query: (text, values) => runOneOff(client, text, values),
          wake: (more) => wakes.push(...more),
        })
        committing = true
        await client.query('commit')
        return value
      } catch (error) {
        // A connection of no use any more is thrown away without another query.
        if (discards(error)) broken = error as Error
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
    const result = await runAgainWhile(attempt, () => committing, failed)
    wakeNow(wakes)
    return result
  }

  return {
    run: (statement, values) =>
      inTurn(statement, values, () =>
        runAgainWhile(
          () => runOn(pool, statement, values),
          () => !isRead(statement),
          failed,
        ),
      ),
    query: (text, values) =>
      runAgainWhile(
        () => runOneOff(pool, text, values),
        () => false,
        failed,
      ),
    wake: wakeNow,
    transaction,
    onWake: (listen) => {
      listener = listen
    },
    trouble: trouble.reason,
    counts: () => ({
      total: pool.totalCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
      size: pool.options.max,
    }),
    close: () => pool.end(),
  }
}
