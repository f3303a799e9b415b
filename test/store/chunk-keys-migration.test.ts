/** The migration that gives chunks their keys, on a database that has chunks, with a node of before beside. */
import { randomUUID } from 'node:crypto'
import knexFactory from 'knex'
import { afterAll, expect, inject, test } from 'vitest'
import { knexConfig, migrate } from '../../src/store/postgres/migrate.ts'
import type { Answer } from '../support/clients/actors.ts'
import { urlOf, withClient } from '../support/database/database.ts'

const { url, run } = inject('postgres')
const name = `${run}_chunk_keys`
const databaseUrl = urlOf(url, name)
await withClient(url, (client) => client.query(`create database ${name}`))
afterAll(() => withClient(url, (client) => client.query(`drop database ${name} with (force)`)))

const sql = (text: string, values: unknown[] = []): Promise<Answer[]> =>
  withClient(databaseUrl, async (client) => (await client.query(text, values)).rows)

const id = randomUUID()
let seq = 0
const add = (columns = '', values = '') => {
  seq += 1
  return sql(
    `insert into artifacts (todo_id, artifact_id, seq, append, last_chunk, artifact${columns})
    values ($1, 'a', $2, true, false, '{"artifactId":"a","parts":[]}'${values})`,
    [id, seq],
  )
}
const addKeyed = (key: string) => add(', chunk_key', `, '${key}'`)

test('chunks of before and nodes of before have no keys, and a key is there once', async () => {
  const knex = knexFactory(knexConfig(databaseUrl))
  // All before it, whatever these are by then.
  const before = async () =>
    (await knex.migrate.list())[1].filter(({ name }: Answer) => name < '0015').length
  while ((await before()) > 0) await knex.migrate.up()
  await knex.destroy()
  await add()
  await add()
  const file = async () => (await sql(`select pg_relation_filenode('artifacts') as file`))[0].file
  const written = await file()

  await migrate(databaseUrl)
  expect(await file()).toBe(written)
  await add()
  await addKeyed('one')
  await addKeyed('two')
  await expect(addKeyed('one')).rejects.toMatchObject({ constraint: 'artifact_once' })
  expect(await sql('select chunk_key as key from artifacts order by seq')).toEqual([
    { key: null },
    { key: null },
    { key: null },
    { key: 'one' },
    { key: 'two' },
  ])
})

test('one that was broken off is gone on with', async () => {
  await sql(`delete from migrations where name = '0015_chunk_keys'`)
  await sql(`update pg_index set indisvalid = false where indexrelid = 'artifact_once'::regclass`)
  await migrate(databaseUrl)
  const [index] = await sql(
    `select indisvalid as valid from pg_index where indexrelid = 'artifact_once'::regclass`,
  )
  expect(index).toEqual({ valid: true })
})
