// HTTP+JSON of A2A 0.3 as the wire has it: routes, both dialects, streams, errors.
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import {
  type Answered,
  agentClient,
  type Frame,
  textMessage,
} from '../../support/clients/actors.ts'
import { restClient } from '../../support/clients/rest.ts'
import {
  ask,
  type Claimed,
  nextOf,
  ODD_TEXT,
  rowCounts,
  saying,
  UNKNOWN_ID,
} from '../../support/steps.ts'

const app = await startApp({ pollMs: 60_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
// No version is 0.3.
const rest = restClient(app.url, 'desk', client.token, null)
const v1 = restClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

let made = 0
const proto = (text: string, more = {}) => {
  made += 1
  return { messageId: `p-${made}`, role: 'ROLE_USER', content: [{ text }], ...more }
}
const core = (text: string, more = {}) => {
  made += 1
  const parts = [{ kind: 'text', text }]
  return { kind: 'message', messageId: `c-${made}`, role: 'user', parts, ...more }
}
const send = (message: object, configuration?: object) =>
  rest.call('POST', '/v1/message:send', { body: { message, configuration } })
const submit = async (message: object = proto('x')) =>
  (await send(message, { blocking: false })).body.task
const submitAndClaim = async () => {
  await submit()
  return worker.claim()
}
const say = (todo: Claimed, text: string) =>
  worker.call('todos.say', { ...todo.held, message: saying(text) })

const expectError = ({ status, headers, body }: Answered, expected: [number, number]) => {
  expect([status, body.code]).toEqual(expected)
  expect(body.message).toEqual(expect.any(String))
  expect(body.error).toBeUndefined()
  expect(headers.get('content-type')).toMatch(/^application\/json\b/)
}

test.each([
  ['the JSON of the proto', proto],
  ['the objects of the schema', core],
])('a send in %s waits and is answered with the wrapped task', async (_dialect, message) => {
  const sent = send(message(ODD_TEXT))
  const todo = await worker.claim()
  expect(todo.message.parts).toEqual([{ text: ODD_TEXT }])
  await worker.call('todos.complete', { ...todo.held, message: saying(ODD_TEXT) })
  const { status, headers, body } = await sent
  expect(status).toBe(200)
  expect(headers.get('content-type')).toMatch(/^application\/json\b/)
  expect(body.task).toMatchObject({
    id: todo.id,
    contextId: todo.contextId,
    status: {
      state: 'TASK_STATE_COMPLETED',
      message: { role: 'ROLE_AGENT', content: [{ text: ODD_TEXT }] },
    },
    history: [{ role: 'ROLE_USER', content: [{ text: ODD_TEXT }] }],
  })
  expect(JSON.stringify(body)).not.toContain('"kind"')
})

test('the type of the answer is JSON, also for those who name that of A2A', async () => {
  const { headers } = await rest.call('GET', '/v1/tasks', {
    headers: { Accept: 'application/a2a+json' },
  })
  expect(headers.get('content-type')).toMatch(/^application\/json\b/)
})

test('one task shows the same facts in both versions', async () => {
  const todo = await submitAndClaim()
  await ask(worker, todo, 'well?')
  const old = (await rest.get(`/v1/tasks/${todo.id}`)).body
  const now = (await v1.get(`/tasks/${todo.id}`)).body
  expect(old.status).toMatchObject({
    state: 'TASK_STATE_INPUT_REQUIRED',
    timestamp: now.status.timestamp,
    message: { messageId: now.status.message.messageId, content: [{ text: 'well?' }] },
  })
  expect([old.id, old.contextId]).toEqual([now.id, now.contextId])
  const { status, body } = await rest.call('POST', `/v1/tasks/${todo.id}:cancel`)
  expect([status, body.status.state]).toEqual([200, 'TASK_STATE_CANCELLED'])
})

test('files come and go in the words of the proto', async () => {
  const content = [
    { file: { file_with_bytes: 'aGk=', mime_type: 'text/plain' } },
    { file: { fileWithUri: 'https://example.com/a.png', mimeType: 'image/png' } },
    { data: { data: { n: 1 } } },
  ]
  const { id } = await submit(proto('', { content }))
  const todo = await worker.claim()
  expect(todo.message.parts).toEqual([
    { raw: 'aGk=', mediaType: 'text/plain' },
    { url: 'https://example.com/a.png', mediaType: 'image/png' },
    { data: { n: 1 } },
  ])
  await worker.call('todos.complete', {
    ...todo.held,
    artifacts: [{ artifactId: 'a', parts: todo.message.parts }],
  })
  const { artifacts, history } = (await rest.get(`/v1/tasks/${id}`)).body
  const shown = [
    { file: { fileWithBytes: 'aGk=', mimeType: 'text/plain' } },
    { file: { fileWithUri: 'https://example.com/a.png', mimeType: 'image/png' } },
    { data: { data: { n: 1 } } },
  ]
  expect(artifacts[0].parts).toEqual(shown)
  expect(history[0].content).toEqual(shown)
})

test('tasks are listed as a bare array', async () => {
  const { client: other } = await app.queue('lists')
  const lists = restClient(app.url, 'lists', other.token, '0.3')
  expect((await lists.get('/v1/tasks')).body).toEqual([])
  const body = { message: proto('x'), configuration: {} }
  const { task } = (await lists.call('POST', '/v1/message:send', { body })).body
  await lists.call('POST', '/v1/message:send', { body: { ...body, message: proto('y') } })
  await lists.call('POST', `/v1/tasks/${task.id}:cancel`)
  const ids = async (query: Record<string, string>) =>
    (await lists.get('/v1/tasks', query)).body.map(({ id }: { id: string }) => id)
  expect(await ids({})).toHaveLength(2)
  expect(await ids({ pageSize: '1' })).toEqual([task.id])
  for (const status of ['canceled', 'TASK_STATE_CANCELLED', 'TASK_STATE_CANCELED']) {
    expect(await ids({ status })).toEqual([task.id])
  }
  expectError(await lists.get('/v1/tasks', { status: 'gone' }), [400, -32602])
})

test('a history of length 0 is all of it', async () => {
  const { id } = await submit()
  const { body } = await rest.get(`/v1/tasks/${id}`, { historyLength: '0' })
  expect(body.history).toHaveLength(1)
  expectError(await rest.get(`/v1/tasks/${id}`, { historyLength: '-1' }), [400, -32602])
  await rest.call('POST', `/v1/tasks/${id}:cancel`, { body: 'null' })
})

const stateOf = ({ json }: Frame): string | undefined =>
  (json.task ?? json.statusUpdate)?.status.state

test('a stream shows bare payloads and ends with the one that is final', async () => {
  const stream = await rest.stream('POST', '/v1/message:stream', { body: { message: proto('x') } })
  expect(Object.keys((await nextOf(stream)).json)).toEqual(['task'])
  const todo = await worker.claim()
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId: 'a', parts: [{ text: 'A' }] },
  })
  await ask(worker, todo, 'well?')
  const frames = await stream.rest()
  expect(frames.map(({ json }) => Object.keys(json)[0])).toEqual([
    'statusUpdate',
    'artifactUpdate',
    'statusUpdate',
  ])
  expect(frames.map(({ json }) => json.statusUpdate?.final)).toEqual([false, undefined, true])
  expect(frames.map(stateOf).at(-1)).toBe('TASK_STATE_INPUT_REQUIRED')
  await rest.call('POST', `/v1/tasks/${todo.id}:cancel`)
})

