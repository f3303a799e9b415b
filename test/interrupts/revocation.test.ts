/** Revoking an endpoint: fenced out at once, and nothing it held is left behind. */
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import {
  ask,
  attemptsOf,
  lapseLease,
  metric,
  openBoard,
  operate,
  saying,
} from '../support/steps.ts'
import { until } from '../support/until.ts'
import { ageWait, DAY, leasesExpired, reclaimed, resultOf, rowOf, startQuiet } from './support.ts'

const app = await startQuiet()

const desk = async (policy?: Record<string, unknown>, vend: Record<string, unknown> = {}) => {
  const name = `q-${randomUUID().slice(0, 8)}`
  await operate(app, 'queues.put', { name, ...(policy && { policy }) })
  const client = await app.vend(['send'], [name])
  const mine = await operate(app, 'endpoints.vend', {
    name: 'mine',
    queues: [name],
    verbs: ['work'],
    ...vend,
  })
  return {
    name,
    client,
    id: mine.endpoint.id as string,
    token: mine.token as string,
    a2a: a2aClient(app.url, name, client.token),
    worker: agentClient(app.url, mine.token),
    /** Another endpoint that may claim here. */
    another: async () => agentClient(app.url, (await app.vend(['work'], [name])).token),
  }
}
type Desk = Awaited<ReturnType<typeof desk>>

const revoke = (id: string, more = {}) => operate(app, 'endpoints.revoke', { id, ...more })
const expire = (id: string) =>
  app.sql(`update endpoints set expires_at = now() - interval '1 second' where id = $1`, [id])

/** One claimed, one that asks, one that asks for authorisation: all held. */
const holding = async ({ a2a, worker }: Desk) => {
  for (const text of ['one', 'two', 'three']) await a2a.submit(text)
  const todos = [await worker.claim(), await worker.claim(), await worker.claim()] as const
  await ask(worker, todos[1], 'May I?')
  await ask(worker, todos[2], 'Log in', { state: 'auth-required' })
  return todos
}

const rowsOf = (todos: readonly { id: string }[]) =>
  Promise.all(todos.map(({ id }) => rowOf(app, id)))

test('once revoked, a token opens nothing, on any node', async () => {
  const here = await desk()
  const node = await startNode(app.databaseUrl, { reapMs: 3_600_000 })
  try {
    const [todo] = await holding(here)
    const elsewhere = agentClient(node.url, here.token)
    await elsewhere.call('todos.heartbeat', todo.held)
    await revoke(here.id)
    for (const url of [app.url, node.url]) {
      const status = async () =>
        (
          await fetch(`${url}/agent`, {
            method: 'POST',
            headers: {
              Authorization: `Bearer ${here.token}`,
              'Content-Type': 'application/json',
            },
            body: JSON.stringify({
              jsonrpc: '2.0',
              id: 1,
              method: 'todos.complete',
              params: todo.held,
            }),
          })
        ).status
      await until(async () => (await status()) === 401, { timeoutMs: 1000 })
    }
    expect((await rowOf(app, todo.id)).state).toBe('failed')
  } finally {
    await node.stop()
  }
})

test('what it held goes back to the queue at once where another live endpoint may claim it, with its attempt closed revoked and requeued', async () => {
  const here = await desk()
  const other = await here.another()
  const board = await openBoard(app, `queue=${here.name}`)
  const todos = await holding(here)
  await revoke(here.id)
  for (const row of await rowsOf(todos)) {
    expect(row).toMatchObject({ state: 'pending', owner: null, interrupted_at: null, attempt: 1 })
  }
  for (const { id } of todos) {
    expect(await attemptsOf(app, id)).toMatchObject([
      { outcome: 'revoked', disposition: 'requeued', died: false, cause: 'endpoint_revoked' },
    ])
  }
  const frames = await board.until(({ json }) => json.verb === 'revoke')
  expect(frames.at(-1)!.json).toMatchObject({ to: 'pending' })
  expect((await board.next())!.json).toMatchObject({ reason: 'requeued' })
  board.close()
  const next = await other.claim()
  expect(todos.map(({ id }) => id)).toContain(next.id)
  expect(next).toMatchObject({ attempt: 2, priorAttempts: [{ outcome: 'revoked' }] })
})

