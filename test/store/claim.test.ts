import { expect, test } from 'vitest'
import { EVERYTHING } from '../../src/domain/endpoint.ts'
import { revokeEndpoint } from '../../src/store/admin/endpoints.ts'
import { readClaimed } from '../../src/store/move/claim.ts'
import { transitionDue, transitionOne, tryTransition } from '../../src/store/move/move.ts'
import { openDatabase, type Session } from '../../src/store/postgres/database.ts'
import { openStore } from '../support/database/store.ts'
import { addWorker } from '../support/database/worker-endpoint.ts'

const store = await openStore(16)
const { database, add } = store
const worker = await addWorker(database, ['q', 'busy', 'b', 'prio'])
const claim = async (queues: string[], limit: number, endpoint = worker) =>
  (await readClaimed(database, queues, limit, { endpoint, leaseSeconds: 300, claimant: 'test' }))
    .claimed

/** The lease of a holder that has worked has run out. */
const lapse = (id: string) =>
  database.query(
    `update todos set lease_expires_at = now(),
      last_heartbeat_at = last_heartbeat_at + interval '1 second' where id = $1`,
    [id],
  )

test('16 concurrent claimers on 10,000 todos: each is claimed exactly once and none is left', async () => {
  await store.queue('busy')
  await database.query(
    `insert into todos (id, queue, context_id, state, max_attempts, due_at)
    select gen_random_uuid(), 'busy', 'c', 'pending', 5, now() from generate_series(1, 10000)`,
    [],
  )
  const claimed: string[] = []
  const claimer = async (limit: number): Promise<void> => {
    for (;;) {
      const taken = await claim(['busy'], limit)
      if (taken.length === 0) return
      claimed.push(...taken.map(({ view }) => view.todo.id))
    }
  }
  await Promise.all(Array.from({ length: 16 }, (_, n) => claimer(1 + (n % 4) * 12)))
  // A claimer may see nothing while the last rows are locked by another: one more look.
  await claimer(100)
  expect(claimed.length).toBe(10_000)
  expect(new Set(claimed).size).toBe(10_000)
  const [row] = await database.query<{ todos: number; attempts: number }>(
    `select (select count(*)::int from todos where queue = 'busy' and state = 'claimed' and attempt = 1
      and fence = 1) as todos, (select count(*)::int from attempts where ended_at is null) as attempts`,
    [],
  )
  expect(row).toEqual({ todos: 10_000, attempts: 10_000 })
})

test('todos are claimed by priority, then by due time', async () => {
  await store.queue('prio')
  const late = await add({ queue: 'prio', priority: 2 })
  const second = await add({ queue: 'prio' })
  const first = await add({ queue: 'prio', priority: 0 })
  const third = await add({ queue: 'prio' })
  await database.query(`update todos set due_at = now() - interval '1 hour' where id = $1`, [third])
  const order = (await claim(['prio'], 10)).map(({ view }) => view.todo.id)
  expect(order).toHaveLength(4)
  expect(new Set(order)).toEqual(new Set([first, third, second, late]))
  const [one, two] = [
    await add({ queue: 'prio', priority: 2 }),
    await add({ queue: 'prio', priority: 0 }),
  ]
  expect((await claim(['prio'], 1))[0]?.view.todo.id).toBe(two)
  expect((await claim(['prio'], 1))[0]?.view.todo.id).toBe(one)
})

test('a queue full of work that nobody may take yet does not hold up another', async () => {
  await store.queue('b')
  await database.query(
    `insert into todos (id, queue, context_id, state, max_attempts, due_at)
    select gen_random_uuid(), 'q', 'c', 'pending', 5, now() + interval '1 day' from generate_series(1, 2000)`,
    [],
  )
  const id = await add({ queue: 'b' })
  expect((await claim(['q', 'b'], 1))[0]?.view.todo.id).toBe(id)
  await database.query(`delete from todos where queue = 'q'`, [])
})

test('a lapsed lease is taken over by the next claim, which learns that the holder died', async () => {
  const id = await add()
  const [first] = await claim(['q'], 1)
  expect(await claim(['q'], 1)).toEqual([])
  await lapse(id)
  const [second] = await claim(['q'], 1)
  expect(second?.view.todo).toMatchObject({ id, fence: '2', attempt: 2 })
  expect(second?.tookOver).toBe(true)
  expect(second?.priorAttempts).toMatchObject([
    { seq: 1, outcome: 'lease_expired', disposition: 'requeued', died: true },
  ])
  expect(first?.view.todo.fence).toBe('1')
})

test('8 takeovers of one lapsed row at once: one wins, one attempt is closed, one is open', async () => {
  const id = await add()
  await claim(['q'], 1)
  await database.query('update todos set lease_expires_at = now() where id = $1', [id])
  const taken = (await Promise.all(Array.from({ length: 8 }, () => claim(['q'], 1)))).flat()
  expect(taken.map(({ view }) => view.todo.id)).toEqual([id])
  const attempts = await database.query<{ outcome: string | null }>(
    'select outcome from attempts where todo_id = $1 order by seq',
    [id],
  )
  expect(attempts.map(({ outcome }) => outcome)).toEqual(['lease_expired', null])
})

