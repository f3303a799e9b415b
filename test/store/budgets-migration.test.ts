/**
 * The migration for budgets, on a database that has todos, with a node of before beside: what is there has
 * no limit, and what a node of before adds has none either.
 */
import knexFactory from 'knex'
import { afterAll, expect, inject, test } from 'vitest'
import { knexConfig, migrate } from '../../src/store/postgres/migrate.ts'
import type { Answer } from '../support/clients/actors.ts'
import { urlOf, withClient } from '../support/database/database.ts'

const { url, run } = inject('postgres')
const name = `${run}_budgets`
const databaseUrl = urlOf(url, name)
await withClient(url, (client) => client.query(`create database ${name}`))
afterAll(() => withClient(url, (client) => client.query(`drop database ${name} with (force)`)))

const sql = <Row = Answer>(text: string, values: unknown[] = []): Promise<Row[]> =>
  withClient(databaseUrl, async (client) => (await client.query(text, values)).rows)

/** As a node of any version adds one. */
const add = async (): Promise<string> =>
  (
    await sql(
      `insert into todos (id, queue, context_id, max_attempts, due_at)
      values (gen_random_uuid(), 'q', 'c', 1, now()) returning id`,
    )
  )[0].id

test('todos of before have no budget and may spend, as those that a node of before adds', async () => {
  const knex = knexFactory(knexConfig(databaseUrl))
  // All before it, whatever these are by then.
  const before = async () =>
    (await knex.migrate.list())[1].filter(({ name }: Answer) => name < '0019').length
  while ((await before()) > 0) await knex.migrate.up()
  await knex.destroy()
  const early = await add()
  const file = async () => (await sql(`select pg_relation_filenode('todos') as file`))[0].file
  const same = await file()
  await migrate(databaseUrl)
  // Nothing is written anew, so its lock lasts a moment.
  expect(await file()).toBe(same)
  const late = await add()
  expect(
    await sql('select budget, spent, spend_keys from todos where id = any($1)', [[early, late]]),
  ).toEqual([1, 2].map(() => ({ budget: null, spent: null, spend_keys: null })))
  await sql(`update todos set spent = spent_more(spent, '{"tokens": 5}')`)
  expect(
    await sql('select spent, within_budget(budget, spent) as within from todos where id = $1', [
      early,
    ]),
  ).toEqual([{ spent: { tokens: 5 }, within: true }])
})

test.each([
  [null, null, null],
  [null, '{"tokens": 5}', { tokens: 5 }],
  ['{"tokens": 5}', null, { tokens: 5 }],
  ['{"tokens": 5}', '{"tokens": 6, "calls": 1}', { tokens: 11, calls: 1 }],
  ['{"tokens": 9007199254740990}', '{"tokens": 5}', { tokens: Number.MAX_SAFE_INTEGER }],
])('%s and %s are summed by kind', async (spent, more, sum) => {
  const rows = await sql('select spent_more($1::jsonb, $2::jsonb) as sum', [spent, more])
  expect(rows).toEqual([{ sum }])
})

test.each([
  [null, '{"tokens": 5}', true],
  ['{"tokens": 5}', null, true],
  ['{"tokens": 5}', '{"tokens": 5, "calls": 9}', true],
  ['{"tokens": 5}', '{"tokens": 6}', false],
  ['{"tokens": 5, "calls": 0}', '{"calls": 1}', false],
])('a budget of %s holds against %s: %s', async (budget, spent, within) => {
  const rows = await sql('select within_budget($1::jsonb, $2::jsonb) as within', [budget, spent])
  expect(rows).toEqual([{ within }])
})
