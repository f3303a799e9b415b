/** Migrations of a database that is in use: none may write a large table anew under its lock. */
import { randomUUID } from 'node:crypto'
import knexFactory from 'knex'
import { afterAll, expect, inject, test } from 'vitest'
import { knexConfig, migrate } from '../../src/store/postgres/migrate.ts'
import { urlOf, withClient } from '../support/database/database.ts'

const { url, run } = inject('postgres')
const name = `${run}_rewrites`
const databaseUrl = urlOf(url, name)
await withClient(url, (client) => client.query(`create database ${name}`))
afterAll(() => withClient(url, (client) => client.query(`drop database ${name} with (force)`)))

test('no migration after the first writes the todos anew, and those of before keep their order', async () => {
  const knex = knexFactory(knexConfig(databaseUrl))
  await knex.migrate.up()
  await knex.destroy()
  await withClient(databaseUrl, async (client) => {
    const file = async () =>
      (await client.query(`select pg_relation_filenode('todos') as file`)).rows[0].file
    const add = () =>
      client.query(
        `insert into todos (id, queue, context_id, max_attempts, due_at)
        values ($1, 'q', 'c', 1, now())`,
        [randomUUID()],
      )
    await add()
    const before = await file()
    await migrate(databaseUrl)
    expect(await file()).toBe(before)
    await client.query('begin')
    await add()
    await add()
    await client.query('commit')
    const { rows } = await client.query('select distinct lined_at from todos')
    expect(rows).toHaveLength(3)
  })
})
