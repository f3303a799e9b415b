// What a heartbeat costs, and that what it spares hides no lease that has lapsed.
import { expect, test } from 'vitest'
import { transitionDue, tryTransition } from '../../src/store/move/move.ts'
import { openStore } from '../support/database/store.ts'

const { database, add } = await openStore(2)
const ENDPOINT = '00000000-0000-4000-8000-000000000001'
await database.query(
  `insert into endpoints (id, name, token_sha256, queues, verbs)
  values ($1, 'e', sha256('x'), '{q}', '{work}')`,
  [ENDPOINT],
)

const claimed = async (leaseSeconds = 300): Promise<string> => {
  const id = await add()
  await database.query(
    `update todos set state = 'claimed', due_at = null, owner = $2, fence = 1, attempt = 1,
      attempts_total = 1, lease_seconds = $3::int, lease_expires_at = lease_until($3::int) where id = $1`,
    [id, ENDPOINT, leaseSeconds],
  )
  await database.query(
    `insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at) values ($1, 1, 1, $2, now())`,
    [id, ENDPOINT],
  )
  return id
}

/** Beats once, and says whether the row was all that had to be written. */
const beat = (
  id: string,
  leaseSeconds?: number,
  verb: 'heartbeat' | 'hold' = 'heartbeat',
): Promise<boolean> =>
  database.transaction(async (session) => {
    const wait = { holdSeconds: 300, maxWaitSeconds: 604_800 }
    const change = {
      endpoint: ENDPOINT,
      fence: '1',
      ...(leaseSeconds && { leaseSeconds }),
      ...wait,
    }
    const counts = async () => {
      const [row] = await session.query<{ all: number; hot: number }>(
        `select n_tup_upd::int as all, n_tup_hot_upd::int as hot from pg_stat_xact_user_tables
        where relname = 'todos'`,
        [],
      )
      return row!
    }
    const before = await counts()
    expect(await tryTransition(session, verb, id, change)).not.toBeNull()
    const { all, hot } = await counts()
    expect(all - before.all).toBe(1)
    return hot > before.hot
  })

/** As if so much time had gone by. */
const pass = (id: string, seconds: number): Promise<unknown> =>
  database.query(
    `update todos set lease_expires_at = lease_expires_at - make_interval(secs => $2),
      lease_probe_at = lease_probe_at - make_interval(secs => $2),
      wait_probe_at = wait_probe_at - make_interval(secs => $2),
      interrupt_held_until = interrupt_held_until - make_interval(secs => $2) where id = $1`,
    [id, seconds],
  )

const leaseOf = async (id: string) =>
  (
    await database.query<{ ends: number; probe: number }>(
      `select extract(epoch from lease_expires_at - now())::float8 as ends,
        extract(epoch from lease_probe_at - now())::float8 as probe from todos where id = $1`,
      [id],
    )
  )[0]!

test('beating each third of its lease, every other heartbeat touches no index, and no probe comes due', async () => {
  const id = await claimed()
  const spared: boolean[] = []
  for (let n = 0; n < 8; n += 1) {
    await pass(id, 100)
    const { ends, probe } = await leaseOf(id)
    expect(probe).toBeGreaterThan(0)
    expect(probe).toBeLessThanOrEqual(ends)
    spared.push(await beat(id))
    expect((await leaseOf(id)).ends).toBeGreaterThan(299)
  }
  expect(spared.filter(Boolean)).toHaveLength(4)
})

test('beating often, nearly none touches an index', async () => {
  const id = await claimed()
  let spared = 0
  for (let n = 0; n < 20; n += 1) {
    await pass(id, 10)
    if (await beat(id)) spared += 1
  }
  expect(spared).toBeGreaterThanOrEqual(18)
})

test('nor do those of a holder that waits, and it is parked when they stop, not a moment before', async () => {
  const id = await claimed()
  await database.query(
    `update todos set state = 'input-required', interrupted_at = now() where id = $1`,
    [id],
  )
  let spared = 0
  for (let n = 0; n < 20; n += 1) {
    await pass(id, 10)
    if (await beat(id, undefined, 'hold')) spared += 1
  }
  // An update that finds its page full is not hot either.
  expect(spared).toBeGreaterThanOrEqual(15)
  await pass(id, 290)
  expect(await transitionDue(database, 'park', { limit: 10 })).toEqual([])
  await pass(id, 11)
  const parked = await transitionDue(database, 'park', { limit: 10 })
  expect(parked.map(({ todo }) => todo.id)).toEqual([id])
})

test('a lease that lapses after heartbeats that moved no probe is taken back, not a moment before', async () => {
  const id = await claimed()
  await pass(id, 100)
  expect(await beat(id)).toBe(true)
  // Its probe is over, its lease is not.
  await pass(id, 250)
  expect(await leaseOf(id)).toMatchObject({
    probe: expect.closeTo(-50, -1),
    ends: expect.closeTo(50, -1),
  })
  expect(await transitionDue(database, 'reapLease', { limit: 10 })).toEqual([])
  expect(await beat(id)).toBe(false)
  expect((await leaseOf(id)).probe).toBeGreaterThan(299)
  await pass(id, 301)
  const reaped = await transitionDue(database, 'reapLease', { limit: 10 })
  expect(reaped.map(({ todo }) => todo.id)).toEqual([id])
  const [row] = await database.query('select lease_probe_at from todos where id = $1', [id])
  expect(row).toEqual({ lease_probe_at: null })
})

test('a heartbeat that asks for a shorter lease brings the probe forward', async () => {
  const id = await claimed(3600)
  expect(await beat(id, 60)).toBe(false)
  const { ends, probe } = await leaseOf(id)
  expect(ends).toBeLessThanOrEqual(60)
  expect(probe).toBeLessThanOrEqual(ends)
})

test('however a lease is shortened, the probe goes before its end', async () => {
  const id = await claimed(3600)
  await database.query(`update todos set lease_expires_at = now() - interval '1 s' where id = $1`, [
    id,
  ])
  const reaped = await transitionDue(database, 'reapLease', { limit: 10 })
  expect(reaped.map(({ todo }) => todo.id)).toEqual([id])
})
