// Field cases: foreign tasks do not exist; missing or wrong credentials;
// no token in a URL or a log; roles are kept apart.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createLog } from '../../src/base/log.ts'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import {
  a2aClient,
  agentClient,
  openStream,
  post,
  rpc,
  textMessage,
} from '../support/clients/actors.ts'
import { ask, metric, operate, refusalOf, rowCounts, saying } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const stranger = await app.vend(['send'], ['desk'], { name: 'stranger' })
const other = await app.queue('other')
const a2a = a2aClient(app.url, 'desk', client.token)
const foreign = a2aClient(app.url, 'desk', stranger.token)
const worker = agentClient(app.url, agent.token)

const V1 = { 'A2A-Version': '1.0' }
const raw = async (url: string, token: string | null, method: string, params: unknown) => {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      ...V1,
      ...(token && { Authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    text: await response.text(),
  }
}

const methodsOn = (id: string): Record<string, unknown> => {
  const config = { taskId: id, id: 'c' }
  return {
    GetTask: { id },
    CancelTask: { id },
    SubscribeToTask: { id },
    SendMessage: { message: textMessage('x', { taskId: id }) },
    SendStreamingMessage: { message: textMessage('x', { taskId: id }) },
    CreateTaskPushNotificationConfig: { ...config, url: 'https://example.com' },
    GetTaskPushNotificationConfig: config,
    ListTaskPushNotificationConfigs: { taskId: id },
    DeleteTaskPushNotificationConfig: config,
  }
}

test("another tenant's task and one that never was are one answer, byte for byte, in every method and in every state", async () => {
  const task = await a2a.submit('mine', { contextId: 'shared-name' })
  const todo = await worker.claim()
  const check = async () => {
    const before = await rowCounts(app)
    const shown = await a2a.get(task.id)
    for (const [method, params] of Object.entries(methodsOn(task.id))) {
      const theirs = await raw(foreign.endpoint, stranger.token, method, params)
      const never = await raw(
        foreign.endpoint,
        stranger.token,
        method,
        methodsOn(randomUUID())[method],
      )
      expect([method, theirs]).toEqual([method, never])
      expect(theirs.type).toMatch(/^application\/json/)
      expect(JSON.parse(theirs.text).error.code).toBe(-32001)
    }
    expect(await rowCounts(app)).toEqual(before)
    expect(await a2a.get(task.id)).toEqual(shown)
  }
  await check()
  await ask(worker, todo, 'which?')
  await check()
  await a2a.call('CancelTask', { id: task.id })
  await check()
  expect((await a2a.call('ListTasks', {})).result.totalSize).toBe(1)
  expect((await foreign.call('ListTasks', {})).result).toMatchObject({ tasks: [], totalSize: 0 })
  expect((await foreign.call('ListTasks', { contextId: 'shared-name' })).result.tasks).toEqual([])
})

test('a context of the same name is two conversations for two tenants', async () => {
  const contextId = randomUUID()
  const mine = await a2a.submit('mine', { contextId })
  const theirs = await foreign.submit('theirs', { contextId })
  expect(theirs.contextId).toBe(contextId)
  const ids = async (side: typeof a2a) =>
    (await side.call('ListTasks', { contextId })).result.tasks.map(({ id }: { id: string }) => id)
  expect(await ids(a2a)).toEqual([mine.id])
  expect(await ids(foreign)).toEqual([theirs.id])
  await a2a.call('CancelTask', { id: mine.id })
  await foreign.call('CancelTask', { id: theirs.id })
})

test('a page token of another caller opens nothing of theirs', async () => {
  for (const text of ['a', 'b', 'c']) {
    const { id } = await a2a.submit(text)
    await a2a.call('CancelTask', { id })
  }
  const { nextPageToken } = (await a2a.call('ListTasks', { pageSize: 1 })).result
  expect(nextPageToken).not.toBe('')
  const { error } = await foreign.call('ListTasks', { pageToken: nextPageToken })
  expect(error.code).toBe(-32602)
})

const SURFACES = (token: string | null): [string, () => Promise<Response>][] => {
  const headers = {
    'Content-Type': 'application/json',
    ...V1,
    ...(token !== null && { Authorization: token }),
  }
  const posts = (url: string, method: string, params: unknown) => () =>
    fetch(`${app.url}${url}`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
  const message = textMessage('x')
  return [
    ['a send', posts('/a2a/desk/', 'SendMessage', { message })],
    ['a stream', posts('/a2a/desk/', 'SendStreamingMessage', { message })],
    ['a read', posts('/a2a/desk/', 'ListTasks', {})],
    ['a claim', posts('/agent', 'todos.claim', {})],
    ['an operator call', posts('/operator', 'queues.list', {})],
    ['the board feed', () => fetch(`${app.url}/board/events`, { headers })],
    ['the agent feed', () => fetch(`${app.url}/agent/events`, { headers })],
  ]
}

test('without a good token every surface answers 401 with a challenge, opens no stream and makes nothing', async () => {
  const expired = await app.vend(['send', 'work', 'watch'], ['desk'])
  await app.sql(`update endpoints set expires_at = now() - interval '1 second' where id = $1`, [
    expired.endpoint.id,
  ])
  const revoked = await app.vend(['send', 'work', 'watch'], ['desk'])
  await operate(app, 'endpoints.revoke', { id: revoked.endpoint.id })
  const before = await rowCounts(app)
  const failures = await metric(app, 'switchboard_auth_failures_total')
  let refused = 0
  for (const token of [
    null,
    'Bearer',
    'Bearer ',
    `Basic ${client.token}`,
    client.token,
    `Bearer ${client.token.slice(0, -1)}`,
    `Bearer ${client.token}x`,
    `Bearer ${'x'.repeat(2000)}`,
    `Bearer ${expired.token}`,
    `Bearer ${revoked.token}`,
    `Bearer ' or 1=1 --`,
  ]) {
    for (const [what, ask] of SURFACES(token)) {
      const response = await ask()
      expect([what, token, response.status]).toEqual([what, token, 401])
      expect(response.headers.get('www-authenticate')).toMatch(/^Bearer /)
      expect(response.headers.get('content-type')).not.toMatch(/event-stream/)
      expect(await response.text()).not.toContain(client.token.slice(0, 20))
      refused += 1
    }
  }
  expect(await rowCounts(app)).toEqual(before)
  expect(await metric(app, 'switchboard_auth_failures_total')).toBe(failures + refused)
})

test('a token in the URL lets nobody in', async () => {
  for (const name of ['token', 'access_token', 'key', 'authorization']) {
    for (const [url, token] of [
      ['/a2a/desk/', client.token],
      ['/agent', agent.token],
      ['/operator', ADMIN_TOKEN],
    ]) {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'x' })
      expect((await post(`${app.url}${url}?${name}=${token}`, body, { headers: V1 })).status).toBe(
        401,
      )
    }
    expect((await fetch(`${app.url}/board/events?${name}=${ADMIN_TOKEN}`)).status).toBe(401)
    expect((await fetch(`${app.url}/agent/events?${name}=${agent.token}`)).status).toBe(401)
  }
})

