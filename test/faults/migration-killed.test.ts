// A migration that is killed at any moment is finished by the next one.
// Field case: interrupted migration.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import knexFactory from 'knex'
import { afterAll, expect, inject, test } from 'vitest'
import { knexConfig, pendingMigrations } from '../../src/store/postgres/migrate.ts'
import { urlOf, withClient } from '../support/database/database.ts'
import { childArgs } from '../support/process/child-args.ts'
import { until } from '../support/until.ts'

const ROWS = 10_000
const KILLS = 10
const ROOT = new URL('../..', import.meta.url)

const { url, run } = inject('postgres')
const name = `${run}_killed`
const databaseUrl = urlOf(url, name)
await withClient(url, (client) => client.query(`create database ${name}`))
afterAll(() => withClient(url, (client) => client.query(`drop database ${name} with (force)`)))

/** Of the same contents, to see there how long the migration takes. */
const copy = `${name}_copy`

const sql = <Row = Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> =>
  withClient(databaseUrl, async (client) => (await client.query(text, values)).rows as Row[])

const startMigrating = (database = name) =>
  spawn(process.execPath, [...childArgs('src/cli/main.ts'), 'migrate', '--json'], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, DATABASE_URL: urlOf(url, database) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })

const recorded = async (): Promise<string[]> =>
  (await sql<{ name: string }>('select name from migrations order by id')).map((row) => row.name)

/** Of the migrating process: the lock's, then that of the work. */
const sessions = async (database = name): Promise<number> =>
  withClient(url, async (client) => {
    const text = `select from pg_stat_activity
      where datname = $1 and backend_type = 'client backend'`
    return (await client.query(text, [database])).rowCount ?? 0
  })

/** What the first schema knew of each todo: later columns do not count. */
const fingerprint = async (columns: string) =>
  (
    await sql(
      `select count(*)::int as count, md5(string_agg(md5((${columns})::text), '' order by id)) as sum
       from todos`,
    )
  )[0]

const works = async (database = name) => {
  const child = startMigrating(database)
  const exit = once(child, 'exit')
  await until(async () => child.exitCode !== null || (await sessions(database)) > 1, {
    what: 'the migration is at work',
  })
  return { child, exit }
}

const measure = async (): Promise<number> => {
  await withClient(url, (client) => client.query(`create database ${copy} template ${name}`))
  const { exit } = await works(copy)
  const from = performance.now()
  await exit
  const took = performance.now() - from
  await withClient(url, (client) => client.query(`drop database ${copy} with (force)`))
  return took
}

/** Kills it so long after it began to work. */
const killAfter = async (ms: number): Promise<void> => {
  const { child, exit } = await works()
  await new Promise((resolve) => setTimeout(resolve, ms))
  child.kill('SIGKILL')
  await exit
  // PostgreSQL ends the statement that runs before it looks whether somebody is there.
  await until(async () => (await sessions()) === 0, { what: 'its sessions are gone' })
}

test('a migration killed again and again is finished by the next, with every row as it was', async () => {
  const knex = knexFactory(knexConfig(databaseUrl))
  await knex.migrate.up()
  await knex.destroy()
  await sql(
    `insert into todos (id, queue, context_id, max_attempts, state, due_at, owner, fence,
       lease_seconds, lease_expires_at)
     select gen_random_uuid(), 'q', 'c' || n % 100, 5, state, case state when 'pending' then now() end,
       case state when 'pending' then null else gen_random_uuid() end,
       case state when 'pending' then 0 else 1 end,
       case state when 'pending' then null else 300 end,
       case state when 'pending' then null else now() end
     from (select n, case n % 3 when 0 then 'input-required' else 'pending' end::todo_state as state
       from generate_series(1, $1) n) rows`,
    [ROWS],
  )
  const columns = (
    await sql<{ columns: string }>(
      `select string_agg(attname, ', ' order by attnum) as columns from pg_attribute
       where attrelid = 'todos'::regclass and attnum > 0 and not attisdropped`,
    )
  )[0]!.columns
  const before = await fingerprint(columns)
  expect(before).toMatchObject({ count: ROWS })

  const took = await measure()
  let done = await recorded()
  for (let kill = 0; kill < KILLS; kill += 1) {
    await killAfter(Math.random() * took)
    const now = await recorded()
    // What was there stays, and no row changes.
    expect(now.slice(0, done.length)).toEqual(done)
    expect(await fingerprint(columns)).toEqual(before)
    done = now
  }

  const last = startMigrating()
  const [code] = await once(last, 'exit')
  expect(code).toBe(0)
  const names = await recorded()
  expect(names).toEqual([...new Set(names)].sort())
  expect(await pendingMigrations(databaseUrl)).toEqual([])
  expect(await fingerprint(columns)).toEqual(before)
  const wrong = await sql(
    `select id from todos where (state = 'input-required') <> (interrupted_at is not null)`,
  )
  expect(wrong).toEqual([])
  await until(async () => (await sessions()) === 0, { what: 'the last sessions are gone' })
  const locks = await sql(
    `select locktype from pg_locks where locktype = 'advisory'
       and database = (select oid from pg_database where datname = current_database())`,
  )
  expect(locks).toEqual([])
  expect(await sql('select is_locked from migrations_lock')).toEqual([{ is_locked: 0 }])
})
