/**
 * A database of its own for a test file: a clone of the migrated template (some 50 ms), in the
 * PostgreSQL that support/postgres.ts started.
 */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'

declare module 'vitest' {
  export interface ProvidedContext {
    postgres: {
      url: string
      /** Every database of this test run has a name that starts so. */
      run: string
    }
  }
}

export interface Database {
  url: string
  /** Cuts off who is still connected. */
  drop(): Promise<void>
}

/** The same server and role, another database. */
export const urlOf = (url: string, database: string): string =>
  url.replace(/^(\w+:\/\/[^/?]*)(\/[^?]*)?/, `$1/${database}`)

export const withClient = async <T>(
  url: string,
  use: (client: pg.Client) => Promise<T>,
): Promise<T> => {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

const createDatabase = async (template: string): Promise<Database> => {
  const { url, run } = inject('postgres')
  const name = `${run}_${randomUUID().slice(0, 8)}`
  await withClient(url, (client) => client.query(`create database ${name} ${template}`))
  return {
    url: urlOf(url, name),
    drop: () =>
      withClient(url, async (client) => {
        await client.query(`drop database if exists ${name} with (force)`)
      }),
  }
}

export const cloneDatabase = (): Promise<Database> =>
  createDatabase(`template ${inject('postgres').run}_template`)

/** With no schema in it. */
export const emptyDatabase = (): Promise<Database> => createDatabase('')
