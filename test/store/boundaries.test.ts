/**
 * Every moment that a todo waits for, to the microsecond: what waits for it happens at that moment, and
 * not a microsecond before. In a transaction the database's clock stands still, so a row can be put on
 * the very edge.
 * Field case: nothing a moment too early.
 */
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { rule, VERB_NAMES } from '../../src/domain/lifecycle.ts'
import type { Change } from '../../src/store/move/change.ts'
import { readClaimed } from '../../src/store/move/claim.ts'
import { freeInQueue } from '../../src/store/move/concurrency.ts'
import { transitionDue, tryTransition } from '../../src/store/move/move.ts'
import type { SweepVerb } from '../../src/store/move/verbs.ts'
import type { Session } from '../../src/store/postgres/database.ts'
import { leaseDeliveries } from '../../src/store/push/deliveries.ts'
import { openStore } from '../support/database/store.ts'
import { addWorker } from '../support/database/worker-endpoint.ts'

const { database } = await openStore(2)
const holder = await addWorker(database, [])
const other = await addWorker(database, [])

interface Todo {
  id: string
  queue: string
}

const COLUMNS = {
  pending: { due_at: 'now()' },
  claimed: {
    owner: `'${holder}'`,
    lease_expires_at: `now() + interval '1 hour'`,
    lease_probe_at: `now() + interval '1 hour'`,
    progress_at: 'now()',
    started_at: 'now()',
  },
  'input-required': { owner: `'${holder}'`, interrupted_at: 'now()' },
  failed: { due_at: 'null' },
} as const

const put = async (
  session: Session,
  state: keyof typeof COLUMNS,
  columns: Record<string, string>,
): Promise<Todo> => {
  const [id, queue] = [randomUUID(), randomUUID()]
  const open = state === 'claimed' || state === 'input-required'
  const all = {
    id: `'${id}'`,
    queue: `'${queue}'`,
    context_id: `'c'`,
    state: `'${state}'`,
    attempt: open ? '1' : '0',
    attempts_total: open ? '1' : '0',
    fence: '1',
    max_attempts: '5',
    lease_seconds: '300',
    seq: '2',
    status_seq: '2',
    ...COLUMNS[state],
    ...columns,
  }
  await session.query(
    `insert into todos (${Object.keys(all).join(', ')}) values (${Object.values(all).join(', ')})`,
    [],
  )
  if (open) {
    await session.query(
      `insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at)
      values ($1, 1, 1, $2, now() - interval '1 day')`,
      [id, holder],
    )
  }
  return { id, queue }
}

type Acts = (session: Session, todo: Todo) => Promise<boolean>

const claims: Acts = async (session, { queue }) => {
  const change = { endpoint: other, leaseSeconds: 300, claimant: 'x' }
  return (await readClaimed(session, [queue], 1, change)).claimed.length === 1
}

const sweeps =
  (verb: SweepVerb, change: Change = {}): Acts =>
  async (session, { id }) =>
    (await transitionDue(session, verb, { limit: 1000 }, change)).some(({ todo }) => todo.id === id)

const EDGE = { now: 'now()', later: `now() + interval '1 microsecond'` }
/** The newest millisecond that has passed, and the next. */
const MS_EDGE = {
  now: `date_trunc('milliseconds', now())`,
  later: `date_trunc('milliseconds', now()) + interval '1 millisecond'`,
}

const ago = (at: string, seconds: number): string => `${at} - interval '${seconds} seconds'`

/** A holder that heartbeated during its wait, and of whom nothing has come since. */
const STOPPED = {
  lease_expires_at: ago('now()', 1),
  wait_probe_at: ago('now()', 1),
}
/** A parent of a child that is not there holds at once; the sweep tells it all the same. */
const JOINING = {
  due_at: 'null',
  join_until: `'all'`,
  join_ids: `array[gen_random_uuid()]`,
}

/** A todo in `state` whose `columns` meet the moment `at`, and what happens from then on. */
interface Clock {
  state: keyof typeof COLUMNS
  columns: (at: string) => Record<string, string>
  acts: Acts
  /** What its column keeps; a microsecond where nothing is said. */
  keeps?: 'milliseconds'
}

const TTL = 3600

