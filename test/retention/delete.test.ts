// Below the services: what goes, what stays, and how much at once.
// Field case: retention.
import { afterEach, expect, test } from 'vitest'
import { BATCH, clearRemains, forgetTodos, type Position } from '../../src/store/admin/retention.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { withClient } from '../support/database/database.ts'
import { openStore } from '../support/database/store.ts'
import { keepFor, makeAged, rowsOf, TABLES } from './aged.ts'

const store = await openStore(8)
const { database, add } = store
const sql = database.query

afterEach(async () => {
  await keepFor(database, 'q', null)
  await sql(`truncate todos, remains, feed_horizons, ${TABLES.join(', ')}`, [])
})

/** To the end of the queue; how many each statement deleted. */
const forgetAll = async (of = database, queue = 'q'): Promise<number[]> => {
  const counts: number[] = []
  let place: Position | null = null
  do {
    const { deleted, next } = await forgetTodos(of, queue, place)
    counts.push(deleted)
    place = next
  } while (place)
  return counts
}

const sum = (counts: readonly number[]): number => counts.reduce((all, one) => all + one, 0)

test('what ended before the retention goes with everything that hangs on it; all else stays', async () => {
  const old = await makeAged(sql, { count: 1200 })
  const young = await makeAged(sql, { count: 30, days: 20 })
  await store.queue('other')
  const others = await makeAged(sql, { count: 10, queue: 'other' })
  const open = [await add(), await add()]
  await sql(
    `update todos set created_at = now() - interval '1 year',
    status_at = now() - interval '1 year' where id = any($1::uuid[])`,
    [open],
  )
  const before = await rowsOf(sql, [...young, ...others, ...open])
  await keepFor(database, 'q', 30)
  const counts = await forgetAll()
  expect(sum(counts)).toBe(1200)
  expect(Math.max(...counts)).toBeLessThanOrEqual(BATCH.todos)
  expect(await rowsOf(sql, old)).toEqual({})
  expect(await rowsOf(sql, [...young, ...others, ...open])).toEqual(before)
})

test.each([null, 0])('with a retention of %s nothing goes, however old', async (days) => {
  const old = await makeAged(sql, { count: 20, days: 4000 })
  await keepFor(database, 'q', days)
  expect(await forgetAll()).toEqual([0])
  expect((await rowsOf(sql, old)).todos).toBe(20)
})

test('a retention that is changed holds for what is there; of a queue that is gone all stays', async () => {
  const old = await makeAged(sql, { count: 5, days: 40 })
  await keepFor(database, 'q', 50)
  expect(await forgetAll()).toEqual([0])
  await keepFor(database, 'q', 36_500)
  expect(await forgetAll()).toEqual([0])
  await keepFor(database, 'q', 39)
  expect(await forgetAll()).toEqual([5])
  expect(await rowsOf(sql, old)).toEqual({})
  const lost = await makeAged(sql, { queue: 'removed', days: 4000 })
  expect(await forgetAll(database, 'removed')).toEqual([0])
  expect((await rowsOf(sql, lost)).todos).toBe(1)
})

test('no row has ended without the moment of it: the database refuses one', async () => {
  await makeAged(sql)
  await expect(sql('update todos set finished_at = null', [])).rejects.toMatchObject({
    constraint: 'finished_means_finished_at',
  })
})

test('a child stays while its parent lives, and goes once that has ended', async () => {
  const parent = await add()
  const [child, other] = await makeAged(sql, { count: 2 })
  await sql('update todos set parent_id = $1 where id = $2', [parent, child])
  await keepFor(database, 'q', 30)
  expect(await forgetAll()).toEqual([1])
  expect(await rowsOf(sql, [other!])).toEqual({})
  expect(Object.keys(await rowsOf(sql, [child!]))).toHaveLength(TABLES.length + 1)
  await sql(`update todos set state = 'done', due_at = null, finished_at = now() where id = $1`, [
    parent,
  ])
  expect(await forgetAll()).toEqual([1])
  expect(await rowsOf(sql, [child!])).toEqual({})
  expect((await rowsOf(sql, [parent])).todos).toBe(1)
})

test('a child of a parent that is gone already goes', async () => {
  const [child] = await makeAged(sql)
  await sql('update todos set parent_id = gen_random_uuid() where id = $1', [child])
  await keepFor(database, 'q', 30)
  expect(await forgetAll()).toEqual([1])
})

test('of a chain of retries the dead one goes first: nothing can be retried twice', async () => {
  const [dead, again] = await makeAged(sql, { count: 2 })
  await sql('update todos set retry_of = $1 where id = $2', [dead, again])
  // Somebody has the dead one in hand at the moment.
  await withClient(store.url, async (client) => {
    await client.query('begin')
    await client.query('select from todos where id = $1 for update', [dead])
    await keepFor(database, 'q', 30)
    expect(await forgetAll()).toEqual([0])
    await client.query('rollback')
  })
  expect(await forgetAll()).toEqual([1])
  expect((await rowsOf(sql, [again!])).todos).toBe(1)
  expect(await forgetAll()).toEqual([1])
})

