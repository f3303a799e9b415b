/**
 * Wakes over LISTEN and NOTIFY, on a connection of their own: a NOTIFY inside the hot transactions
 * would make their commits queue behind one another.
 */
import pg from 'pg'
import { withTimeout } from '../../base/time.ts'
import type { WakeBus } from './bus.ts'

const CHANNEL = 'switchboard'
export const ANSWER_MS = 5000

export interface PostgresBusOptions {
  /** The address of the server itself: through a pooler that lends connections nothing is heard. */
  connectionString: string
  /** How long the server may take to answer, in ms. */
  answerMs?: number
}

const NOTIFY = `select pg_notify('${CHANNEL}', payload) from unnest($1::text[]) as payload`

export const postgresBus = (options: PostgresBusOptions): WakeBus => {
  const { connectionString, answerMs = ANSWER_MS } = options
  return {
    name: 'LISTEN/NOTIFY',
    connect: async (hear, lost) => {
      const client = new pg.Client({
        connectionString,
        application_name: 'switchboard wake',
        connectionTimeoutMillis: answerMs,
        query_timeout: answerMs,
        keepAlive: true,
      })
      client.on('error', lost)
      client.on('end', lost)
      client.on('notification', ({ payload }) => hear(payload ?? ''))
      try {
        await client.connect()
        await client.query(`listen ${CHANNEL}`)
      } catch (error) {
        client.end().catch(() => {})
        throw error
      }

      /** Runs one query at a time, after whatever the connection is busy with. */
      let last: Promise<unknown> = Promise.resolve()
      const ask = async (text: string, values: unknown[] = []): Promise<void> => {
        const answer = last.then(() => client.query(text, values))
        last = answer.catch(() => {})
        await answer
      }
      return {
        send: (payloads) => ask(NOTIFY, [payloads]),
        check: () => ask('select 1'),
        // A server that is gone does not answer the farewell.
        close: () => withTimeout(answerMs, 'closing', () => client.end()),
      }
    },
  }
}
