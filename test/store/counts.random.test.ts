/**
 * The kept counts under everything that can happen to todos at once: all verbs, on several nodes
 * that place, count and delete against one another. What is drawn depends on the seed, what it
 * meets on the moment: RANDOM_SEED repeats the former.
 */
import { afterAll, expect, test } from 'vitest'
import { forgetTodos } from '../../src/store/admin/retention.ts'
import { tryTransition } from '../../src/store/move/move.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { countTodos } from '../../src/store/todos/counts.ts'
import { sequenceEvents } from '../../src/store/todos/events.ts'
import { keepFor } from '../retention/aged.ts'
import { openStore } from '../support/database/store.ts'
import { runs } from '../support/tier.ts'
import { CLIENTS, createLife, QUEUES, USUAL } from './life.ts'
import { expectLists, expectTotals } from './totals.ts'

/** Rounds of writing at most, for something rare to come about. */
const ROUNDS = 20

const SEED = Number(process.env.RANDOM_SEED ?? Date.now() % 1_000_000)

const store = await openStore(10)
const { database } = store
const other = openDatabase({ connectionString: store.url, poolSize: 10 })
afterAll(() => other.close())
for (const queue of QUEUES) {
  await store.queue(queue)
  await keepFor(database, queue, 30)
}

const countAll = async (): Promise<void> => {
  while ((await sequenceEvents(database, 1000))?.length !== 0);
  while ((await countTodos(database, 1000)) !== 0);
}

test('a total is right when events are not placed, placed, and counted, and what is left to add is nothing then', async () => {
  const there = async () => {
    await expectTotals(database)
    const rows = await database.query<{ state: string; count: number }>(
      'select state, sum(count)::int as count from todo_totals group by 1 having sum(count) <> 0',
      [],
    )
    return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
  }
  const ids = [await store.add(), await store.add()]
  expect(await there()).toEqual({ pending: 2 })
  expect((await sequenceEvents(database, 1000))?.length).toBe(2)
  expect(await there()).toEqual({ pending: 2 })
  expect(await countTodos(database, 1)).toBe(1)
  expect(await there()).toEqual({ pending: 2 })
  expect(await tryTransition(database, 'cancel', ids[0]!, {})).not.toBeNull()
  expect(await there()).toEqual({ pending: 1, canceled: 1 })
  await countAll()
  expect(await there()).toEqual({ pending: 1, canceled: 1 })
  expect(await database.query('select * from todo_moves', [])).toEqual([])
})

test('what is deleted before any node has counted it leaves nothing behind, also where no node counts', async () => {
  await countAll()
  const counts = 'select * from todo_counts where count <> 0 order by 1, 2, 3, 4'
  const kept = await database.query(counts, [])
  const id = await store.add()
  await tryTransition(database, 'cancel', id, {})
  while ((await sequenceEvents(database, 1000))?.length !== 0);
  await database.query(`update todos set finished_at = now() - interval '40 days' where id = $1`, [
    id,
  ])
  expect((await forgetTodos(database, 'q', null)).deleted).toBe(1)
  await expectTotals(database)
  expect(await database.query(counts, [])).toEqual(kept)
  expect(await database.query('select * from todo_moves', [])).toEqual([])
})

test(`on nodes that place, count and delete at once every total is that of the rows at every moment (seed ${SEED})`, async () => {
  const nodes = [database, other] as const
  const life = createLife(nodes, SEED)
  const wanted = ['place', 'count', 'forget', 'looked', 'plain', 'many', 'refused', 'child']
  const { happened } = life
  const missing = () => [...wanted, ...USUAL, 'cancel'].filter((what) => !happened[what])
  /** Four writers at once, again until all of it has come about: what they meet is up to the moment. */
  const write = async (): Promise<void> => {
    for (let round = 0; round < ROUNDS && (round === 0 || missing().length > 0); round += 1) {
      const numbers = [0, 1, 2, 3].map((writer) => 4 * round + writer)
      await Promise.all(numbers.map((number) => life.write(number, runs(100, 300))))
    }
  }
  await life.during(
    write(),
    ['place', 'count', 'forget'],
    () => expectTotals(database),
    async () => (await expectLists(other, CLIENTS, QUEUES, () => Math.random() < 0.1)) > 20,
  )
  await expectLists(database, CLIENTS, QUEUES)
  expect(missing()).toEqual([])

  // And what is kept is all there is, once nothing is left to be added.
  await countAll()
  expect(await database.query('select * from todo_moves', [])).toEqual([])
  expect(await database.query('select * from todo_counts where count < 0', [])).toEqual([])
  await expectTotals(database)
})
