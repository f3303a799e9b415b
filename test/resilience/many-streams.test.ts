// Field cases: streams leave nothing behind; streams hold no connection.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { a2aClient, agentClient, openStream } from '../support/clients/actors.ts'
import { metric, nextOf } from '../support/steps.ts'
import { until } from '../support/until.ts'

const POOL = 5
const app = await startApp({ poolSize: POOL, pollMs: 60_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const openStreams = () => metric(app, 'switchboard_streams_open{kind="a2a"}')

const sessions = () =>
  app.sql<{ state: string; application_name: string; idle_s: number }>(
    `select state, application_name, extract(epoch from now() - state_change)::float8 as idle_s
     from pg_stat_activity
     where application_name like 'switchboard%' and datname = current_database()`,
  )

test('300 streams, 20 waiting claims and 20 blocking sends hold no connection, and reads are answered', async () => {
  await app.queue('quiet')
  const quiet = agentClient(app.url, (await app.vend(['work'], ['quiet'])).token)
  const task = await a2a.submit('followed')
  const todo = await worker.claim()
  const streams = await Promise.all(
    Array.from({ length: 300 }, () => a2a.stream('SubscribeToTask', { id: task.id })),
  )
  await Promise.all(streams.map(nextOf))
  const claims = Array.from({ length: 20 }, () => quiet.call('todos.claim', { waitMs: 50_000 }))
  await until(async () => (await metric(app, 'switchboard_waiting_claims')) === 20)
  const sends = Array.from({ length: 20 }, () => a2a.send('blocking'))
  await until(async () => (await a2a.call('ListTasks', { pageSize: 1 })).result.totalSize === 21)
  expect(await openStreams()).toBe(300)

  let most = 0
  for (let i = 0; i < 50; i += 1) {
    expect((await a2a.get(task.id)).status.state).toBe('TASK_STATE_WORKING')
    if (i % 10 > 0) continue
    const now = await sessions()
    most = Math.max(most, now.length)
    // One is there to listen; none sits in a transaction.
    expect(now.filter(({ application_name }) => application_name === 'switchboard')).toHaveLength(
      Math.min(POOL, now.length - 1),
    )
    expect(
      now.filter(({ state, idle_s }) => state === 'idle in transaction' && idle_s > 1),
    ).toEqual([])
  }
  expect(most).toBeLessThanOrEqual(POOL + 1)

  await worker.call('todos.complete', todo.held)
  const ends = await Promise.all(streams.map((stream) => stream.rest()))
  for (const frames of ends) {
    expect(frames).toHaveLength(1)
    expect(frames[0]!.json.result.statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')
  }
  for (let left = 20; left > 0; ) {
    const { todos } = await worker.call('todos.claim', { limit: 20 })
    for (const { id, fence } of todos) await worker.call('todos.complete', { id, fence })
    left -= todos.length
  }
  for (const { result } of await Promise.all(sends)) {
    expect(result.task.status.state).toBe('TASK_STATE_COMPLETED')
  }
  await a2aClient(app.url, 'quiet', (await app.vend(['send'], ['quiet'])).token).submit('x')
  await Promise.race(claims)
  await until(async () => (await openStreams()) === 0)
  // The rest of the claims goes with the server: stopping ends them.
  void Promise.allSettled(claims)
})

test('streams that are opened and dropped, before the first frame or after, leave nothing behind', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const heap = async () => {
    for (let i = 0; i < 4; i += 1) {
      collect()
      await new Promise(setImmediate)
    }
    return process.memoryUsage().heapUsed
  }
  const warnings: Error[] = []
  const onWarning = (warning: Error) => void warnings.push(warning)
  process.on('warning', onWarning)
  const task = await a2a.submit('long-running')
  const todo = await worker.claim({ queues: ['desk'] })
  expect(todo.id).toBe(task.id)

  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'SubscribeToTask',
    params: { id: task.id },
  })
  const headers = {
    'Content-Type': 'application/json',
    'A2A-Version': '1.0',
    Authorization: `Bearer ${client.token}`,
  }
  const openAndDrop = async (count: number) => {
    await Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const hangUp = new AbortController()
        const opening = fetch(a2a.endpoint, {
          method: 'POST',
          headers,
          body,
          signal: hangUp.signal,
        })
        if (i % 2 === 0) {
          await new Promise(setImmediate)
          hangUp.abort()
        } else {
          const response = await opening
          await response.body!.getReader().read()
          hangUp.abort()
        }
        await opening.catch(() => {})
      }),
    )
    const board = await openStream(`${app.url}/board/events`, { token: ADMIN_TOKEN })
    board.close()
    await until(async () => (await openStreams()) === 0)
    await until(async () => (await metric(app, 'switchboard_streams_open{kind="board"}')) === 0)
  }
  await openAndDrop(100)
  const before = await heap()
  for (let round = 0; round < 6; round += 1) await openAndDrop(100)
  const after = await heap()
  expect(after - before).toBeLessThan(10 * 1024 * 1024)
  expect((await sessions()).length).toBeLessThanOrEqual(POOL + 1)
  process.off('warning', onWarning)
  expect(warnings.filter(({ name }) => name === 'MaxListenersExceededWarning')).toEqual([])
  // The task lives on, and can be followed as ever.
  const stream = await a2a.stream('SubscribeToTask', { id: task.id })
  await worker.call('todos.complete', todo.held)
  expect((await stream.rest()).at(-1)!.json.result.statusUpdate.status.state).toBe(
    'TASK_STATE_COMPLETED',
  )
})
