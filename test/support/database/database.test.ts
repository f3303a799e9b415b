import { afterAll, expect, test } from 'vitest'
import { pendingMigrations } from '../../../src/store/postgres/migrate.ts'
import { cloneDatabase, withClient } from './database.ts'

const clones = await Promise.all([cloneDatabase(), cloneDatabase(), cloneDatabase()])
afterAll(async () => {
  await Promise.all(clones.map(({ drop }) => drop()))
})

test('a clone has the migrated schema', async () => {
  expect(await pendingMigrations(clones[0].url)).toEqual([])
})

test('what is written to one clone is in no other', async () => {
  await withClient(clones[0].url, (client) => client.query('create table mine ()'))
  const { rows } = await withClient(clones[1].url, (client) =>
    client.query("select to_regclass('mine') as mine"),
  )
  expect(rows).toEqual([{ mine: null }])
})

test('a clone can be dropped under somebody who is still connected', async () => {
  const { url, drop } = clones[2]
  await withClient(url, async (client) => {
    await drop()
    await expect(client.query('select 1')).rejects.toThrow()
  })
  await expect(withClient(url, async () => {})).rejects.toThrow(/does not exist/)
})
