/**
 * How the doctor reads: over a connection of its own, so that it also tells of a database that no node
 * uses, and each question in a transaction that is read-only and ends with a rollback.
 */
import pg from 'pg'
import type { Statement, Values } from '../postgres/database.ts'

/** How long the database may take to answer one question, in ms. */
export const QUESTION_MS = 10_000

export interface Reader {
  /** One read; `planned` chooses plans as the connections of a node do. */
  read<Row>(text: string, values?: readonly unknown[], planned?: boolean): Promise<Row[]>
  run<Row>(statement: Statement<Row>, values: Values): Promise<Row[]>
  /** The buffers that a statement touches, by running it. */
  buffersOf(statement: Statement<unknown>, values: Values): Promise<number>
}

const AS_NODES = `set local enable_seqscan = off; set local enable_hashjoin = off;
  set local enable_mergejoin = off; set local jit = off`

const ordered = ({ order }: Statement<unknown>, values: Values): unknown[] =>
  order.map((name) => values[name] ?? null)

export const openClient = async (connectionString: string): Promise<pg.Client> => {
  const client = new pg.Client({
    connectionString,
    application_name: 'switchboard doctor',
    connectionTimeoutMillis: QUESTION_MS,
    query_timeout: QUESTION_MS + 5000,
  })
  client.on('error', () => {})
  await client.connect()
  return client
}

export const createReader = (client: pg.Client): Reader => {
  const read: Reader['read'] = async <Row>(
    text: string,
    values: readonly unknown[] = [],
    planned = false,
  ): Promise<Row[]> => {
    await client.query('begin transaction read only')
    try {
      await client.query(`set local statement_timeout = ${QUESTION_MS}`)
      if (planned) await client.query(AS_NODES)
      const { rows } = await client.query<Row & pg.QueryResultRow>(text, [...values])
      return rows
    } finally {
      await client.query('rollback')
    }
  }
  return {
    read,
    run: (statement, values) => read(statement.text, ordered(statement, values), true),
    buffersOf: async (statement, values) => {
      const explained = await read<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
        `explain (analyze, buffers, format json) ${statement.text}`,
        ordered(statement, values),
        true,
      )
      const plan = explained[0]!['QUERY PLAN'][0].Plan
      return (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0)
    },
  }
}
