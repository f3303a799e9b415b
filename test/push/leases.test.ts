// Couriers of several nodes, of dead and of frozen ones; and what a drain leaves.
// Field cases: one delivery per event; orderly shutdown.
import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { leaseDeliveries, settleDelivery } from '../../src/store/push/deliveries.ts'
import { startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { startReceiver, stateOf } from '../support/network/receiver.ts'
import { until } from '../support/until.ts'
import { FAST, LOCAL, peopleOf, startPushApp } from './support.ts'

const PER_HOST = 4

/** Two nodes on one database. */
const startPair = async () => {
  const app = await startPushApp()
  const other = await startNode(app.databaseUrl, { config: LOCAL, push: FAST, pollMs: 500 })
  afterAll(() => other.stop())
  return { app, other }
}

const storeOf = (url: string) => {
  const database = openDatabase({ connectionString: url, poolSize: 4 })
  afterAll(() => database.close())
  return database
}

const wish = (more: object = {}) => ({
  owner: randomUUID(),
  limit: 10,
  perHost: PER_HOST,
  leaseSeconds: 30,
  busy: new Map<string, number>(),
  crowded: { endpoints: [], pairs: [], counts: new Map<string, number>() },
  share: 100,
  ...more,
})

const DELIVERED = { state: 'delivered', status: 200, reason: null, againSeconds: 0 } as const

test('nodes share the deliveries out: each receiver gets each event once', async () => {
  const { app, other } = await startPair()
  const receiver = await startReceiver()
  const { client, agent } = await app.queue('pair', { contexts: 'parallel' })
  const nodes = [app.url, other.url]
  const count = 40
  for (let n = 0; n < count; n += 1) {
    const a2a = a2aClient(nodes[n % 2]!, 'pair', client.token)
    const taskPushNotificationConfig = { url: `${receiver.url}/${n}` }
    await a2a.send('x', {}, { returnImmediately: true, taskPushNotificationConfig })
  }
  const worker = agentClient(other.url, agent.token)
  for (let n = 0; n < count; n += 1) {
    const todo = await worker.claim()
    await worker.call('todos.complete', todo.held)
  }
  await Promise.all(Array.from({ length: count }, (_, n) => receiver.came(`/${n}`, 2)))
  for (let n = 0; n < count; n += 1) {
    expect(receiver.at(`/${n}`).map(stateOf)).toEqual(['WORKING', 'COMPLETED'])
  }
  expect(new Set(receiver.told.map(({ headers }) => headers['webhook-id'])).size).toBe(2 * count)
})

test('what a dead courier held is sent by another, under the same id; what it says late is refused', async () => {
  const app = await startPushApp({ pollMs: 200 })
  const receiver = await startReceiver()
  const database = storeOf(app.databaseUrl)
  const { worker, sendWith } = await peopleOf(app, 'dead')
  const task = await sendWith({ url: `${receiver.url}/d` })
  // Due, and not yet for the courier of the app.
  await app.sql(`create function stall() returns trigger language plpgsql as $$
    begin new.due_at := now() + interval '1 hour'; return new; end $$`)
  await app.sql(`create trigger stall before update on push_configs for each row
    when (old.owed < new.owed) execute function stall()`)
  await worker.claim()
  await app.sql('drop trigger stall on push_configs')
  // Another node takes it, and dies or freezes over it.
  const frozen = randomUUID()
  await app.sql(
    `update push_configs set due_at = now(), owner = $2, fence = fence + 1,
      lease_expires_at = now() + interval '1 hour' where todo_id = $1`,
    [task.id, frozen],
  )
  const [held] = await app.sql<{ fence: string; id: string }>(
    `select c.fence, d.id from push_configs c join deliveries d on d.todo_id = c.todo_id
    where c.todo_id = $1`,
    [task.id],
  )
  expect(await leaseDeliveries(database, wish())).toEqual([])
  expect(receiver.told).toEqual([])
  await app.sql(`update push_configs set lease_expires_at = now() where todo_id = $1`, [task.id])
  const [told] = await receiver.came('/d', 1)
  expect(told?.headers['webhook-id']).toBe(held?.id)

  const late = {
    todoId: task.id,
    configId: '',
    owner: frozen,
    fence: held!.fence,
    host: '',
    id: held!.id,
  }
  const [config] = await app.sql<{ config_id: string }>(
    'select config_id from push_configs where todo_id = $1',
    [task.id],
  )
  await until(async () => {
    const [row] = await app.sql<{ state: string }>('select state from deliveries where id = $1', [
      held!.id,
    ])
    return row?.state === 'delivered'
  })
  const answer = await settleDelivery(database, { ...late, configId: config!.config_id } as never, {
    state: 'dead',
    status: 500,
    reason: 'late',
    againSeconds: 0,
  })
  expect(answer).toBe(false)
  const [row] = await app.sql('select state, attempts from deliveries where id = $1', [held!.id])
  expect(row).toEqual({ state: 'delivered', attempts: 1 })
})

test('only the first delivery of a line can be leased, a host has no more than its share, and a fence settles once', async () => {
  const app = await startPushApp({ pollMs: 100_000 })
  const database = storeOf(app.databaseUrl)
  const { worker, sendWith } = await peopleOf(app, 'lined')
  // Refused by the courier of the app at each try, and put off: so that the lines are left alone.
  await app.sql(`create function hide() returns trigger language plpgsql as $$
    begin new.due_at := case when new.owed > 0 then 'infinity'::timestamptz end; return new; end $$`)
  await app.sql(
    'create trigger hide before update of owed on push_configs for each row execute function hide()',
  )
  for (let n = 0; n < 6; n += 1) await sendWith({ url: `http://127.0.0.1:9/${n}` })
  await sendWith({ url: 'http://127.0.0.2:10/other' })
  for (let n = 0; n < 7; n += 1) {
    const todo = await worker.claim()
    await worker.call('todos.complete', todo.held)
  }
  await app.sql('drop trigger hide on push_configs')
  await app.sql('update push_configs set due_at = now() where owed > 0')

  const first = await leaseDeliveries(database, wish())
  const byHost = (host: string, leased = first) => leased.filter((one) => one.host === host)
  expect(byHost('127.0.0.1')).toHaveLength(PER_HOST)
  expect(byHost('127.0.0.2')).toHaveLength(1)
  expect(new Set(first.map(({ todoId }) => todoId)).size).toBe(first.length)
  const full = new Map([['127.0.0.1', PER_HOST]])
  expect(await leaseDeliveries(database, wish({ busy: full }))).toEqual([])
  const almost = new Map([['127.0.0.1', PER_HOST - 1]])
  expect(await leaseDeliveries(database, wish({ busy: almost }))).toHaveLength(1)

  const [one] = byHost('127.0.0.2')
  expect(await settleDelivery(database, { ...one!, fence: '99' }, DELIVERED)).toBe(false)
  expect(await settleDelivery(database, one!, DELIVERED)).toBe(true)
  expect(await settleDelivery(database, one!, DELIVERED)).toBe(false)
  const [next] = byHost('127.0.0.2', await leaseDeliveries(database, wish()))
  expect(next?.todoId).toBe(one?.todoId)
  expect(next!.seq).toBeGreaterThan(one!.seq)
  expect(BigInt(next!.fence)).toBeGreaterThan(BigInt(one!.fence))
})

test('couriers that lease at the same instant never lease one line both', async () => {
  const app = await startPushApp({ pollMs: 100_000 })
  const database = storeOf(app.databaseUrl)
  await app.sql(`insert into push_configs (todo_id, config_id, dialect, url, host, secret, owed, due_at, owner, lease_expires_at)
    select gen_random_uuid(), 'c', '1.0', 'http://h' || n % 20, 'h' || n % 20, 's', 1, now(),
      gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 200) n`)
  await app.sql(`insert into deliveries (todo_id, config_id, seq, queue)
    select todo_id, config_id, 2, 'q' from push_configs`)
  await app.sql('update push_configs set lease_expires_at = now()')
  const rounds = await Promise.all(
    Array.from({ length: 12 }, async () => {
      const mine: string[] = []
      for (let n = 0; n < 10; n += 1) {
        const leased = await leaseDeliveries(database, wish({ perHost: 100 }))
        mine.push(...leased.map(({ id }) => id))
      }
      return mine
    }),
  )
  const all = rounds.flat()
  expect(new Set(all).size).toBe(all.length)
})

test('a drain lets a try finish; one that would not is handed back and sent again by another node', async () => {
  const app = await startPushApp()
  const slow = await startReceiver(async () => {
    await new Promise((resolve) => setTimeout(resolve, 300))
    return 200
  })
  let hang = true
  const silent = await startReceiver(() => (hang ? 'hang' : 200))
  const leaving = await startNode(app.databaseUrl, {
    config: LOCAL,
    push: { ...FAST, timeoutMs: 60_000 },
    pollMs: 500,
    drainMs: 3000,
  })
  await app.stop()
  const { client, agent } = await (async () => {
    await leaving.services.operator.putQueue({ name: 'drained', policy: { contexts: 'parallel' } })
    const vend = async (verb: 'send' | 'work') =>
      leaving.services.operator.vend({ name: verb, queues: ['drained'], verbs: [verb] })
    return { client: await vend('send'), agent: await vend('work') }
  })()
  const a2a = a2aClient(leaving.url, 'drained', client.token)
  const worker = agentClient(leaving.url, agent.token)
  for (const url of [`${slow.url}/slow`, `${silent.url}/silent`]) {
    await a2a.send('x', {}, { returnImmediately: true, taskPushNotificationConfig: { url } })
    await worker.claim()
  }
  await slow.came('/slow', 1)
  const [first] = await silent.came('/silent', 1)
  await leaving.stop()
  hang = false
  const heir = await startNode(app.databaseUrl, { config: LOCAL, push: FAST, pollMs: 500 })
  try {
    const [, second] = await silent.came('/silent', 2)
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.text).toBe(first?.text)
    expect(slow.told).toHaveLength(1)
  } finally {
    await heir.stop()
  }
})