test('a client may not work, an agent may not send, and neither may operate or watch', async () => {
  const task = await a2a.submit('x')
  const before = await rowCounts(app)
  const asClient = agentClient(app.url, client.token)
  const held = { id: task.id, fence: '1' }
  for (const [method, params] of [
    ['todos.claim', {}],
    ['todos.heartbeat', held],
    ['todos.complete', held],
    ['todos.get', { id: task.id }],
    ['todos.list', {}],
  ] as const) {
    expect((await refusalOf(asClient.call(method, params))).code).toBe(-32011)
  }
  const asAgent = a2aClient(app.url, 'desk', agent.token)
  for (const [method, params] of Object.entries(methodsOn(task.id))) {
    expect((await asAgent.call(method, params)).error.code).toBe(-32000)
  }
  expect((await asAgent.call('SendMessage', { message: textMessage('x') })).error.code).toBe(-32000)
  expect((await asAgent.call('ListTasks', {})).error.code).toBe(-32000)
  for (const token of [client.token, agent.token]) {
    for (const [method, params] of [
      ['queues.put', { name: 'mine' }],
      ['endpoints.vend', { name: 'x', queues: ['desk'], verbs: ['send'] }],
      ['settings.set', { key: 'sse_retry_ms', value: '1' }],
      ['todos.list', {}],
      ['todos.show', { id: task.id }],
      ['todos.cancel', { id: task.id }],
      ['todos.answer', { id: task.id, message: saying('x') }],
    ] as const) {
      const { error } = await rpc(`${app.url}/operator`, method, params, { token })
      expect([method, error.code]).toEqual([method, -32011])
    }
    expect((await openStream(`${app.url}/board/events`, { token })).status).toBe(403)
  }
  expect((await openStream(`${app.url}/agent/events`, { token: client.token })).status).toBe(403)
  expect(await rowCounts(app)).toEqual(before)
  const todo = await worker.claim()
  expect(todo.id).toBe(task.id)
  await worker.call('todos.complete', todo.held)
})

