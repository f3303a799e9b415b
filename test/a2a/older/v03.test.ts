// A2A 0.3 beside 1.0 on one URL.
// Field cases: invalid messages store nothing; version checked on every method;
// one task in two dialects; text survives every path; one meaning of history length;
// undeclared capabilities; a context must match its task; task ids refer and never create;
// no messages into finished tasks; cancel is idempotent; blocking sends; authorization requests;
// foreign tasks do not exist.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import {
  type Answer,
  a2aClient,
  agentClient,
  post,
  textMessage,
} from '../../support/clients/actors.ts'
import { textMessage03, v03Client } from '../../support/clients/old-clients.ts'
import { ask, ODD_TEXT, operate, rowCounts, saying, UNKNOWN_ID } from '../../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const stranger = await app.vend(['send'], ['desk'], { name: 'stranger' })
const v03 = v03Client(app.url, 'desk', client.token)
const v1 = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

const raw = async (method: string, params: unknown, version?: string, query = '') =>
  (
    await post(
      `${v03.endpoint}${query}`,
      JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      {
        token: client.token,
        ...(version !== undefined && { headers: { 'A2A-Version': version } }),
      },
    )
  ).body

test('the version of a request decides which methods there are, and says so', async () => {
  const get = { id: UNKNOWN_ID }
  for (const version of [undefined, '', '0.3', '0.3.0', ' 0.3 ']) {
    expect((await raw('tasks/get', get, version)).error.code).toBe(-32001)
    const { error } = await raw('GetTask', get, version)
    expect(error).toMatchObject({
      code: -32601,
      message: expect.stringMatching(/A2A-Version: 1\.0/),
    })
  }
  for (const version of ['1.0', '1.0.3']) {
    expect((await raw('GetTask', get, version)).error.code).toBe(-32001)
    for (const method of ['tasks/get', 'message/send', 'tasks/send']) {
      const { error } = await raw(method, get, version)
      expect(error).toMatchObject({
        code: -32601,
        message: expect.stringMatching(/A2A-Version: 0\.3/),
      })
    }
  }
  for (const version of ['0.2', '0.5', '2.0', 'x']) {
    for (const method of ['tasks/get', 'GetTask', 'none']) {
      expect((await raw(method, get, version)).error).toMatchObject({
        code: -32009,
        data: [{ metadata: { supportedVersions: '1.0,0.3' } }],
      })
    }
  }
  expect((await raw('tasks/get', get, undefined, '?A2A-Version=0.3')).error.code).toBe(-32001)
  expect((await raw('tasks/get', get, '0.3', '?A2A-Version=1.0')).error.code).toBe(-32001)
  expect((await raw('tasks/list', {})).error.code).toBe(-32601)
})

/** What 0.3 says of a task of 1.0, said by hand. */
const STATES: Record<string, string> = {
  TASK_STATE_SUBMITTED: 'submitted',
  TASK_STATE_WORKING: 'working',
  TASK_STATE_INPUT_REQUIRED: 'input-required',
  TASK_STATE_COMPLETED: 'completed',
}
const part03 = (part: Answer) => {
  const { filename: name, mediaType: mimeType, raw: bytes, url: uri, metadata } = part
  const more = metadata ? { metadata } : {}
  if ('text' in part) return { kind: 'text', text: part.text, ...more }
  if ('data' in part) return { kind: 'data', data: part.data, ...more }
  return { kind: 'file', file: JSON.parse(JSON.stringify({ name, mimeType, bytes, uri })), ...more }
}
const message03 = (message: Answer) => ({
  ...message,
  kind: 'message',
  role: message.role === 'ROLE_USER' ? 'user' : 'agent',
  parts: message.parts.map(part03),
})
const task03 = ({ status, history, artifacts, ...task }: Answer) => ({
  ...task,
  kind: 'task',
  status: {
    ...status,
    state: STATES[status.state],
    ...(status.message && { message: message03(status.message) }),
  },
  ...(history && { history: history.map(message03) }),
  ...(artifacts && {
    artifacts: artifacts.map((artifact: Answer) => ({
      ...artifact,
      parts: artifact.parts.map(part03),
    })),
  }),
})