test.each(['GET', 'POST'] as const)(
  'a task is followed by %s, resumed, and once it has ended shown and left',
  async (method) => {
    const todo = await submitAndClaim()
    const path = `/v1/tasks/${todo.id}:subscribe`
    const stream = await rest.stream(method, path)
    const first = await nextOf(stream)
    expect(stateOf(first)).toBe('TASK_STATE_WORKING')
    stream.close()
    await say(todo, 'n1')
    const resumed = await rest.stream(method, path, { headers: { 'Last-Event-ID': first.id! } })
    await worker.call('todos.complete', todo.held)
    expect((await resumed.rest()).map(stateOf)).toEqual([
      'TASK_STATE_WORKING',
      'TASK_STATE_COMPLETED',
    ])
    const over = await (await rest.stream(method, path)).rest()
    expect(over.map(stateOf)).toEqual(['TASK_STATE_COMPLETED'])
  },
)

test('errors are bare, with the code of JSON-RPC under their HTTP status', async () => {
  const before = await rowCounts(app)
  expectError(await rest.get(`/v1/tasks/${UNKNOWN_ID}`), [404, -32001])
  expectError(await rest.call('POST', `/v1/tasks/${UNKNOWN_ID}:cancel`), [404, -32001])
  expectError(await rest.call('GET', `/v1/tasks/${UNKNOWN_ID}:subscribe`), [404, -32001])
  expectError(await send(proto('x', { taskId: UNKNOWN_ID })), [404, -32001])
  expectError(await send(proto('x', { content: [] })), [400, -32602])
  expectError(await send(core('x', { role: 'agent' })), [400, -32602])
  expectError(await rest.call('POST', '/v1/message:send', { body: '{' }), [400, -32700])
  expectError(await rest.call('POST', '/v1/message:send', { body: '[]' }), [400, -32602])
  expectError(await rest.call('GET', '/v1/message:send'), [405, -32601])
  expectError(await rest.call('GET', '/v1/tasks', { token: null }), [401, -32000])
  const headers = { 'Content-Type': 'text/plain' }
  expectError(await rest.call('POST', '/v1/message:send', { body: 'x', headers }), [415, -32005])
  expectError(await rest.get('/v1/card'), [400, -32004])
  const stranger = restClient(app.url, 'nowhere', client.token, null)
  expectError(await stranger.get('/v1/tasks'), [403, -32000])
  expect(await rowCounts(app)).toEqual(before)
})

