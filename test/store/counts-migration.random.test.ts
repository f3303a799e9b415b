/** The migration that brings the kept counts: on a database in use, by nodes of before. */
import { afterEach, expect, test } from 'vitest'
import { DEFAULT_POLICY } from '../../src/domain/policy.ts'
import { putQueue } from '../../src/store/admin/queues.ts'
import { type Database, openDatabase } from '../../src/store/postgres/database.ts'
import { migrate, pendingMigrations } from '../../src/store/postgres/migrate.ts'
import { sequenceEvents } from '../../src/store/todos/events.ts'
import { databaseWithout } from '../support/database/before-migration.ts'
import { runs } from '../support/tier.ts'
import { CLIENTS, createLife, type Life, QUEUES } from './life.ts'
import { expectLists } from './totals.ts'

const SEED = Number(process.env.RANDOM_SEED ?? Date.now() % 1_000_000)
const STEPS = runs(80, 200)
const LAST = '0012_todo_counts'

const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

interface Before {
  databaseUrl: string
  nodes: Database[]
  life: Life
}

/** A database without this migration, with a life behind it. */
const before = async (): Promise<Before> => {
  const { url: databaseUrl, drop } = await databaseWithout(LAST)
  ends.push(drop)
  const nodes = [1, 2].map(() => openDatabase({ connectionString: databaseUrl, poolSize: 6 }))
  ends.push(() => Promise.all(nodes.map((node) => node.close())))
  for (const queue of QUEUES) {
    const card = { name: queue, description: '', version: '1', skills: [] }
    await putQueue(nodes[0]!, {
      name: queue,
      card,
      policy: { ...DEFAULT_POLICY, retentionDays: 30 },
    })
  }
  const life = createLife(nodes, SEED)
  await life.during(life.write(0, STEPS), ['place'])
  // Some of it is not placed yet.
  await life.write(1, 50)
  const [unplaced] = await nodes[0]!.query<{ there: boolean }>(
    'select exists (select from events where position is null) as there',
    [],
  )
  expect(unplaced).toEqual({ there: true })
  return { databaseUrl, nodes, life }
}

test(`what was there is counted, with what nodes of before send, move, place and delete meanwhile and after (seed ${SEED})`, async () => {
  const { databaseUrl, nodes, life } = await before()
  const migrating = migrate(databaseUrl)
  const busy = life.during(migrating, ['place', 'forget'], () => life.write(2, 10))
  expect((await migrating).applied).toEqual([LAST])
  await busy
  expect(await expectLists(nodes[0]!, CLIENTS, QUEUES)).toBeGreaterThan(runs(5, 20))
  // No node counts as yet; then one does.
  await life.during(life.write(3, STEPS), ['place', 'forget'])
  await expectLists(nodes[0]!, CLIENTS, QUEUES)
  // Again, where nothing has been old enough to be deleted yet.
  for (let number = 4; number < 24 && (number === 4 || !life.happened.forget); number += 1) {
    await life.during(life.write(number, STEPS), ['place', 'count', 'forget'])
  }
  await expectLists(nodes[0]!, CLIENTS, QUEUES)
  expect(life.happened.forget).toBeGreaterThan(0)
})

test('one that was killed on its way is done again, and a count by hand puts all right', async () => {
  const { databaseUrl, nodes } = await before()
  const [database] = nodes as [Database]
  await migrate(databaseUrl)
  // As if it had not come to its end, and had begun to count.
  await database.query('delete from migrations where name = $1', [LAST])
  await database.query('update todo_counts set count = count + 1', [])
  expect(await pendingMigrations(databaseUrl)).toEqual([LAST])
  expect((await migrate(databaseUrl)).applied).toEqual([LAST])
  await expectLists(database, CLIENTS, QUEUES)

  await sequenceEvents(database, 1000)
  await database.query('delete from todo_counts', [])
  await expect(expectLists(database, CLIENTS, QUEUES)).rejects.toThrow()
  await database.query('select recount_todos()', [])
  await expectLists(database, CLIENTS, QUEUES)
  const index = `select x.indisvalid as valid from pg_index x
    where x.indexrelid = 'todos_not_done'::regclass`
  expect(await database.query(index, [])).toEqual([{ valid: true }])
})