test('one task read in two versions shows the same facts, whichever of them made it', async () => {
  const parts = [
    { kind: 'text', text: ODD_TEXT },
    { kind: 'file', file: { bytes: 'aGk=', name: 'a.txt', mimeType: 'text/plain' } },
    { kind: 'file', file: { uri: 'https://f.example.org/a.png', mimeType: 'image/png' } },
    { kind: 'data', data: { total: 12.5 }, metadata: { k: [1, null] } },
  ]
  const makers: (() => Promise<Answer>)[] = [
    () => v1.submit(ODD_TEXT, { contextId: randomUUID() }),
    () => v03.submit('x', { parts, metadata: { m: 1 }, extensions: ['urn:x'] }),
  ]
  for (const make of makers) {
    const { id } = await make()
    const same = async () => {
      const task = await v1.get(id)
      expect(task.status.timestamp).toMatch(TIMESTAMP)
      expect(await v03.get(id)).toEqual(task03(task))
      return task
    }
    await same()
    const todo = await worker.claim()
    expect(todo.id).toBe(id)
    await worker.call('todos.artifact', {
      ...todo.held,
      artifact: { artifactId: 'a', name: 'n', parts: [{ text: ODD_TEXT }, { data: { n: 1 } }] },
    })
    await worker.call('todos.say', { ...todo.held, message: saying(ODD_TEXT) })
    await same()
    await ask(worker, todo, ODD_TEXT)
    await same()
    const answer = textMessage03('answer', { taskId: id })
    const { result } = await v03.call('message/send', {
      message: answer,
      configuration: { blocking: false },
    })
    expect(result).toMatchObject({ kind: 'task', id, status: { state: 'working' } })
    const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
    expect(messages[0].message).toMatchObject({ messageId: answer.messageId, role: 'ROLE_USER' })
    await worker.call('todos.complete', {
      ...todo.held,
      acknowledge: messages[0].seq,
      message: saying(ODD_TEXT),
    })
    const done = await same()
    expect(done.history.map(({ parts }: Answer) => parts[0].text)).toEqual([
      expect.any(String),
      ODD_TEXT,
      ODD_TEXT,
      'answer',
    ])
  }
})

test('a send waits for the end, for a question and for a request of authorisation, unless told not to', async () => {
  const sent = v03.send('x')
  const todo = await worker.claim()
  await worker.call('todos.complete', {
    ...todo.held,
    artifacts: [{ artifactId: 'a', parts: [{ text: 'A' }] }],
  })
  expect((await sent).result).toMatchObject({
    kind: 'task',
    id: todo.id,
    status: { state: 'completed' },
    artifacts: [{ artifactId: 'a', parts: [{ kind: 'text', text: 'A' }] }],
    history: [{ kind: 'message', role: 'user', taskId: todo.id }],
  })
  for (const state of ['input-required', 'auth-required']) {
    const asked = v03.send('x', {}, { blocking: true })
    const asking = await worker.claim()
    await ask(worker, asking, 'well?', { state })
    expect((await asked).result.status).toMatchObject({
      state,
      message: { role: 'agent', parts: [{ kind: 'text', text: 'well?' }] },
    })
    const canceled = (await v03.call('tasks/cancel', { id: asking.id })).result
    expect(canceled).toMatchObject({ kind: 'task', status: { state: 'canceled' } })
    expect((await v03.call('tasks/cancel', { id: asking.id })).result).toEqual(canceled)
  }
  const { id, status } = await v03.submit('x')
  expect(status.state).toBe('submitted')
  await v03.call('tasks/cancel', { id })
})

test('a bare message of the agent is a message', async () => {
  const sent = v03.send('x')
  const todo = await worker.claim()
  await worker.call('todos.complete', { ...todo.held, direct: true, message: saying('bare') })
  expect((await sent).result).toMatchObject({
    kind: 'message',
    role: 'agent',
    parts: [{ kind: 'text', text: 'bare' }],
    contextId: todo.contextId,
  })
})