const CLOCKS: Record<string, Clock> = {
  'a todo that is due': { state: 'pending', columns: (at) => ({ due_at: at }), acts: claims },
  'a retry that is due': {
    state: 'failed',
    columns: (at) => ({ next_retry_at: at }),
    acts: claims,
  },
  'a lease that another takes over': {
    state: 'claimed',
    columns: (at) => ({ lease_expires_at: at, lease_probe_at: at }),
    acts: claims,
  },
  'a lease with an older probe, taken over': {
    state: 'claimed',
    columns: (at) => ({ lease_expires_at: at, lease_probe_at: ago(at, 60) }),
    acts: claims,
  },
  'a lease that the reaper ends': {
    state: 'claimed',
    columns: (at) => ({ lease_expires_at: at, lease_probe_at: at }),
    acts: sweeps('reapLease'),
  },
  'a lease with an older probe, reaped': {
    state: 'claimed',
    columns: (at) => ({ lease_expires_at: at, lease_probe_at: ago(at, 60) }),
    acts: sweeps('reapLease'),
  },
  'a question that nobody answers': {
    state: 'input-required',
    columns: (at) => ({ interrupted_at: ago(at, TTL) }),
    acts: sweeps('reapInterrupt', { ttlSeconds: TTL }),
  },
  'a question whose holder asked for longer': {
    state: 'input-required',
    columns: (at) => ({ interrupted_at: ago('now()', 2 * TTL), interrupt_held_until: at }),
    acts: sweeps('reapInterrupt', { ttlSeconds: TTL }),
  },
  'the heartbeat of the work': {
    state: 'claimed',
    keeps: 'milliseconds',
    columns: (at) => ({ progress_at: ago(at, 60), heartbeat_seconds: '60', alarm_at: 'now()' }),
    acts: sweeps('timeOut'),
  },
  'the length of an attempt': {
    state: 'claimed',
    columns: (at) => ({ started_at: ago(at, 60), start_to_close_seconds: '60', alarm_at: 'now()' }),
    acts: sweeps('timeOut'),
  },
  'the alarm of an attempt': {
    state: 'claimed',
    columns: (at) => ({
      started_at: ago('now()', 90),
      start_to_close_seconds: '60',
      alarm_at: at,
    }),
    acts: sweeps('timeOut'),
  },
  'the time until a todo is claimed': {
    state: 'pending',
    columns: (at) => ({ due_at: ago(at, 60), schedule_to_start_seconds: '60', alarm_at: 'now()' }),
    acts: sweeps('expire'),
  },
  'the time of the whole todo': {
    state: 'pending',
    columns: (at) => ({ close_at: at, alarm_at: 'now()' }),
    acts: sweeps('expire'),
  },
  'the alarm of the whole todo': {
    state: 'pending',
    columns: (at) => ({ close_at: ago('now()', 1), alarm_at: at }),
    acts: sweeps('expire'),
  },
  'the wait of a holder that has stopped': {
    state: 'input-required',
    columns: (at) => ({ interrupt_held_until: at, ...STOPPED }),
    acts: sweeps('park'),
  },
  'the lease of a holder that has stopped during its wait': {
    state: 'input-required',
    columns: (at) => ({
      interrupt_held_until: ago('now()', 1),
      ...STOPPED,
      lease_expires_at: at,
    }),
    acts: sweeps('park'),
  },
  'the look at a holder that waits': {
    state: 'input-required',
    columns: (at) => ({
      interrupt_held_until: ago('now()', 1),
      ...STOPPED,
      wait_probe_at: at,
    }),
    acts: sweeps('park'),
  },
  'the time of a join': {
    state: 'pending',
    columns: (at) => ({ ...JOINING, join_timeout_at: at, alarm_at: 'now()' }),
    acts: sweeps('joinTimeOut'),
  },
  'the alarm of a join': {
    state: 'pending',
    columns: (at) => ({ ...JOINING, join_timeout_at: ago('now()', 1), alarm_at: at }),
    acts: sweeps('joinTimeOut'),
  },
  'the hook of a delayed todo': {
    state: 'pending',
    columns: (at) => ({ due_at: at, ready_reason: `'released'` }),
    acts: sweeps('comeDue'),
  },
  'the turn of a todo that waits for its time': {
    state: 'pending',
    columns: (at) => ({ due_at: 'null', later_line: 'gen_random_uuid()', not_before: at }),
    acts: sweeps('enterLine'),
  },
  'the hook of a retry': {
    state: 'failed',
    columns: (at) => ({ next_retry_at: at, ready_reason: `'retried'` }),
    acts: sweeps('comeDue'),
  },
}

test.each(Object.entries(CLOCKS))('%s: at its moment, not before', async (_, clock) => {
  const happens = (at: string): Promise<boolean> =>
    database.transaction(async (session) =>
      clock.acts(session, await put(session, clock.state, clock.columns(at))),
    )
  const { now, later } = clock.keeps ? MS_EDGE : EDGE
  expect({ atTheMoment: await happens(now), before: await happens(later) }).toEqual({
    atTheMoment: true,
    before: false,
  })
})