test('a holder whose lease has lapsed can no longer write, before and after somebody else claims', async () => {
  const id = await add()
  const [taken] = await claim(['q'], 1)
  const held = { endpoint: worker, fence: taken!.view.todo.fence }
  await database.query('update todos set lease_expires_at = now() where id = $1', [id])
  for (const verb of ['heartbeat', 'say', 'complete', 'fail', 'release', 'reject'] as const) {
    await expect(transitionOne(database, verb, id, held, EVERYTHING)).rejects.toMatchObject({
      kind: 'stale_fence',
    })
  }
  await claim(['q'], 1)
  await expect(transitionOne(database, 'complete', id, held, EVERYTHING)).rejects.toMatchObject({
    kind: 'stale_fence',
  })
})

/** Completes a todo whose question is answered after the statement moved nothing, before the look says why. */
const completeMeanwhile = async (through: number) => {
  const id = await add()
  const [taken] = await claim(['q'], 1)
  const held = { endpoint: worker, fence: taken!.view.todo.fence }
  const message = { messageId: 'm', role: 'ROLE_USER' as const, parts: [{ text: 'x' }] }
  await transitionOne(database, 'interrupt', id, { ...held, asked: 'input-required' }, EVERYTHING)
  const answering: Session = {
    ...database,
    run: async (statement, values) => {
      if (statement.name.startsWith('todo_standing')) {
        expect(await tryTransition(database, 'resume', id, { message })).not.toBeNull()
      }
      return database.run(statement, values)
    },
  }
  const completed = transitionOne(answering, 'complete', id, { ...held, through }, EVERYTHING)
  return completed.finally(() => tryTransition(database, 'cancel', id, {}))
}

test('a completion that the row allows by the time of the look at what was in its way goes through', async () => {
  expect(await completeMeanwhile(4)).toMatchObject({ todo: { state: 'done', unread: 0 } })
})

test('a completion that does not acknowledge what came meanwhile is refused for unread messages', async () => {
  await expect(completeMeanwhile(3)).rejects.toMatchObject({ kind: 'unread_messages' })
})

test('a lapsed lease at the attempt cap is not claimed again: the reaper ends it', async () => {
  const id = await add({ maxAttempts: 1 })
  await claim(['q'], 1)
  await lapse(id)
  expect(await claim(['q'], 10)).toEqual([])
  const moved = await transitionDue(database, 'reapLease', { limit: 10 })
  expect(moved.map(({ todo }) => [todo.id, todo.state])).toEqual([[id, 'failed']])
  const [row] = await database.query<{ result: unknown }>(
    'select result from details where todo_id = $1',
    [id],
  )
  expect(row?.result).toMatchObject({ error: 'lease_expired' })
})

test('an endpoint revoked this instant claims nothing', async () => {
  await add()
  const gone = await addWorker(database, ['q'])
  await revokeEndpoint(database, gone)
  expect(await claim(['q'], 1, gone)).toEqual([])
  expect(await claim(['q'], 1)).toHaveLength(1)
})

test('a cancel that waited for a claim to commit closes the attempt that claim opened', async () => {
  // The cancel's statement began before the attempt was there to be seen.
  for (let round = 0; round < 30; round += 1) {
    const id = await add()
    await Promise.all([claim(['q'], 1), tryTransition(database, 'cancel', id, {})])
    const [row] = await database.query<{ state: string; open: number }>(
      `select state, (select count(*)::int from attempts a where a.todo_id = t.id
        and a.ended_at is null) as open from todos t where id = $1`,
      [id],
    )
    expect(row).toEqual({ state: 'canceled', open: 0 })
  }
})

test('a statement that saw too little because it waited for a lock runs again with fresh eyes', async () => {
  const id = await add()
  const other = openDatabase({ connectionString: store.url, poolSize: 1 })
  try {
    let canceled: Promise<unknown> = Promise.resolve()
    await other.transaction(async (session) => {
      await readClaimed(session, ['q'], 1, { endpoint: worker, leaseSeconds: 300, claimant: 'x' })
      canceled = tryTransition(database, 'cancel', id, {})
      for (let waits = false; !waits; ) {
        const [row] = await session.query<{ waits: boolean }>(
          `select exists (select from pg_stat_activity where wait_event_type = 'Lock'
            and datname = current_database() and query like '%todos%') as waits`,
          [],
        )
        waits = row?.waits ?? false
      }
    })
    await canceled
  } finally {
    await other.close()
  }
  const attempts = await database.query('select outcome from attempts where todo_id = $1', [id])
  expect(attempts).toEqual([{ outcome: 'canceled' }])
})