test('as much of the history as was asked for, none for nought', async () => {
  const { id } = await v03.submit('one')
  for (const text of ['two', 'three']) await v03.submit(text, { taskId: id })
  const history = async (historyLength?: unknown) =>
    (await v03.call('tasks/get', { id, historyLength })).result?.history
  const texts = async (length?: number) =>
    (await history(length)).map(({ parts }: Answer) => parts[0].text)
  expect(await texts()).toEqual(['one', 'two', 'three'])
  expect(await texts(2)).toEqual(['two', 'three'])
  expect(await history(0)).toBeUndefined()
  for (const bad of [-1, 1.5, 'x']) {
    expect((await v03.call('tasks/get', { id, historyLength: bad })).error.code).toBe(-32602)
  }
  const { result } = await v03.send('three', { taskId: id }, { blocking: false, historyLength: 1 })
  expect(result.history).toHaveLength(1)
  await v03.call('tasks/cancel', { id })
})

const details = (error: Answer) => error.data.map((each: Answer) => each['@type'].split('.').at(-1))

test('what is wrong is refused before anything is stored, and the field is named', async () => {
  const before = await rowCounts(app)
  const good = textMessage03('x')
  const bad: [Answer, string][] = [
    [undefined, 'params'],
    [[], 'params'],
    [{}, 'message'],
    [{ message: { ...good, parts: [] } }, 'message.parts'],
    [{ message: { ...good, messageId: '' } }, 'message.messageId'],
    [{ message: { ...good, role: 'ROLE_USER' } }, 'message.role'],
    [{ message: { ...good, role: undefined } }, 'message.role'],
    [{ message: { ...good, parts: [{ kind: 'text' }] } }, 'message.parts[0]'],
    [{ message: good, configuration: { historyLength: -1 } }, 'configuration.historyLength'],
    [
      { message: good, metadata: { 'urn:switchboard:busy': 'odd' } },
      'metadata.urn:switchboard:busy',
    ],
  ]
  for (const method of ['message/send', 'message/stream']) {
    for (const [params, field] of bad) {
      const { error } = await v03.call(method, params)
      expect(error.code).toBe(-32602)
      expect(details(error)).toContain('BadRequest')
      expect(error.data[1].fieldViolations.map((each: Answer) => each.field)).toContain(field)
    }
  }
  expect(await rowCounts(app)).toEqual(before)
})

test('a task is named by its own id and in its own context, and takes nothing once it has ended', async () => {
  const { id, contextId } = await v03.submit('x')
  const before = await rowCounts(app)
  const errorOf = async (more: object) => (await v03.send('x', more as Answer)).error
  expect(await errorOf({ taskId: id, contextId: 'other' })).toMatchObject({ code: -32602 })
  expect(await errorOf({ taskId: UNKNOWN_ID })).toMatchObject({ code: -32001 })
  expect(await rowCounts(app)).toEqual(before)
  expect((await v03.submit('y', { taskId: id, contextId })).id).toBe(id)
  const todo = await worker.claim()
  await worker.call('todos.complete', { ...todo.held, acknowledge: 99 })
  const ended = await rowCounts(app)
  const of = { taskId: id }
  expect(await errorOf(of)).toMatchObject({
    code: -32004,
    data: [{ metadata: { state: 'completed' } }],
  })
  const stream = await v03.stream('message/stream', { message: textMessage03('x', of) })
  expect(stream.body.error.code).toBe(-32004)
  expect((await v03.call('tasks/cancel', { id })).error.code).toBe(-32002)
  expect(await rowCounts(app)).toEqual(ended)
})

test("another's task and one that never was are one answer, in every method", async () => {
  const { id } = await v03.submit('mine')
  const foreign = v03Client(app.url, 'desk', stranger.token)
  const before = await rowCounts(app)
  const methods = (task: string): [string, unknown][] => [
    ['tasks/get', { id: task }],
    ['tasks/cancel', { id: task }],
    ['tasks/resubscribe', { id: task }],
    ['message/send', { message: textMessage03('x', { taskId: task }) }],
    ['message/stream', { message: textMessage03('x', { taskId: task }) }],
    [
      'tasks/pushNotificationConfig/set',
      { taskId: task, pushNotificationConfig: { url: 'https://example.com/' } },
    ],
    ['tasks/pushNotificationConfig/get', { id: task }],
    ['tasks/pushNotificationConfig/list', { id: task }],
    ['tasks/pushNotificationConfig/delete', { id: task, pushNotificationConfigId: 'c' }],
    ['tasks/pushNotification/get', { id: task }],
  ]
  const never = methods(UNKNOWN_ID)
  for (const [index, [method, params]] of methods(id).entries()) {
    const theirs = await foreign.call(method, params)
    expect([method, theirs]).toEqual([method, await foreign.call(method, never[index]![1])])
    expect([method, theirs.error.code]).toEqual([method, -32001])
  }
  expect(await rowCounts(app)).toEqual(before)
  await v03.call('tasks/cancel', { id })
})

