/** The migration that gives waits their deadline, on a database that has been in use. */
import { randomUUID } from 'node:crypto'
import knexFactory from 'knex'
import { afterAll, expect, inject, test } from 'vitest'
import { knexConfig, migrate } from '../../src/store/postgres/migrate.ts'
import type { Answer } from '../support/clients/actors.ts'
import { urlOf, withClient } from '../support/database/database.ts'

const { url, run } = inject('postgres')
const name = `${run}_migration`
const databaseUrl = urlOf(url, name)
await withClient(url, (client) => client.query(`create database ${name}`))
afterAll(() => withClient(url, (client) => client.query(`drop database ${name} with (force)`)))

const sql = (text: string, values: unknown[] = []): Promise<Answer[]> =>
  withClient(databaseUrl, async (client) => (await client.query(text, values)).rows)

const knex = knexFactory(knexConfig(databaseUrl))
await knex.migrate.up()
await knex.destroy()

const OWNER = randomUUID()
const ids = Object.fromEntries(
  ['asking', 'parked', 'authorising', 'pending', 'claimed', 'done', 'failed', 'retrying'].map(
    (key) => [key, randomUUID()],
  ),
) as Record<string, string>

const add = (key: string, columns: Record<string, unknown>) => {
  const all = {
    id: ids[key],
    queue: 'q',
    context_id: 'c',
    max_attempts: 5,
    updated_at: '2026-01-02T03:04:05.678Z',
    ...columns,
  }
  return sql(
    `insert into todos (${Object.keys(all).join(', ')})
     values (${Object.keys(all).map((_, at) => `$${at + 1}`)})`,
    Object.values(all),
  )
}

const held = {
  owner: OWNER,
  fence: 1,
  lease_seconds: 300,
  lease_expires_at: '2026-01-01T00:00:00Z',
}
const finished = { finished_at: '2026-01-01T00:00:00Z' }

test('rows that were interrupted before get the moment of their last change as the start of their wait, and no other row is touched', async () => {
  const [before] = await sql(
    `select count(*)::int as columns from information_schema.columns
     where table_name = 'todos' and column_name = 'interrupted_at'`,
  )
  expect(before).toEqual({ columns: 0 })
  await add('asking', { state: 'input-required', ...held })
  await add('parked', { state: 'input-required', fence: 1 })
  await add('authorising', { state: 'auth-required', ...held, updated_at: '2025-12-31T00:00:00Z' })
  await add('pending', { due_at: '2026-01-01T00:00:00Z' })
  await add('claimed', { state: 'claimed', ...held })
  await add('done', { state: 'done', ...finished })
  await add('failed', { state: 'failed', ...finished })
  await add('retrying', { state: 'failed', next_retry_at: '2026-01-01T00:00:00Z' })
  const rows = () => sql('select to_jsonb(t) as row from todos t order by id')
  const old = (await rows()).map(({ row }) => row)

  expect((await migrate(databaseUrl)).applied).toContain('0002_interrupt_deadline')

  const now = (await rows()).map(({ row }) => row)
  for (const [at, row] of now.entries()) expect(row).toMatchObject(old[at])
  const stamps = Object.fromEntries(
    (await sql('select id, interrupted_at from todos')).map((row) => [row.id, row.interrupted_at]),
  )
  const changed = new Date('2026-01-02T03:04:05.678Z')
  expect(stamps).toEqual({
    [ids.asking!]: changed,
    [ids.parked!]: changed,
    [ids.authorising!]: new Date('2025-12-31T00:00:00Z'),
    [ids.pending!]: null,
    [ids.claimed!]: null,
    [ids.done!]: null,
    [ids.failed!]: null,
    [ids.retrying!]: null,
  })
})

test('a wait has its moment and nothing else has one, by a constraint that holds for old rows too', async () => {
  const [constraint] = await sql(
    `select convalidated from pg_constraint where conname = 'interrupted_has_its_moment'`,
  )
  expect(constraint).toEqual({ convalidated: true })
  const broken = expect.objectContaining({ constraint: 'interrupted_has_its_moment' })
  const set = (id: string | undefined, value: string | null) =>
    sql('update todos set interrupted_at = $2 where id = $1', [id, value])
  await expect(set(ids.asking, null)).rejects.toEqual(broken)
  await expect(set(ids.pending, '2026-01-01')).rejects.toEqual(broken)
})

test('the sweep has a partial index on the start of the wait, over the two interrupt states', async () => {
  const [index] = await sql(`select indexdef from pg_indexes where indexname = 'todos_interrupt'`)
  expect(index.indexdef).toMatch(/\(interrupted_at\) WHERE/)
  expect(index.indexdef).toContain("'input-required'")
  expect(index.indexdef).toContain("'auth-required'")
})

test('migrating again changes nothing, and taking the column away is all a way back needs', async () => {
  expect((await migrate(databaseUrl)).applied).toEqual([])
  await withClient(databaseUrl, async (client) => {
    await client.query('begin')
    await client.query('alter table todos drop column interrupted_at')
    const { rows } = await client.query('select count(*)::int as rows from todos')
    expect(rows).toEqual([{ rows: 8 }])
    await client.query('rollback')
  })
})
