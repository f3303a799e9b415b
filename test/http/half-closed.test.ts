/**
 * A peer that closes its sending side right after its request, on every route, and one that is gone.
 * Field case: a peer that has sent all it will.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { metric } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk')
const { host, port } = (({ hostname, port }) => ({ host: hostname, port: Number(port) }))(
  new URL(app.url),
)

interface Asked {
  method?: string
  path: string
  token: string
  body?: unknown
}

/** Sends the request, then its end, and reads on. */
const ask = ({ method = 'POST', path, token, body }: Asked) => {
  const socket = connect({ host, port, allowHalfOpen: true })
  const text = body === undefined ? '' : JSON.stringify(body)
  let answer = ''
  socket.on('data', (chunk: Buffer) => {
    answer += chunk
  })
  socket.on('error', () => {})
  socket.end(
    `${method} ${path} HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nAuthorization: Bearer ${token}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
  return { socket, answer: () => answer, ended: once(socket, 'end') }
}

const rpc = (method: string, params: unknown) => ({ jsonrpc: '2.0', id: 1, method, params })
const message = (id: string, more: object = {}) => ({
  message: { messageId: id, role: 'ROLE_USER', parts: [{ text: id }], ...more },
})
const waitingClaims = () => metric(app, 'switchboard_waiting_claims')

/** The status line and body of the answer proper, behind interim ones. */
const finalOf = (answer: string): string =>
  answer.replace(/^(HTTP\/1\.1 1\d\d [^\r]*\r\n\r\n)+/, '')

test('calls that are answered at once are answered in full', async () => {
  const calls: Asked[] = [
    { path: '/agent', token: agent.token, body: rpc('todos.claim', {}) },
    { path: '/operator', token: ADMIN_TOKEN, body: rpc('queues.list', {}) },
    { path: '/a2a/desk/', token: client.token, body: rpc('ListTasks', {}) },
    { method: 'GET', path: '/a2a/desk/tasks', token: client.token },
    { method: 'GET', path: '/healthz', token: client.token },
    { method: 'GET', path: '/a2a/desk/.well-known/agent-card.json', token: client.token },
  ]
  for (const call of calls) {
    const { answer, ended } = ask(call)
    await ended
    expect(finalOf(answer()), call.path).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\n\r\n[\s\S]+$/)
  }
})

test.each([
  ['JSON-RPC', '/a2a/desk/', (id: string) => rpc('SendMessage', message(id))],
  ['HTTP+JSON', '/a2a/desk/message:send', message],
])('a send over %s that waits is answered once the work is done', async (_, path, bodyOf) => {
  const { answer, ended } = ask({ path, token: client.token, body: bodyOf(`waits ${path}`) })
  const worker = agentClient(app.url, agent.token)
  const todo = await worker.claim()
  // It has been found to be there by more than one probe.
  await until(() => (answer().match(/^HTTP\/1\.1 102 /gm)?.length ?? 0) >= 2)
  await worker.call('todos.complete', todo.held)
  await ended
  expect(finalOf(answer())).toMatch(/^HTTP\/1\.1 200 [\s\S]*TASK_STATE_COMPLETED/)
})

test('a claim that waits gets its todo', async () => {
  const { answer, ended } = ask({
    path: '/agent',
    token: agent.token,
    body: rpc('todos.claim', { waitMs: 60_000 }),
  })
  await until(async () => (await waitingClaims()) === 1)
  await until(() => answer().startsWith('HTTP/1.1 102 '))
  const { id } = await a2aClient(app.url, 'desk', client.token).submit('for the half-closed')
  await ended
  const { todos } = JSON.parse(finalOf(answer()).split('\r\n\r\n')[1]!).result
  expect(todos[0].id).toBe(id)
  await agentClient(app.url, agent.token).call('todos.complete', { id, fence: todos[0].fence })
})

test('streams go on to their end', async () => {
  const { answer, ended } = ask({
    path: '/a2a/desk/',
    token: client.token,
    body: rpc('SendStreamingMessage', message('streamed')),
  })
  const worker = agentClient(app.url, agent.token)
  const todo = await worker.claim()
  await until(() => answer().includes('TASK_STATE_WORKING'))
  // The comments that probe it belong to no event.
  await until(() => /^:$/m.test(answer()))
  expect(answer()).not.toMatch(/^:\n\n/m)
  await worker.call('todos.complete', todo.held)
  await ended
  expect(answer()).toContain('TASK_STATE_COMPLETED')

  const feed = ask({ method: 'GET', path: '/board/events', token: ADMIN_TOKEN })
  await until(() => feed.answer().includes('text/event-stream'))
  await until(() => /^:$/m.test(feed.answer()))
  feed.socket.destroy()
})

test('who is gone is noticed, whatever it waited for', async () => {
  const idle = await app.queue('idle')
  const open = () => metric(app, 'switchboard_streams_open{kind="a2a"}')
  const before = await open()
  const asked = [
    ask({ path: '/agent', token: idle.agent.token, body: rpc('todos.claim', { waitMs: 60_000 }) }),
    ask({
      path: '/a2a/desk/',
      token: client.token,
      body: rpc('SendStreamingMessage', message('left')),
    }),
  ]
  await until(async () => (await open()) === before + 1 && (await waitingClaims()) === 1)
  for (const { socket } of asked) socket.destroy()
  await until(async () => (await open()) === before && (await waitingClaims()) === 0)
})