const CHANGES: Partial<Record<string, Change>> = {
  artifact: { artifact: { id: 'a', json: '{"parts":[]}', append: false, lastChunk: false } },
  interrupt: { asked: 'input-required', park: false },
  join: { children: [], joinUntil: 'all' },
}

const OF_HOLDERS = VERB_NAMES.filter((verb) => rule(verb).when.includes('held'))

test.each(OF_HOLDERS)('a holder may %s up to the end of its lease, and not at it', async (verb) => {
  const may = (at: string): Promise<boolean> =>
    database.transaction(async (session) => {
      const columns = { lease_expires_at: at, lease_probe_at: at }
      const { id } = await put(session, 'claimed', columns)
      const change = { ...CHANGES[verb], endpoint: holder, fence: '1' }
      return (await tryTransition(session, verb, id, change)) !== null
    })
  expect({ before: await may(EDGE.later), atTheEnd: await may(EDGE.now) }).toEqual({
    before: true,
    atTheEnd: false,
  })
})

test('a lease is as long as it was granted, from the moment it was', async () => {
  await database.transaction(async (session) => {
    const { id, queue } = await put(session, 'pending', {})
    await readClaimed(session, [queue], 1, { endpoint: other, leaseSeconds: 300, claimant: 'x' })
    const left = async () =>
      (
        await session.query<{ expires: number; probe: number }>(
          `select extract(epoch from lease_expires_at - now())::float8 as expires,
            extract(epoch from lease_probe_at - now())::float8 as probe from todos where id = $1`,
          [id],
        )
      )[0]
    expect(await left()).toEqual({ expires: 300, probe: 300 })
    const change = { endpoint: other, fence: '2', leaseSeconds: 90 }
    await tryTransition(session, 'heartbeat', id, change)
    expect((await left())?.expires).toBe(90)
  })
})

test('an endpoint claims up to the moment it expires, and not at it', async () => {
  const may = (at: string): Promise<boolean> =>
    database.transaction(async (session) => {
      const endpoint = await addWorker(session, [])
      await session.query(`update endpoints set expires_at = ${at} where id = $1`, [endpoint])
      const { queue } = await put(session, 'pending', {})
      const change = { endpoint, leaseSeconds: 300, claimant: 'x' }
      return (await readClaimed(session, [queue], 1, change)).claimed.length === 1
    })
  expect({ before: await may(MS_EDGE.later), atTheEnd: await may(MS_EDGE.now) }).toEqual({
    before: true,
    atTheEnd: false,
  })
})

test('a slot is used up to the end of the lease, and not at it', async () => {
  const free = (at: string): Promise<number> =>
    database.transaction(async (session) => {
      const columns = { lease_expires_at: at, lease_probe_at: at }
      const { queue } = await put(session, 'claimed', columns)
      return freeInQueue(session, queue, 1)
    })
  expect({ before: await free(EDGE.later), atTheEnd: await free(EDGE.now) }).toEqual({
    before: 0,
    atTheEnd: 1,
  })
})

const leases = (columns: (at: string) => Record<string, string>) => (at: string) =>
  database.transaction(async (session) => {
    const { id } = await put(session, 'pending', {})
    const all = { due_at: 'now()', ...columns(at) }
    await session.query(
      `insert into push_configs (todo_id, config_id, dialect, url, host, secret, owed,
        ${Object.keys(all).join(', ')})
      values ($1, 'c', '1.0', 'https://x.test/', $2, 's', 1, ${Object.values(all).join(', ')})`,
      [id, id],
    )
    await session.query(
      `insert into deliveries (todo_id, config_id, seq, queue) values ($1, 'c', 1, 'q')`,
      [id],
    )
    const leased = await leaseDeliveries(session, {
      owner: randomUUID(),
      limit: 1000,
      perHost: 4,
      leaseSeconds: 30,
      busy: new Map(),
      crowded: { endpoints: [], pairs: [], counts: new Map() },
      share: 1000,
    })
    return leased.some(({ todoId }) => todoId === id)
  })

test.each([
  ['is due', leases((at) => ({ due_at: at }))],
  ['was leased to a courier', leases((at) => ({ owner: `'${holder}'`, lease_expires_at: at }))],
])('a webhook that %s is taken at its moment, not before', async (_, taken) => {
  expect({ atTheMoment: await taken(EDGE.now), before: await taken(EDGE.later) }).toEqual({
    atTheMoment: true,
    before: false,
  })
})
