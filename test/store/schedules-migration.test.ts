/**
 * The migration for delayed and recurring sends, on a database that has todos: what a node of before has
 * made and makes beside it lives on, and what waits for its time is out of that node's reach.
 */
import { randomUUID } from 'node:crypto'
import knexFactory from 'knex'
import { afterAll, expect, inject, test } from 'vitest'
import { knexConfig, migrate } from '../../src/store/postgres/migrate.ts'
import { startNode } from '../support/app.ts'
import type { Answer } from '../support/clients/actors.ts'
import { urlOf, withClient } from '../support/database/database.ts'

const { url, run } = inject('postgres')
const name = `${run}_schedules`
const databaseUrl = urlOf(url, name)
await withClient(url, (client) => client.query(`create database ${name}`))
afterAll(() => withClient(url, (client) => client.query(`drop database ${name} with (force)`)))

const sql = <Row = Answer>(text: string, values: unknown[] = []): Promise<Row[]> =>
  withClient(databaseUrl, async (client) => (await client.query(text, values)).rows)

/** As a node of any version writes one: the front of a line, or behind it. */
const addInLine = async (line: string, front: boolean): Promise<string> => {
  const [todo] = await sql(
    `insert into todos (id, queue, context_id, max_attempts, line, front, due_at)
    values (gen_random_uuid(), 'q', 'c', 5, $1, $2, case when $2 then now() end) returning id`,
    [line, front],
  )
  return todo.id
}

/** Who comes next in a line by a node of before: it knows of no other line than this. */
const HEIR_OF_BEFORE = `select id from todos w where w.line = $1 and not w.front
  and (w.state = 'pending' or w.answered_at is not null) order by w.answered_at, w.lined_at limit 1`

test('todos of before stay in their lines, and what waits for its time is in none', async () => {
  const knex = knexFactory(knexConfig(databaseUrl))
  const before = async () =>
    (await knex.migrate.list())[1].filter((one: Answer) => one.name < '0021').length
  while ((await before()) > 0) await knex.migrate.up()
  await knex.destroy()
  const line = randomUUID()
  await sql(`insert into queues (name, card, policy) values ('q', '{}', '{}')`)
  const first = await addInLine(line, true)
  const second = await addInLine(line, false)

  await migrate(databaseUrl)
  // A second run after a kill in between finds all in place.
  await sql(`delete from migrations where name = '0021_schedules'`)
  await migrate(databaseUrl)
  const [later] = await sql(
    `insert into todos (id, queue, context_id, max_attempts, not_before, later_line, lined_at)
    values (gen_random_uuid(), 'q', 'c', 5, now() - interval '1 second', $1, now() - interval '1 day')
    returning id`,
    [line],
  )
  expect(await sql(HEIR_OF_BEFORE, [line])).toEqual([{ id: second }])
  await expect(
    sql(
      `insert into todos (id, queue, context_id, max_attempts) values (gen_random_uuid(), 'q', 'c', 5)`,
    ),
  ).rejects.toMatchObject({ constraint: 'pending_is_due_or_waits' })
  await addInLine(randomUUID(), true)

  const node = await startNode(databaseUrl, { comeDueMs: 3_600_000 })
  try {
    await node.sweep.comeDue()
    expect(
      await sql('select line, later_line, front from todos where id = $1', [later.id]),
    ).toEqual([{ line, later_line: null, front: false }])
    expect(await sql(HEIR_OF_BEFORE, [line])).toEqual([{ id: later.id }])
    expect((await sql('select front from todos where id = $1', [first]))[0]).toEqual({
      front: true,
    })
  } finally {
    await node.stop()
  }
})
