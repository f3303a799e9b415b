// Extensions over the wire: negotiated, told in the answer, required; and what ours promise.
import { expect, test } from 'vitest'
import { OWN_EXTENSIONS } from '../../src/protocol/a2a/extensions.ts'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, post, rpc, textMessage } from '../support/clients/actors.ts'
import { operate, rowCounts, UNKNOWN_ID } from '../support/steps.ts'

const app = await startApp()
const { client } = await app.queue('desk', { contexts: 'parallel' })
const desk = a2aClient(app.url, 'desk', client.token)
const [ours] = OWN_EXTENSIONS.map(({ uri }) => uri) as [string]
const REQUIRED = 'urn:a2a:tck:required-extension'

await app.queue('strict', { contexts: 'parallel' })
await operate(app, 'queues.put', {
  name: 'strict',
  card: {
    capabilities: {
      extensions: [
        { uri: REQUIRED, required: true },
        { uri: 'https://example.org/optional', required: false },
      ],
    },
  },
})
const { token } = await app.vend(['send'], ['strict'])
const strict = a2aClient(app.url, 'strict', token)
const NOW = { returnImmediately: true }

const sendTo = (queue: string, bearer: string, headers: Record<string, string>) =>
  post(
    `${app.url}/a2a/${queue}/`,
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: { message: textMessage('x'), configuration: NOW },
    }),
    { token: bearer, headers: { 'A2A-Version': '1.0', ...headers } },
  )

test.each<[string, Record<string, string>, string | null]>([
  ['none', {}, null],
  ['one', { 'A2A-Extensions': ours }, ours],
  ['one in the older spelling', { 'X-A2A-Extensions': ours }, ours],
  ['one among unknown ones', { 'A2A-Extensions': `urn:zzz, ${ours} ,urn:yyy` }, ours],
  ['unknown ones', { 'A2A-Extensions': 'urn:zzz' }, null],
  ['another version', { 'A2A-Extensions': ours.replace('/v1', '/v9') }, null],
])('who asks for %s is told what is active', async (_name, headers, active) => {
  const answer = await sendTo('desk', client.token, headers)
  expect(answer.body.result.task.id).toBeTruthy()
  expect(answer.headers.get('a2a-extensions')).toBe(active)
  expect(answer.headers.get('x-a2a-extensions')).toBeNull()
})

test('a header that is repeated is one list', async () => {
  const all = OWN_EXTENSIONS.map(({ uri }) => uri)
  const headers = new Headers({
    'Content-Type': 'application/json',
    Authorization: `Bearer ${client.token}`,
    'A2A-Version': '1.0',
  })
  for (const uri of all) headers.append('A2A-Extensions', uri)
  const response = await fetch(`${app.url}/a2a/desk`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: UNKNOWN_ID } }),
  })
  expect(response.headers.get('a2a-extensions')?.split(', ')).toEqual(all)
})

test('a stream tells it in its headers, too', async () => {
  const stream = await desk.stream(
    'SendStreamingMessage',
    { message: textMessage('x') },
    { headers: { 'A2A-Extensions': ours } },
  )
  expect(stream.headers.get('content-type')).toMatch(/^text\/event-stream/)
  expect(stream.headers.get('a2a-extensions')).toBe(ours)
  const first = await stream.next()
  stream.close()
  await desk.call('CancelTask', { id: first!.json.result.task.id })
})

test('what the card requires must be asked for by who sends, and nothing is stored without', async () => {
  const before = await rowCounts(app)
  const params = { message: textMessage('x'), configuration: NOW }
  const { error } = await strict.call('SendMessage', params)
  expect(error.code).toBe(-32008)
  expect(error.message).toContain(REQUIRED)
  expect(error.data[0]).toEqual({
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason: 'EXTENSION_SUPPORT_REQUIRED',
    domain: 'a2a-protocol.org',
    metadata: { requiredExtensions: REQUIRED },
  })
  const stream = await strict.stream('SendStreamingMessage', params)
  expect(stream.headers.get('content-type')).toMatch(/^application\/json/)
  expect(stream.body.error.code).toBe(-32008)
  expect(await rowCounts(app)).toEqual(before)

  const taken = await strict.call('SendMessage', params, {
    headers: { 'A2A-Extensions': `https://example.org/optional, ${REQUIRED}` },
  })
  expect(taken.result.task.id).toBeTruthy()
  expect((await strict.get(taken.result.task.id)).id).toBe(taken.result.task.id)
  await strict.call('CancelTask', { id: taken.result.task.id })
})

test('it is asked before the params are read, and after the right', async () => {
  const { error } = await strict.call('SendMessage', { message: {} })
  expect(error.code).toBe(-32008)
  const stranger = a2aClient(app.url, 'strict', client.token)
  expect((await stranger.call('SendMessage', { message: {} })).error.code).toBe(-32000)
})