test('a canceled parent whose cascade was cut short stays until its children have ended', async () => {
  const [parent] = await makeAged(sql)
  await sql(`update todos set state = 'canceled' where id = $1`, [parent])
  const child = await add()
  await sql('update todos set parent_id = $1 where id = $2', [parent, child])
  await keepFor(database, 'q', 30)
  expect(await forgetAll()).toEqual([0])
  await sql(
    `update todos set state = 'canceled', due_at = null, finished_at = now() where id = $1`,
    [child],
  )
  expect(await forgetAll()).toEqual([1])
})

test('what a webhook is still owed, or the feed has not told, stays', async () => {
  const [hooked, untold] = await makeAged(sql, { count: 2 })
  await sql(`update push_configs set owed = 1, due_at = now() where todo_id = $1`, [hooked])
  await sql('update events set position = null where todo_id = $1 and seq = 2', [untold])
  await keepFor(database, 'q', 30)
  expect(await forgetAll()).toEqual([0])
  await sql('update push_configs set owed = 0, due_at = null where todo_id = $1', [hooked])
  await sql(`update events set position = nextval('feed_position') where position is null`, [])
  expect(await forgetAll()).toEqual([2])
})

test('many that may not go do not stand before those that may', async () => {
  const kept = await makeAged(sql, { count: BATCH.todos * 2 + 10, days: 60 })
  const parent = await add()
  await sql('update todos set parent_id = $1 where id = any($2::uuid[])', [parent, kept])
  const old = await makeAged(sql, { count: 7 })
  // All of one moment: the walk goes on within it.
  await sql(
    `update todos set finished_at = now() - interval '60 days' where id = any($1::uuid[])`,
    [kept],
  )
  await keepFor(database, 'q', 30)
  expect(sum(await forgetAll())).toBe(7)
  expect(await rowsOf(sql, old)).toEqual({})
  expect((await rowsOf(sql, kept)).todos).toBe(kept.length)
})

test('several nodes share the work: each todo goes once, and all go', async () => {
  const old = await makeAged(sql, { count: 4000 })
  await keepFor(database, 'q', 30)
  const nodes = Array.from({ length: 3 }, () =>
    openDatabase({ connectionString: store.url, poolSize: 2 }),
  )
  try {
    let deleted = 0
    while (deleted < 4000) {
      const rounds = await Promise.all(nodes.map((node) => forgetAll(node)))
      const more = sum(rounds.flat())
      deleted += more
      expect(more).toBeGreaterThan(0)
    }
    expect(deleted).toBe(4000)
    expect(await rowsOf(sql, old)).toEqual({})
  } finally {
    await Promise.all(nodes.map((node) => node.close()))
  }
})

test('of a todo with more events than a statement deletes nothing is to be found at once, and all of it goes', async () => {
  const events = BATCH.events * 2 + 17
  const [large] = await makeAged(sql, { events })
  const small = await makeAged(sql, { count: 3, days: 35 })
  await keepFor(database, 'q', 30)
  const { deleted, next } = await forgetTodos(database, 'q', null)
  expect(deleted).toBe(1)
  expect(next).not.toBeNull()
  const left = await rowsOf(sql, [large!])
  expect(left.todos).toBeUndefined()
  for (const count of Object.values(left)) expect(count).toBe(events - BATCH.events)
  expect(sum(await forgetAll())).toBe(3)
  expect(await clearRemains(database)).toBe(true)
  expect((await rowsOf(sql, [large!])).events).toBe(17)
  expect(await clearRemains(database)).toBe(true)
  expect(await rowsOf(sql, [large!, ...small])).toEqual({})
  expect(await clearRemains(database)).toBe(false)
  const [row] = await sql<{ position: string; last: string }>(
    `select position, (select last_value from feed_position) as last from feed_horizons where queue = 'q'`,
    [],
  )
  expect(Number(row!.position)).toBeLessThanOrEqual(Number(row!.last))
  expect(Number(row!.position)).toBeGreaterThan(events * 2)
})

test('a new todo under the id of a large one that is on its way out loses nothing', async () => {
  const [id] = await makeAged(sql, { events: BATCH.events + 10 })
  await keepFor(database, 'q', 30)
  await forgetTodos(database, 'q', null)
  const again = await add()
  for (const [table, column] of [
    ['todos', 'id'],
    ['events', 'todo_id'],
    ['messages', 'todo_id'],
  ]) {
    await sql(`update ${table} set ${column} = $1 where ${column} = $2`, [id, again])
  }
  while (await clearRemains(database));
  expect(await rowsOf(sql, [id!])).toEqual({ todos: 1, events: 1, messages: 1 })
})
