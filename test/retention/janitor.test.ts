// Over the wire: the janitor of running nodes, several of them, killed in between.
// Field case: retention.
import { expect, test } from 'vitest'
import { type App, startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { metric, operate } from '../support/steps.ts'
import { until } from '../support/until.ts'
import { makeAged, orphans, rowsOf } from './aged.ts'

const app = await startApp({ tidyMs: 50, placeMs: 50 })
const sql: App['sql'] = app.sql

const age = (id: string): Promise<unknown> =>
  sql(`update todos set finished_at = now() - interval '40 days' where id = $1`, [id])

test('a finished task past the retention is gone for everybody, an open one as old is not; unset, nothing goes', async () => {
  const { client, agent } = await app.queue('desk', { contexts: 'parallel', retentionDays: 30 })
  const a2a = a2aClient(app.url, 'desk', client.token)
  const worker = agentClient(app.url, agent.token)
  const finish = async (text: string): Promise<string> => {
    const { id } = await a2a.submit(text)
    await worker.call('todos.complete', (await worker.claim()).held)
    return id
  }
  const gone = await finish('old')
  await a2a.call('CreateTaskPushNotificationConfig', { taskId: gone, url: 'https://example.com/h' })
  const young = await finish('young')
  const open = await a2a.submit('open')
  await sql(
    `update todos set created_at = now() - interval '1 year', status_at = now() - interval '1 year'
    where id = $1`,
    [open.id],
  )
  await age(gone)
  await until(async () => (await rowsOf(sql, [gone])).todos === undefined, {
    what: 'it is deleted',
  })
  expect(await rowsOf(sql, [gone])).toEqual({})
  for (const method of ['GetTask', 'CancelTask', 'SubscribeToTask']) {
    expect((await a2a.call(method, { id: gone })).error.code).toBe(-32001)
  }
  const more = await a2a.call('SendMessage', {
    message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }], taskId: gone },
  })
  expect(more.error.code).toBe(-32001)
  expect((await a2a.get(young)).status.state).toBe('TASK_STATE_COMPLETED')
  expect((await a2a.get(open.id)).status.state).toBe('TASK_STATE_SUBMITTED')
  await until(
    async () => (await metric(app, 'switchboard_todos_deleted_total{queue="desk"}')) === 1,
  )

  const put = await operate(app, 'queues.put', { name: 'desk', policy: { retentionDays: null } })
  expect(put.policy).not.toHaveProperty('retentionDays')
  await age(young)
  // Another queue's janitor has been round since.
  await app.queue('witness', { retentionDays: 1 })
  const witness = await makeAged(sql, { queue: 'witness' })
  await until(async () => Object.keys(await rowsOf(sql, witness)).length === 0)
  expect((await a2a.get(young)).id).toBe(young)

  await operate(app, 'queues.put', { name: 'desk', policy: { retentionDays: 7 } })
  await until(async () => (await a2a.call('GetTask', { id: young })).error?.code === -32001)
})

test('the same send under a key whose task is gone is a new send', async () => {
  const { client, agent } = await app.queue('keyed', { retentionDays: 1 })
  const a2a = a2aClient(app.url, 'keyed', client.token)
  const headers = { 'Idempotency-Key': 'k1' }
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] }
  const send = async (): Promise<string> =>
    (
      await a2a.call(
        'SendMessage',
        { message, configuration: { returnImmediately: true } },
        { headers },
      )
    ).result.task.id
  const first = await send()
  const worker = agentClient(app.url, agent.token)
  await worker.call('todos.complete', (await worker.claim()).held)
  expect(await send()).toBe(first)
  await age(first)
  await until(async () => Object.keys(await rowsOf(sql, [first])).length === 0)
  expect(await send()).not.toBe(first)
})

test.each([-1, 1.5, 36_501, '30', true])('a retention of %s is refused', async (retentionDays) => {
  const answer = operate(app, 'queues.put', { name: 'refused', policy: { retentionDays } })
  await expect(answer).rejects.toThrow()
})

test('three nodes share it, and are not in the way of those who work', async () => {
  await app.queue('busy', { retentionDays: 30, contexts: 'parallel' })
  const old = await makeAged(sql, { queue: 'busy', count: 3000 })
  const { client, agent } = await app.queue('live', { contexts: 'parallel' })
  const nodes = await Promise.all([1, 2].map(() => startNode(app.databaseUrl, { tidyMs: 50 })))
  try {
    const a2a = a2aClient(app.url, 'live', client.token)
    const worker = agentClient(nodes[0]!.url, agent.token)
    for (let n = 0; n < 20; n += 1) {
      const { id } = await a2a.submit(`x${n}`)
      await worker.call('todos.complete', (await worker.claim()).held)
      expect((await a2a.get(id)).status.state).toBe('TASK_STATE_COMPLETED')
    }
    const left = async () => (await rowsOf(sql, old)).todos ?? 0
    await until(async () => (await left()) === 0, { what: 'all are deleted' })
    expect(await rowsOf(sql, old)).toEqual({})
    expect(await orphans(sql)).toEqual({})
    const total = 'switchboard_todos_deleted_total{queue="busy"}'
    const counts = await Promise.all([app, ...nodes].map((node) => metric(node, total)))
    expect(counts.reduce((all, one) => all + one, 0)).toBe(3000)
  } finally {
    await Promise.all(nodes.map((node) => node.stop()))
  }
})
