// Field cases: request ids of a wrong type; bodies that do not parse; envelope faults told apart;
// version checked on every method.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, post, textMessage } from '../support/clients/actors.ts'
import { UNKNOWN_ID } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk')
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const postBody = (body: string, version = '1.0') =>
  post(a2a.endpoint, body, { token: client.token, headers: { 'A2A-Version': version } })
const call = (envelope: Record<string, unknown>) => postBody(JSON.stringify(envelope))
const getTask = { jsonrpc: '2.0', method: 'GetTask', params: { id: UNKNOWN_ID } }

test.each([[{ x: 1 }], [[1]], [true]])('an id of %j is no id, and is not echoed', async (id) => {
  const { status, body } = await call({ ...getTask, id })
  expect(status).toBe(200)
  expect(body).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32600 } })
})

test.each([['7'], [7], [0], [-1], ['']])('the id %j is echoed with its type', async (id) => {
  const { body } = await call({ ...getTask, id })
  expect(body.id).toBe(id)
  expect(body.error.code).toBe(-32001)
})

test('an id beyond what a double holds is not echoed as another one', async () => {
  const { body } = await postBody(
    `{"jsonrpc":"2.0","id":9007199254740993,"method":"GetTask","params":{"id":"${UNKNOWN_ID}"}}`,
  )
  expect(body).toMatchObject({ id: null, error: { code: -32600 } })
})

test.each(['{"jsonrpc":"2.0","id":1,', '', 'not json', '\u0000', '{"a":01}'])(
  'a body %j is no JSON: said as JSON, without a trace of the inside',
  async (text) => {
    const { headers, body } = await postBody(text)
    expect(headers.get('content-type')).toMatch(/^application\/json/)
    expect(body).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32700 } })
    expect(JSON.stringify(body)).not.toMatch(/\bat |\.ts\b|\.js\b|node_modules|<|Unexpected/)
    expect((await a2a.call('ListTasks', {})).result.tasks).toEqual([])
  },
)

test.each([
  [-32600, 'an empty method', { method: '' }],
  [-32600, 'no method', { method: undefined }],
  [-32600, 'a method that is a number', { method: 5 }],
  [-32600, 'another version of JSON-RPC', { jsonrpc: '1.0' }],
  [-32601, 'an unknown method', { method: 'NoSuchThing' }],
  [-32601, 'a method named as a member of every object', { method: '__proto__' }],
  [-32601, 'a method of another version', { method: 'tasks/get' }],
])('%i for %s, under the id of the call', async (code, _what, fault) => {
  const { status, body } = await call({ ...getTask, id: 'e', ...fault })
  expect(status).toBe(200)
  expect(body).toMatchObject({ id: 'e', error: { code } })
})

test('a batch and a call without an id are refused and run nothing', async () => {
  const send = { jsonrpc: '2.0', method: 'SendMessage', params: { message: textMessage('x') } }
  const batch = await postBody(JSON.stringify([{ ...send, id: 1 }]))
  expect(batch.body).toMatchObject({ id: null, error: { code: -32600 } })
  expect((await call(send)).body).toMatchObject({ id: null, error: { code: -32600 } })
  expect((await a2a.call('ListTasks', {})).result.totalSize).toBe(0)
})

test('a version that is not served is refused on every method, as plain JSON and without effect', async () => {
  const task = await a2a.submit('to be left alone')
  const todo = await worker.claim()
  const config = { taskId: task.id, url: 'https://example.com/hook' }
  const params: Record<string, unknown> = {
    SendMessage: { message: textMessage('x') },
    SendStreamingMessage: { message: textMessage('x') },
    GetTask: { id: task.id },
    ListTasks: {},
    CancelTask: { id: task.id },
    SubscribeToTask: { id: task.id },
    CreateTaskPushNotificationConfig: config,
    GetTaskPushNotificationConfig: { ...config, id: 'c' },
    ListTaskPushNotificationConfigs: { taskId: task.id },
    DeleteTaskPushNotificationConfig: { taskId: task.id, id: 'c' },
  }
  for (const [method, given] of Object.entries(params)) {
    for (const version of ['0.5', '2.0', 'one', '1']) {
      const { headers, body } = await postBody(
        JSON.stringify({ jsonrpc: '2.0', id: 'v', method, params: given }),
        version,
      )
      expect(headers.get('content-type')).toMatch(/^application\/json/)
      expect(body).toMatchObject({ id: 'v', error: { code: -32009 } })
      expect(body.error.data[0]).toMatchObject({
        '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
        reason: 'VERSION_NOT_SUPPORTED',
        domain: 'a2a-protocol.org',
      })
    }
  }
  expect((await a2a.get(task.id)).status.state).toBe('TASK_STATE_WORKING')
  expect((await a2a.call('ListTasks', {})).result.totalSize).toBe(1)
  await worker.call('todos.complete', todo.held)
})

test('the patch number of a version does not count', async () => {
  const { body } = await postBody(JSON.stringify({ ...getTask, id: 1 }), '1.0.7')
  expect(body.error.code).toBe(-32001)
})