test('a push config is made by each of the bodies that clients send, and is one resource', async () => {
  const { id } = await submit()
  const configs = `/v1/tasks/${id}/pushNotificationConfigs`
  const pushNotificationConfig = { url: 'https://example.com/hook' }
  for (const body of [
    { name: `tasks/${id}/pushNotificationConfigs/c`, pushNotificationConfig },
    { config: { pushNotificationConfig } },
    {
      parent: `tasks/${id}`,
      config_id: 'c',
      config: { push_notification_config: pushNotificationConfig },
    },
  ]) {
    const made = await rest.call('POST', configs, { body })
    expect([made.status, made.body.pushNotificationConfig.url]).toEqual([
      200,
      pushNotificationConfig.url,
    ])
  }
  const named = (await rest.get(`${configs}/c`)).body
  expect(named).toMatchObject({
    name: `tasks/${id}/pushNotificationConfigs/c`,
    pushNotificationConfig,
  })
  expect((await rest.get(configs)).body.configs).toContainEqual(named)
  for (let round = 0; round < 2; round += 1) {
    expect((await rest.call('DELETE', `${configs}/c`)).status).toBe(200)
  }
  expectError(await rest.get(`${configs}/c`), [404, -32001])
  await rest.call('POST', `/v1/tasks/${id}:cancel`)

  const card = { capabilities: { pushNotifications: false } }
  await app.services.operator.putQueue({ name: 'desk', card })
  expectError(await rest.get(configs), [400, -32003])
  const body = { config: { pushNotificationConfig } }
  expectError(await rest.call('POST', configs, { body }), [400, -32003])
  expectError(await send(proto('x'), { pushNotification: pushNotificationConfig }), [400, -32003])
  await app.services.operator.putQueue({ name: 'desk', card: { capabilities: {} } })
})

test('a path of the one version is not one of the other', async () => {
  const { status, body } = await v1.get('/v1/tasks')
  expect([status, body.code]).toEqual([404, -32601])
  const answer = await rest.get('/tasks')
  expect([answer.status, answer.body.error.message]).toEqual([
    400,
    expect.stringContaining('A2A-Version'),
  ])
  for (const version of ['0.3', '0.3.0', '']) {
    const named = restClient(app.url, 'desk', client.token, version)
    expect((await named.get('/v1/tasks')).status).toBe(200)
  }
  const never = restClient(app.url, 'desk', client.token, '0.2')
  expectError(await never.get('/v1/tasks'), [400, -32600])
  expect((await v1.call('GET', '/v1/tasks', { body: undefined })).status).toBe(404)
  expect((await v1.call('POST', '/tasks', { body: { message: textMessage('x') } })).status).toBe(
    405,
  )
})
