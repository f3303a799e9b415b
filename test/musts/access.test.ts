// Who gets in, and what stays secret: requests for authorisation (MUSTs 82, 83), the extended card
// (84), logs (85), file references (88).
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createLog } from '../../src/base/log.ts'
import { dialectsOf } from '../contract/dialects.ts'
import { startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient, post, rpc, textMessage } from '../support/clients/actors.ts'
import { textMessage03, v03Client } from '../support/clients/old-clients.ts'
import { startReceiver } from '../support/network/receiver.ts'
import { ask, operate, refusalOf, rowCounts, saying } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

test('credentials are read from their header only, and nowhere in a body', async () => {
  const before = await rowCounts(app)
  const { token } = client
  const message = textMessage('x', { metadata: { authorization: `Bearer ${token}`, token } })
  const params = { message, metadata: { token }, token, authorization: `Bearer ${token}` }
  for (const body of [
    { jsonrpc: '2.0', id: 1, method: 'SendMessage', params },
    { jsonrpc: '2.0', id: 1, method: 'SendMessage', params, token, headers: { token } },
  ]) {
    const answer = await post(a2a.endpoint, JSON.stringify(body), {
      headers: { 'A2A-Version': '1.0' },
    })
    expect(answer.status).toBe(401)
    expect(JSON.stringify(answer.body)).not.toContain(token)
  }
  const sent = await post(`${a2a.endpoint}message:send`, JSON.stringify(params), {
    headers: { 'A2A-Version': '1.0' },
  })
  expect(sent.status).toBe(401)
  expect(await rowCounts(app)).toEqual(before)
})

test('a request for authorisation that was answered lets nobody in and gives nothing', async () => {
  const { result } = await a2a.call('SendMessage', {
    message: textMessage('pay'),
    configuration: { returnImmediately: true },
    metadata: { 'urn:switchboard:effects': ['pay:small'] },
  })
  const { id } = result.task
  const todo = await worker.claim()
  const stranger = a2aClient(app.url, 'desk', (await app.vend(['send'], ['desk'])).token)
  const mayStill = async () => {
    expect((await stranger.call('GetTask', { id })).error.code).toBe(-32001)
    const { effects } = await worker.call('todos.get', { id })
    expect(effects).toEqual(['pay:small'])
    const child = { queue: 'desk', message: saying('x'), effects: ['pay:large'] }
    const refusal = await refusalOf(worker.call('todos.fork', { ...todo.held, children: [child] }))
    expect(refusal.code).toBe(-32011)
  }
  await mayStill()
  await ask(worker, todo, 'Log in, please', { state: 'auth-required' })
  expect((await stranger.call('GetTask', { id })).error.code).toBe(-32001)
  const secret = `hunter2-${randomUUID()}`
  await a2a.submit(secret, { taskId: id })
  await mayStill()
  // The credential was for the agent; here it opens nothing, and a later request still needs a token.
  for (const token of [secret, null]) {
    const get = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id } }
    const headers = { 'A2A-Version': '1.0' }
    expect((await post(a2a.endpoint, JSON.stringify(get), { token, headers })).status).toBe(401)
  }
  const { messages } = await worker.call('todos.messages', todo.held)
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages.at(-1).seq })
})

test('a request for authorisation can be met out of band: no credential has to pass through here', async () => {
  const { id } = await a2a.submit('pay')
  const todo = await worker.claim()
  const wordless = { ...todo.held, state: 'auth-required' }
  expect((await refusalOf(worker.call('todos.interrupt', wordless))).code).toBe(-32602)
  await ask(worker, todo, 'Open https://login.example and say when', { state: 'auth-required' })
  expect((await a2a.get(id)).status).toMatchObject({
    state: 'TASK_STATE_AUTH_REQUIRED',
    message: { role: 'ROLE_AGENT', parts: [{ text: 'Open https://login.example and say when' }] },
  })
  await operate(app, 'todos.answer', { id, message: saying('done, elsewhere') })
  expect((await a2a.get(id)).status.state).toBe('TASK_STATE_WORKING')
  const { messages } = await worker.call('todos.messages', todo.held)
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages.at(-1).seq })
})

