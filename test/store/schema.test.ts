// Field cases: many first starts; schema newer than the code.
import { expect, test } from 'vitest'
import { DISPOSITIONS, OUTCOMES, STATE_NAMES } from '../../src/domain/lifecycle.ts'
import { migrate, pendingMigrations, SchemaTooNew } from '../../src/store/postgres/migrate.ts'
import { cloneDatabase, withClient } from '../support/database/database.ts'
import { openStore } from '../support/database/store.ts'

const { database, add, url } = await openStore(2)

const refused = async (id: string, set: string, constraint: string): Promise<void> => {
  await expect(database.query(`update todos set ${set} where id = $1`, [id])).rejects.toMatchObject(
    {
      code: '23514',
      constraint,
    },
  )
}

test("the database's own copy of the states is the lifecycle's", async () => {
  const rows = await database.query<{ state: string }>(
    'select unnest(enum_range(null::todo_state))::text as state',
    [],
  )
  expect(rows.map(({ state }) => state)).toEqual(STATE_NAMES)
})

test("the database's own copies of outcomes and dispositions are the lifecycle's", async () => {
  const check = async (name: string): Promise<string[]> => {
    const [row] = await database.query<{ text: string }>(
      'select pg_get_constraintdef(oid) as text from pg_constraint where conname = $1',
      [name],
    )
    return [...row!.text.matchAll(/'([a-z_]+)'/g)].map(([, word]) => word!)
  }
  expect(await check('attempt_outcome_is_known')).toEqual(OUTCOMES)
  expect(await check('attempt_disposition_is_known')).toEqual(DISPOSITIONS)
})

test('held means it has an owner, a lease and a fence', async () => {
  const id = await add()
  await refused(id, `state = 'claimed', due_at = null`, 'claimed_has_owner_lease_and_fence')
  await refused(id, 'owner = gen_random_uuid()', 'only_open_states_have_an_owner')
})

test('finished means finished_at, and a dead letter is finished', async () => {
  const id = await add()
  await refused(id, `state = 'done', due_at = null`, 'finished_means_finished_at')
  await refused(id, `state = 'failed', due_at = null`, 'finished_means_finished_at')
  await refused(
    id,
    `state = 'failed', due_at = null, finished_at = now(), next_retry_at = now()`,
    'finished_means_finished_at',
  )
  await refused(id, 'finished_at = now()', 'finished_means_finished_at')
})

test('an interrupt has its moment, and nothing else has one', async () => {
  const id = await add()
  await refused(id, `state = 'input-required', due_at = null`, 'interrupted_has_its_moment')
  await refused(id, 'interrupted_at = now()', 'interrupted_has_its_moment')
})

test('a todo has at most one open attempt', async () => {
  const id = await add()
  const open = (seq: number) =>
    database.query(
      `insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at)
      values ($1, $2, 1, gen_random_uuid(), now())`,
      [id, seq],
    )
  await open(1)
  await expect(open(2)).rejects.toMatchObject({ code: '23505', constraint: 'attempt_one_open' })
})

test('attempts stay within the cap', async () => {
  const id = await add({ maxAttempts: 2 })
  await refused(id, 'attempt = 3', 'attempts_within_the_cap')
})

test('starts that race migrate an empty database once', async () => {
  const clone = await cloneDatabase()
  try {
    await withClient(clone.url, async (client) => {
      await client.query('drop schema public cascade')
      await client.query('create schema public')
    })
    const results = await Promise.all(Array.from({ length: 6 }, () => migrate(clone.url)))
    expect(results.flatMap(({ applied }) => applied)).toEqual([
      '0001_schema',
      '0002_interrupt_deadline',
      '0003_timeouts',
      '0004_lines',
      '0005_families',
      '0006_live_children',
      '0007_idempotency',
      '0008_push',
      '0009_answer_links',
      '0010_retention',
      '0011_lease_probe',
      '0012_todo_counts',
      '0013_installation_keys',
      '0014_message_requests',
      '0015_chunk_keys',
      '0016_todo_documents',
      '0017_never_started',
      '0018_authors',
      '0019_budgets',
      '0020_parked_holders',
      '0021_schedules',
    ])
    expect(await pendingMigrations(clone.url)).toEqual([])
  } finally {
    await clone.drop()
  }
})

test("a lock of knex's that a killed start left behind is freed, though nothing is to be done", async () => {
  await database.query('update migrations_lock set is_locked = 1', [])
  expect(await migrate(url)).toEqual({ applied: [] })
  expect(await database.query('select is_locked from migrations_lock', [])).toEqual([
    { is_locked: 0 },
  ])
})

test('a start on a database that is read-only and up to date has nothing to write', async () => {
  const options = encodeURIComponent('-c default_transaction_read_only=on')
  expect(await migrate(`${url}?options=${options}`)).toEqual({ applied: [] })
})

test('a database that is newer than this code is refused and left alone', async () => {
  await database.query(`insert into migrations (name, batch) values ('9999_future', 9)`, [])
  try {
    await expect(migrate(url)).rejects.toThrow(SchemaTooNew)
    await expect(pendingMigrations(url)).rejects.toThrow('9999_future')
  } finally {
    await database.query(`delete from migrations where name = '9999_future'`, [])
  }
})