test('the admin token operates and does not pass as a client or an agent', async () => {
  const admin = a2aClient(app.url, 'desk', ADMIN_TOKEN)
  expect((await admin.call('SendMessage', { message: textMessage('x') })).error.code).toBe(-32000)
  const { error } = await rpc(`${app.url}/agent`, 'todos.claim', {}, { token: ADMIN_TOKEN })
  expect(error.code).toBe(-32011)
})

test('who may watch may not cancel, and sees its own queues alone', async () => {
  const watcher = await app.vend(['watch'], ['desk'])
  const mine = await a2a.submit('x')
  const theirs = await a2aClient(app.url, 'other', other.client.token).submit('x')
  const call = (method: string, params: unknown) =>
    rpc(`${app.url}/operator`, method, params, { token: watcher.token })
  expect((await call('todos.show', { id: mine.id })).result.id).toBe(mine.id)
  expect((await call('todos.show', { id: theirs.id })).error.code).toBe(-32012)
  const { todos } = (await call('todos.list', {})).result
  expect(new Set(todos.map(({ queue }: { queue: string }) => queue))).toEqual(new Set(['desk']))
  for (const method of ['todos.cancel', 'todos.answer']) {
    const params = { id: mine.id, ...(method === 'todos.answer' && { message: saying('x') }) }
    expect((await call(method, params)).error.code).toBe(-32011)
  }
  expect((await a2a.get(mine.id)).status.state).toBe('TASK_STATE_SUBMITTED')
  await a2a.call('CancelTask', { id: mine.id })
  await a2aClient(app.url, 'other', other.client.token).call('CancelTask', { id: theirs.id })
})

test("an agent cannot touch another queue's todo, nor another agent's in its own queue", async () => {
  const task = await a2a.submit('x')
  const todo = await worker.claim()
  const colleague = await app.vend(['work'], ['desk'])
  const sides = [
    [agentClient(app.url, other.agent.token), -32012, 'not_found'],
    [agentClient(app.url, colleague.token), -32010, 'stale_fence'],
  ] as const
  for (const [side, code, reason] of sides) {
    for (const method of ['heartbeat', 'complete', 'release', 'reject', 'messages', 'progress']) {
      const refusal = await refusalOf(side.call(`todos.${method}`, todo.held))
      expect([method, refusal.code, refusal.data.reason]).toEqual([method, code, reason])
    }
  }
  const [elsewhere] = sides[0]
  expect((await refusalOf(elsewhere.call('todos.get', { id: task.id }))).code).toBe(-32012)
  expect((await refusalOf(elsewhere.call('todos.claim', { queues: ['desk'] }))).code).toBe(-32011)
  await worker.call('todos.complete', todo.held)
})

test('an endpoint revoked a moment ago can do nothing more on any surface', async () => {
  const vended = await app.vend(['send', 'work', 'watch'], ['desk'])
  const client = a2aClient(app.url, 'desk', vended.token)
  const { id } = await client.submit('x')
  await operate(app, 'endpoints.revoke', { id: vended.endpoint.id, cancelTasks: true })
  for (const [, ask] of SURFACES(`Bearer ${vended.token}`)) expect((await ask()).status).toBe(401)
  expect((await operate(app, 'todos.show', { id })).state).toBe('canceled')
})

test('no token and no header that held one is ever in the log, good or bad, at its most talkative', async () => {
  const lines: string[] = []
  const log = createLog('trace', { write: (line: string) => void lines.push(line) })
  const node = await startNode(app.databaseUrl, { log })
  const wrong = 'swb_wrong-token-of-somebody'
  for (const token of [client.token, agent.token, ADMIN_TOKEN, wrong]) {
    for (const path of ['/a2a/desk/', '/agent', '/operator', `/a2a/desk/?token=${token}`]) {
      const params = { message: textMessage('x', { taskId: 'x' }), token, credentials: token }
      for (const method of ['SendMessage', 'todos.claim', 'NoSuchThing']) {
        await post(
          `${node.url}${path}`,
          JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
          { token, headers: V1 },
        )
      }
    }
    const feed = await openStream(`${node.url}/board/events?token=${token}`, { token })
    feed.close()
  }
  await node.stop()
  expect(lines.length).toBeGreaterThan(0)
  for (const token of [client.token, agent.token, ADMIN_TOKEN, wrong]) {
    expect(lines.join('')).not.toContain(token)
  }
  expect(lines.join('')).not.toMatch(/Bearer |authorization/i)
})