test('where nobody else may claim, what it held is dead-lettered with endpoint_revoked, and so is what is parked on its question', async () => {
  const here = await desk()
  const held = await holding(here)
  await here.a2a.submit('four')
  const parked = await here.worker.claim()
  await ask(here.worker, parked, 'May I?', { hold: false })
  const todos = [...held, parked]
  await revoke(here.id)
  for (const { id } of todos) {
    expect(await rowOf(app, id)).toMatchObject({
      state: 'failed',
      owner: null,
      next_retry_at: null,
    })
    expect(await resultOf(app, id)).toMatchObject({
      error: 'endpoint_revoked',
      detail: expect.stringMatching(/^[^\n]+$/),
    })
    expect(await attemptsOf(app, id)).toMatchObject([
      { outcome: 'revoked', disposition: 'dead_lettered', cause: 'endpoint_revoked' },
    ])
  }
  expect((await here.a2a.get(held[0].id)).status.state).toBe('TASK_STATE_FAILED')
})

test('a revoked, an expired and a mere client’s endpoint do not count as somebody who may claim', async () => {
  const here = await desk()
  const gone = await app.vend(['work'], [here.name])
  const expired = await app.vend(['work'], [here.name])
  await app.vend(['send', 'answer', 'watch'], [here.name])
  await revoke(gone.endpoint.id)
  await expire(expired.endpoint.id)
  const todos = await holding(here)
  await revoke(here.id)
  for (const row of await rowsOf(todos)) expect(row.state).toBe('failed')
})

test('at the cap it is dead-lettered even where others could claim it', async () => {
  const here = await desk({ maxAttempts: 1 })
  await here.another()
  const todos = await holding(here)
  await revoke(here.id)
  for (const row of await rowsOf(todos)) expect(row.state).toBe('failed')
  expect(await resultOf(app, todos[1].id)).toMatchObject({ error: 'endpoint_revoked' })
})

test('a question that is parked goes on waiting where others can take up its answer, and keeps its deadline', async () => {
  const here = await desk()
  const other = await here.another()
  await here.a2a.submit('work')
  await here.a2a.submit('work')
  const [answered, expired] = [await here.worker.claim(), await here.worker.claim()]
  for (const todo of [answered, expired]) await ask(here.worker, todo, 'May I?', { hold: false })
  await revoke(here.id)
  expect(await rowOf(app, answered.id)).toMatchObject({ state: 'input-required' })
  await operate(app, 'todos.answer', { id: answered.id, message: saying('yes') })
  expect(await other.claim()).toMatchObject({ id: answered.id, unread: [{ answers: 3 }] })
  await ageWait(app, DAY + 1, expired.id)
  await app.sweep.reap()
  expect(await rowOf(app, expired.id)).toMatchObject({ state: 'pending' })
})

test('an interrupt of a revoked endpoint is never reclaimed by the sweep into a queue where nobody can claim it', async () => {
  for (const hold of [true, false]) {
    const here = await desk()
    await here.a2a.submit('work')
    const todo = await here.worker.claim()
    await ask(here.worker, todo, 'May I?', { hold })
    await ageWait(app, DAY + 1, todo.id)
    // As another node would find it that was down meanwhile.
    await app.sql('update endpoints set revoked_at = now() where id = $1', [here.id])
    await app.sweep.reap()
    expect(await rowOf(app, todo.id)).toMatchObject({ state: 'failed' })
    expect(await resultOf(app, todo.id)).toMatchObject({ error: 'endpoint_revoked' })
    expect(await reclaimed(app, here.name)).toBe(0)
  }
})