test('the extended card is refused before anything of it is shown, in every dialect', async () => {
  await app.queue('famous')
  await operate(app, 'queues.put', {
    name: 'famous',
    card: { capabilities: { extendedAgentCard: true }, extended: { description: 'for friends' } },
  })
  const friend = await app.vend(['send'], ['famous'])
  const agentOfIt = await app.vend(['work'], ['famous'])
  const gone = await app.vend(['send'], ['famous'])
  await operate(app, 'endpoints.revoke', { id: gone.endpoint.id })
  const answersTo = (token: string | null) =>
    Promise.all(
      dialectsOf({ url: app.url, queue: 'famous', token }).map((each) => each.extendedCard()),
    )
  for (const [token, status] of [
    [null, 401],
    ['swb_nobody', 401],
    [gone.token, 401],
    [client.token, 403],
    [agentOfIt.token, 403],
  ] as const) {
    for (const answer of await answersTo(token)) {
      expect(answer.status).toBe(status)
      if (status === 401) expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer/)
      expect(JSON.stringify(answer.body)).not.toContain('friends')
    }
  }
  for (const { status, body } of await answersTo(friend.token)) {
    expect(status).toBe(200)
    expect((body.result ?? body).description).toBe('for friends')
  }
})

test('what clients and agents say is in no line of the log, at its most talkative', async () => {
  const lines: string[] = []
  const log = createLog('trace', { write: (line: string) => void lines.push(line) })
  const node = await startNode(app.databaseUrl, { log })
  const secret = `private-${randomUUID()}`
  const here = a2aClient(node.url, 'desk', client.token)
  const there = agentClient(node.url, agent.token)
  const task = await here.submit(secret, { contextId: secret, metadata: { [secret]: secret } })
  const todo = await there.claim()
  await there.call('todos.say', { ...todo.held, message: saying(secret) })
  await there.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId: secret, parts: [{ text: secret }] },
  })
  await there.call('todos.fail', {
    ...todo.held,
    error: { code: 'odd', message: secret },
    summary: secret,
    retryable: false,
  })
  // What is refused is not quoted either.
  await here.call('SendMessage', { message: { ...textMessage(secret), role: secret } })
  await here.call('GetTask', { id: secret })
  await here.call(secret, {})
  await post(here.endpoint, secret, { token: client.token })
  await rpc(here.endpoint, 'message/send', { message: textMessage03(secret, { parts: secret }) })
  await fetch(`${node.url}/a2a/desk/tasks?contextId=${secret}&pageSize=x`, {
    headers: { 'A2A-Version': '1.0', Authorization: `Bearer ${client.token}` },
  })
  expect((await here.get(task.id)).status.state).toBe('TASK_STATE_FAILED')
  await node.stop()
  expect(lines.length).toBeGreaterThan(0)
  expect(lines.filter((line) => line.includes(secret))).toEqual([])
})

test('the addresses of files are handed on and never fetched', async () => {
  const receiver = await startReceiver()
  const url = `${receiver.url}/secret`
  const inside = 'http://169.254.169.254/latest/meta-data/'
  const parts = [{ url, mediaType: 'text/plain' }, { url: inside }, { url: 'file:///etc/passwd' }]
  const { id } = await a2a.submit('', { parts })
  const file = { kind: 'file', file: { uri: url, mimeType: 'text/plain' } }
  const older = v03Client(app.url, 'desk', client.token)
  const second = await older.submit('', { parts: [file] })
  for (const task of [id, second.id]) {
    const todo = await worker.claim()
    expect(todo.id).toBe(task)
    await worker.call('todos.complete', {
      ...todo.held,
      artifacts: [{ artifactId: 'a', parts }],
      message: { parts },
    })
  }
  expect((await a2a.get(id)).artifacts[0].parts).toEqual(parts)
  expect((await a2a.get(id)).history[0].parts).toEqual(parts)
  expect((await older.get(second.id)).history[0].parts).toEqual([file])
  expect(receiver.told).toEqual([])
})
