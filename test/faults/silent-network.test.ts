// Connections that died without a word: guarantee 6 of docs/design/lifecycle-layer.md, section 9.
import { afterAll, expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { startProxy } from '../support/network/proxy.ts'
import { metric } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const proxy = await startProxy(app.databaseUrl)

/** Behind the proxy; a lost wake would cost it a minute. */
const node = await startNode(proxy.url, {
  pollMs: 60_000,
  keepAliveMs: 100,
  answerMs: 200,
  statementMs: 200,
  acquireMs: 1000,
})
afterAll(() => node.stop())

const waiter = agentClient(node.url, agent.token)
const elsewhere = a2aClient(app.url, 'desk', client.token)
const ready = async () => (await fetch(`${node.url}/readyz`)).status === 200

test('a listening connection that died silently is noticed by asking, and replaced; what was rung meanwhile is seen', async () => {
  await until(ready)
  const reconnects = () => metric(node, 'switchboard_listener_reconnects_total')
  expect(await reconnects()).toBe(0)
  const claim = waiter.call('todos.claim', { waitMs: 25_000 })
  await until(async () => (await metric(node, 'switchboard_waiting_claims')) === 1)

  proxy.silence('switchboard wake')
  // Nothing was closed, and nothing that is sent now arrives.
  const task = await elsewhere.submit('rung into the void')
  const { todos } = await claim
  expect(todos).toMatchObject([{ id: task.id }])
  await until(async () => (await reconnects()) === 1)
  await until(ready)
})

test('a statement on a connection that died silently is given up, and the next has a new one', async () => {
  await until(ready)
  const here = a2aClient(node.url, 'desk', client.token)
  const { id } = await here.submit('x')
  // As many connections as the pool has are open.
  const get = () => Promise.all(Array.from({ length: 16 }, () => here.call('GetTask', { id })))
  await get()
  proxy.silence('switchboard')
  const started = performance.now()
  const answers = await get()
  expect(performance.now() - started).toBeLessThan(scaled(10_000))
  const codes = answers.map(({ error }) => error?.code)
  expect(codes.filter((code) => code !== undefined && code !== -32603)).toEqual([])
  expect(codes).toContain(-32603)
  await until(async () => (await get()).every(({ result }) => result?.id === id), {})
  await until(ready)
})