test('an expired credential behaves like a revoked one at the next tick', async () => {
  const served = await desk({}, { expiresInSeconds: 3600 })
  await served.another()
  const alone = await desk({}, { expiresInSeconds: 3600 })
  const [requeued, stranded] = [await holding(served), await holding(alone)]
  await expire(served.id)
  await expire(alone.id)
  await app.sweep.reap()
  for (const row of await rowsOf(requeued))
    expect(row).toMatchObject({ state: 'pending', owner: null })
  for (const row of await rowsOf(stranded)) expect(row).toMatchObject({ state: 'failed' })
  expect(await resultOf(app, stranded[0].id)).toMatchObject({ error: 'endpoint_revoked' })
  const { endpoints } = await operate(app, 'endpoints.list', {})
  const mine = endpoints.find(({ id }: { id: string }) => id === alone.id)
  expect(mine.revokedAt).toEqual(expect.any(String))
})

test('a lease that lapsed before its endpoint expired is settled as the endpoint’s, once', async () => {
  const here = await desk({}, { expiresInSeconds: 3600 })
  const [todo] = await holding(here)
  await lapseLease(app, todo.id)
  await expire(here.id)
  await app.sweep.reap()
  expect(await attemptsOf(app, todo.id)).toMatchObject([{ outcome: 'revoked' }])
  expect(await leasesExpired(app, here.name)).toBe(0)
})

test('what is revoked counts as ended attempts and dead letters, and as no lapsed lease', async () => {
  const here = await desk()
  await holding(here)
  await revoke(here.id)
  const labels = `queue="${here.name}"`
  expect(await metric(app, `switchboard_attempts_ended_total{${labels},outcome="revoked"}`)).toBe(3)
  expect(await metric(app, `switchboard_todos_finished_total{${labels},state="failed"}`)).toBe(3)
  expect(await leasesExpired(app, here.name)).toBe(0)
  expect(await reclaimed(app, here.name)).toBe(0)
})

test('revoking twice settles once', async () => {
  const here = await desk()
  await here.another()
  const [todo] = await holding(here)
  await Promise.all([revoke(here.id), revoke(here.id)])
  await revoke(here.id)
  expect(await attemptsOf(app, todo.id)).toHaveLength(1)
  expect((await rowOf(app, todo.id)).seq).toBe(3)
})

test('a row that its holder is writing to at that very moment is settled all the same', async () => {
  for (let round = 0; round < 10; round += 1) {
    const here = await desk()
    await here.another()
    const [todo] = await holding(here)
    const beats = Array.from({ length: 8 }, () =>
      here.worker.call('todos.heartbeat', todo.held).catch(() => {}),
    )
    await revoke(here.id)
    await Promise.all(beats)
    expect(await rowOf(app, todo.id)).toMatchObject({ state: 'pending', owner: null })
  }
})

test('revoking a client stops its access and lets its tasks go on, unless they are to be canceled, wherever it sent them', async () => {
  const here = await desk()
  const elsewhere = await desk()
  const client = await app.vend(['send'], [here.name, elsewhere.name])
  const ids: string[] = []
  for (const { name } of [here, elsewhere]) {
    const a2a = a2aClient(app.url, name, client.token)
    ids.push((await a2a.submit('waits')).id)
  }
  const todo = await here.worker.claim()
  await ask(here.worker, todo, 'May I?')
  // It has lost a queue since.
  await operate(app, 'endpoints.update', { id: client.endpoint.id, queues: [here.name] })

  await revoke(client.endpoint.id)
  expect((await rowsOf(ids.map((id) => ({ id })))).map(({ state }) => state)).toEqual([
    'input-required',
    'pending',
  ])
  const { status } = await fetch(`${app.url}/a2a/${here.name}/`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${client.token}`, 'Content-Type': 'application/json' },
    body: '{}',
  })
  expect(status).toBe(401)

  await revoke(client.endpoint.id, { cancelTasks: true })
  expect((await rowsOf(ids.map((id) => ({ id })))).map(({ state }) => state)).toEqual([
    'canceled',
    'canceled',
  ])
})