test('in 0.3 it is no error of its own, and named all the same', async () => {
  const call = (headers: Record<string, string>) =>
    post(
      `${app.url}/a2a/strict/`,
      JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'message/send',
        params: {
          message: { messageId: 'm', role: 'user', parts: [{ kind: 'text', text: 'x' }] },
          configuration: { blocking: false },
        },
      }),
      { token, headers },
    )
  const refused = await call({})
  expect(refused.body.error.code).toBe(-32600)
  expect(JSON.stringify(refused.body.error.data)).toContain(REQUIRED)
  const taken = await call({ 'X-A2A-Extensions': REQUIRED })
  expect(taken.body.result.kind).toBe('task')
  expect(taken.headers.get('x-a2a-extensions')).toBe(REQUIRED)
  expect(taken.headers.get('a2a-extensions')).toBeNull()
})

/** Message and path of a send over HTTP+JSON, as each version has them. */
const REST = {
  '1.0': { path: '/message:send', header: 'A2A-Extensions', parts: 'parts' },
  '0.3': { path: '/v1/message:send', header: 'X-A2A-Extensions', parts: 'content' },
}

test.each(Object.entries(REST))(
  'over HTTP+JSON %s it is refused with 400, and told in the answer',
  async (version, { path, header, parts }) => {
    const send = (extensions: Record<string, string>) =>
      post(
        `${app.url}/a2a/strict${path}`,
        JSON.stringify({
          message: { messageId: 'm', role: 'ROLE_USER', [parts]: [{ text: 'x' }] },
          configuration: version === '1.0' ? NOW : { blocking: false },
        }),
        { token, headers: { 'A2A-Version': version, ...extensions } },
      )
    const before = await rowCounts(app)
    const refused = await send({})
    expect(refused.status).toBe(400)
    expect(JSON.stringify(refused.body)).toContain(REQUIRED)
    expect(await rowCounts(app)).toEqual(before)
    const taken = await send({ 'A2A-Extensions': `${REQUIRED},urn:zzz` })
    expect(taken.status).toBe(200)
    expect(taken.headers.get(header)).toBe(REQUIRED)
  },
)

test('over HTTP+JSON 1.0 the refusal has its reason', async () => {
  const { body } = await post(`${app.url}/a2a/strict/message:send`, '{"message":{}}', {
    token,
    headers: { 'A2A-Version': '1.0' },
  })
  expect(body.error.details[0]).toMatchObject({
    reason: 'EXTENSION_SUPPORT_REQUIRED',
    domain: 'a2a-protocol.org',
    metadata: { requiredExtensions: REQUIRED },
  })
})

test('an operator may require one of ours', async () => {
  await app.queue('careful')
  await operate(app, 'queues.put', {
    name: 'careful',
    card: { capabilities: { extensions: [{ uri: ours, required: true }] } },
  })
  const sender = await app.vend(['send'], ['careful'])
  expect((await sendTo('careful', sender.token, {})).body.error.code).toBe(-32008)
  const taken = await sendTo('careful', sender.token, { 'A2A-Extensions': ours })
  expect(taken.body.result.task.id).toBeTruthy()
})

/* ------------------------------------------------------- deadlines: the wait */

const patient = await app.queue('patient', { contexts: 'parallel' })
const waiter = a2aClient(app.url, 'patient', patient.client.token)
const worker = agentClient(app.url, patient.agent.token)

const waiting = (wish: unknown, method = 'SendMessage') =>
  waiter.call(method, {
    message: textMessage('x'),
    metadata: { 'urn:switchboard:wait': wish },
  })

test('a send waits as long as it wishes, and is then answered with the task as it is', async () => {
  for (const maxMs of [0, 30]) {
    const { result } = await waiting({ maxMs })
    expect(result.task.status.state).toBe('TASK_STATE_SUBMITTED')
    await waiter.call('CancelTask', { id: result.task.id })
  }
})

test('a wish beyond what the server allows is as long as that, and ends with the answer', async () => {
  const sent = waiting({ maxMs: Number.MAX_SAFE_INTEGER })
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  expect((await sent).result.task.status.state).toBe('TASK_STATE_COMPLETED')
})

test.each<[unknown, string]>([
  [5, ''],
  [null, ''],
  [{}, '.maxMs'],
  [{ maxMs: -1 }, '.maxMs'],
  [{ maxMs: 1.5 }, '.maxMs'],
  [{ maxMs: '5' }, '.maxMs'],
  [{ maxMs: 5, min: 1 }, ''],
])('the wish %j cannot be read: it is refused, and nothing is stored', async (wish, member) => {
  const before = await rowCounts(app)
  for (const method of ['SendMessage', 'SendStreamingMessage']) {
    const { error } = await waiting(wish, method)
    expect(error.code).toBe(-32602)
    expect(error.data[1].fieldViolations[0].field).toBe(`metadata.urn:switchboard:wait${member}`)
  }
  expect(await rowCounts(app)).toEqual(before)
})

test('the agent and operator APIs know no extensions', async () => {
  const answer = await rpc(
    `${app.url}/agent`,
    'todos.list',
    {},
    {
      token: patient.agent.token,
      headers: { 'A2A-Extensions': ours },
    },
  )
  expect(answer.result).toBeTruthy()
})
