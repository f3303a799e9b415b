/** The migration that brings the retention: on rows of before, beside writers, raced and killed. */
import pg from 'pg'
import { afterEach, expect, test } from 'vitest'
import { forgetTodos } from '../../src/store/admin/retention.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { migrate, pendingMigrations } from '../../src/store/postgres/migrate.ts'
import { databaseBefore } from '../support/database/before-migration.ts'
import { withClient } from '../support/database/database.ts'
import { until } from '../support/until.ts'
import { makeAged, rowsOf } from './aged.ts'

const drops: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const drop of drops.splice(0)) await drop()
})

const LAST = '0010_retention'

/** A database as the migrations before this one leave it, with rows in it. */
const before = async (): Promise<{ databaseUrl: string; old: string[] }> => {
  const { url: databaseUrl, drop } = await databaseBefore(LAST)
  drops.push(drop)
  const old = await withClient(databaseUrl, async (client) => {
    await client.query(
      `insert into queues (name, card, policy) values ('q', '{"name":"q"}', '{"retentionDays":30}')`,
    )
    return makeAged(async (text, values) => (await client.query(text, values)).rows, {
      count: 3000,
    })
  })
  return { databaseUrl, old }
}

const indexes = async (databaseUrl: string): Promise<unknown[]> =>
  withClient(databaseUrl, async (client) => {
    const text = `select i.relname as name, x.indisvalid as valid from pg_index x
      join pg_class i on i.oid = x.indexrelid
      where i.relname in ('todos_ended', 'idempotency_keys_todo') order by 1`
    return (await client.query(text)).rows
  })

const BUILT = [
  { name: 'idempotency_keys_todo', valid: true },
  { name: 'todos_ended', valid: true },
]

const send = (client: pg.Client): Promise<unknown> =>
  client.query(
    `insert into todos (id, queue, context_id, max_attempts, due_at)
    values (gen_random_uuid(), 'q', 'c', 5, now())`,
  )

test('what ended before the migration goes by the retention of its queue', async () => {
  const { databaseUrl, old } = await before()
  expect((await migrate(databaseUrl)).applied).toContain(LAST)
  expect(await indexes(databaseUrl)).toEqual(BUILT)
  const database = openDatabase({ connectionString: databaseUrl, poolSize: 1 })
  try {
    let place = null
    do place = (await forgetTodos(database, 'q', place)).next
    while (place)
    expect(await rowsOf(database.query, old)).toEqual({})
  } finally {
    await database.close()
  }
})

test('writers go on while it runs, also one whose transaction it has to wait for', async () => {
  const { databaseUrl } = await before()
  const slow = new pg.Client({ connectionString: databaseUrl })
  await slow.connect()
  try {
    await slow.query('begin')
    await send(slow)
    const migrating = migrate(databaseUrl)
    // It waits for the slow one, and nobody waits behind it.
    const waits = `select from pg_stat_activity where datname = current_database()
      and query like 'create index concurrently%' and wait_event_type = 'Lock'`
    await withClient(databaseUrl, async (client) => {
      await until(async () => (await client.query(waits)).rowCount === 1)
      await client.query('set lock_timeout = 1000')
      for (let n = 0; n < 20; n += 1) await send(client)
      await client.query(
        `update todos set state = 'canceled', due_at = null, finished_at = now() where state = 'pending'`,
      )
    })
    await slow.query('commit')
    await migrating
  } finally {
    await slow.end()
  }
  expect(await indexes(databaseUrl)).toEqual(BUILT)
})

test('starts that race do not wait for one another for ever', async () => {
  const { databaseUrl } = await before()
  const all = await Promise.all(
    Array.from({ length: 5 }, (_, n) => migrate(databaseUrl, { pooled: n % 2 === 1 })),
  )
  expect(all.flatMap(({ applied }) => applied).filter((name) => name === LAST)).toEqual([LAST])
  expect(await indexes(databaseUrl)).toEqual(BUILT)
})

test('one that was killed while it built an index is done again, and the void index replaced', async () => {
  const { databaseUrl } = await before()
  const slow = new pg.Client({ connectionString: databaseUrl })
  await slow.connect()
  try {
    await slow.query('begin')
    await send(slow)
    const migrating = migrate(databaseUrl).catch((error: Error) => error)
    const kill = `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and query like 'create index concurrently%'
        and wait_event_type = 'Lock'`
    await withClient(databaseUrl, (client) =>
      until(async () => (await client.query(kill)).rowCount === 1),
    )
    expect(await migrating).toBeInstanceOf(Error)
    expect(await indexes(databaseUrl)).toEqual([{ name: 'todos_ended', valid: false }])
    await slow.query('commit')
  } finally {
    await slow.end()
  }
  expect((await migrate(databaseUrl)).applied).toContain(LAST)
  expect(await indexes(databaseUrl)).toEqual(BUILT)
  expect(await pendingMigrations(databaseUrl)).toEqual([])
})
