/** A node in a program of its own, on a database that has no schema yet. */
import { afterAll, expect, test } from 'vitest'
import { createSwitchboard, MigrationsMissing } from '../src/index.ts'
import { testConfig } from './support/app.ts'
import { emptyDatabase } from './support/database/database.ts'

const database = await emptyDatabase()
afterAll(database.drop)
const options = { config: testConfig(), databaseUrl: database.url }

test('it refuses to start, and says how to migrate', async () => {
  const node = createSwitchboard(options)
  const refused = await node.start().catch((error: unknown) => error)
  await node.stop()
  expect(refused).toBeInstanceOf(MigrationsMissing)
  expect((refused as MigrationsMissing).missing).toContain('0001_schema')
  expect((refused as Error).message).toMatch(/switchboard migrate.*migrate\(\).*migrate: true/)
})

test('with migrate it brings the schema up to date, and without it starts from then on', async () => {
  for (const migrate of [true, false]) {
    const node = createSwitchboard({ ...options, migrate })
    const { url } = await node.start()
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    await node.stop()
  }
})
