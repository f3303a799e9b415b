/** The migration that brings the installation's keys: on a database in use, beside nodes of before. */
import { expect, test } from 'vitest'
import { readInstallationKey } from '../../src/store/admin/installation-keys.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { databaseBefore, migrateBy } from '../support/database/before-migration.ts'
import { withClient } from '../support/database/database.ts'

const LAST = '0013_installation_keys'

test('it adds a table and touches nothing else; nodes that begin together agree on a key', async () => {
  const { url, drop } = await databaseBefore(LAST)
  try {
    const rowsOf = () =>
      withClient(url, async (client) => (await client.query('select * from todos')).rows)
    await withClient(url, async (client) => {
      await client.query(
        `insert into queues (name, card, policy) values ('q', '{"name":"q"}', '{}')`,
      )
      await client.query(
        `insert into todos (id, queue, context_id, max_attempts, due_at)
        values (gen_random_uuid(), 'q', 'c', 5, now())`,
      )
    })
    const before = await rowsOf()
    // A transaction of a node of before is open all the while.
    await withClient(url, async (client) => {
      await client.query('begin')
      await client.query(`update todos set updated_at = updated_at`)
      await migrateBy(url, LAST)
      await client.query('commit')
    })
    expect(await rowsOf()).toEqual(before)
    expect((await migrate(url)).applied).not.toContain(LAST)
    const nodes = Array.from({ length: 4 }, () =>
      openDatabase({ connectionString: url, poolSize: 2 }),
    )
    try {
      const keys = await Promise.all(
        [...nodes, ...nodes].map((node) => readInstallationKey(node, 'one')),
      )
      expect(new Set(keys.map((key) => key.toString('hex'))).size).toBe(1)
      expect(keys[0]).toHaveLength(32)
      const two = await readInstallationKey(nodes[0]!, 'two')
      expect(two.equals(keys[0]!)).toBe(false)
    } finally {
      await Promise.all(nodes.map((node) => node.close()))
    }
  } finally {
    await drop()
  }
})
