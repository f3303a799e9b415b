/**
 * The migration for attempts that never started, on a database that has todos, with a node of before
 * beside: what was claimed before it is taken back as what is claimed after it.
 */
import knexFactory from 'knex'
import { afterAll, expect, inject, test } from 'vitest'
import { knexConfig, migrate } from '../../src/store/postgres/migrate.ts'
import { startNode } from '../support/app.ts'
import type { Answer } from '../support/clients/actors.ts'
import { urlOf, withClient } from '../support/database/database.ts'
import { loseClaim } from '../support/steps.ts'

const { url, run } = inject('postgres')
const name = `${run}_never_started`
const databaseUrl = urlOf(url, name)
await withClient(url, (client) => client.query(`create database ${name}`))
afterAll(() => withClient(url, (client) => client.query(`drop database ${name} with (force)`)))

const sql = <Row = Answer>(text: string, values: unknown[] = []): Promise<Row[]> =>
  withClient(databaseUrl, async (client) => (await client.query(text, values)).rows)

/** A todo on its last attempt, as a node of any version leaves it once it has handed it out. */
const claimed = async (): Promise<string> => {
  const [todo] = await sql(
    `insert into todos (id, queue, context_id, state, max_attempts, attempt, attempts_total, fence,
      owner, lease_seconds, lease_expires_at, lease_probe_at, started_at, last_heartbeat_at, progress_at)
    select gen_random_uuid(), 'q', 'c', 'claimed', 1, 1, 1, 1, gen_random_uuid(), 300,
      at + interval '300 seconds', at + interval '300 seconds', at, at, at
    from clock_timestamp() at returning id`,
  )
  await sql(
    `insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at)
    select id, 1, 1, owner, started_at from todos where id = $1`,
    [todo.id],
  )
  return todo.id
}

test('what was claimed before it, or by a node of before, is given back like any other', async () => {
  const knex = knexFactory(knexConfig(databaseUrl))
  // All before it, whatever these are by then.
  const before = async () =>
    (await knex.migrate.list())[1].filter(({ name }: Answer) => name < '0017').length
  while ((await before()) > 0) await knex.migrate.up()
  await knex.destroy()
  const early = await claimed()
  await migrate(databaseUrl)
  const late = await claimed()
  const ids = [early, late]
  const node = await startNode(databaseUrl)
  try {
    await loseClaim({ sql }, ...ids)
    await node.sweep.reap()
    expect(
      await sql(
        `select t.id, t.state, t.attempt, a.cause from todos t join attempts a on a.todo_id = t.id
        where t.id = any($1::uuid[]) order by t.id = $2`,
        [ids, late],
      ),
    ).toEqual(ids.map((id) => ({ id, state: 'pending', attempt: 0, cause: 'never_started' })))
    expect(await sql('select never_started(id, 1) as lost from todos')).toEqual([
      { lost: true },
      { lost: true },
    ])
    expect(await sql('select never_started(id, 0) as lost from todos limit 1')).toEqual([
      { lost: false },
    ])
  } finally {
    await node.stop()
  }
})