test('the extended card comes in the form of 0.3, under both of its names', async () => {
  const names = ['agent/getAuthenticatedExtendedCard', 'agent/authenticatedExtendedCard']
  for (const name of names) expect((await v03.call(name, undefined)).error.code).toBe(-32004)
  const card = { capabilities: { extendedAgentCard: true } }
  await operate(app, 'queues.put', { name: 'desk', card })
  expect((await v03.call(names[0]!, undefined)).error.code).toBe(-32007)
  await operate(app, 'queues.put', { name: 'desk', card: { ...card, extended: { name: 'More' } } })
  for (const name of names) {
    expect((await v03.call(name, undefined)).result).toMatchObject({
      name: 'More',
      protocolVersion: '0.3.0',
      url: v03.endpoint,
      preferredTransport: 'JSONRPC',
      supportsAuthenticatedExtendedCard: true,
    })
  }
})

test('a card lists 1.0 before 0.3 at one address', async () => {
  const card = (await (await fetch(`${v03.endpoint}.well-known/agent-card.json`)).json()) as Answer
  const jsonRpc = card.supportedInterfaces.filter(
    ({ protocolBinding }: Answer) => protocolBinding === 'JSONRPC',
  )
  expect(jsonRpc.map(({ url, protocolVersion }: Answer) => [url, protocolVersion])).toEqual([
    [v03.endpoint, '1.0'],
    [v03.endpoint, '0.3'],
  ])
})

test('a queue without streams refuses them, and makes no task', async () => {
  const quiet = await app.queue('quiet')
  await operate(app, 'queues.put', { name: 'quiet', card: { capabilities: { streaming: false } } })
  const side = v03Client(app.url, 'quiet', quiet.client.token)
  const { id } = await side.submit('x')
  const before = await rowCounts(app)
  for (const [method, params] of [
    ['message/stream', { message: textMessage03('x') }],
    ['tasks/resubscribe', { id }],
  ] as const) {
    expect((await side.call(method, params)).error.code).toBe(-32004)
  }
  await side.call('tasks/cancel', { id })
  expect((await side.call('tasks/resubscribe', { id })).error.code).toBe(-32004)
  expect((await rowCounts(app)).todos).toBe(before.todos)
})

test('whoever may only answer reads and answers in 0.3, and begins nothing', async () => {
  const human = await app.vend(['answer'], ['desk'])
  const person = v03Client(app.url, 'desk', human.token)
  const { id } = await v03.submit('x')
  const todo = await worker.claim()
  await ask(worker, todo, 'which?')
  expect((await person.get(id)).status.state).toBe('input-required')
  expect((await person.submit('this', { taskId: id })).status.state).toBe('working')
  expect((await person.send('new')).error.code).toBe(-32000)
  await v1.call('CancelTask', { id })
  const { error } = await person.call('message/send', { message: textMessage('x') })
  expect(error.code).toBe(-32602)
})

test('the same send again under a key is the same task', async () => {
  const headers = { 'Idempotency-Key': randomUUID() }
  const send = (text: string) =>
    v03.call(
      'message/send',
      { message: textMessage03(text), configuration: { blocking: false } },
      { headers },
    )
  const ids = await Promise.all(Array.from({ length: 5 }, async () => (await send('x')).result.id))
  expect(new Set(ids).size).toBe(1)
  expect((await send('y')).error).toMatchObject({
    code: -32000,
    data: [{ reason: 'IDEMPOTENCY_CONFLICT' }],
  })
  await v03.call('tasks/cancel', { id: ids[0] })
})
