// Clients that break off, send too much or never end.
// Field cases: blocking sends; hanging up is not canceling; limits and quoting.
import { connect, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, post } from '../support/clients/actors.ts'
import { metric, rowCounts } from '../support/steps.ts'
import { until } from '../support/until.ts'

const LIMIT = 20_000
const app = await startApp({ bodyLimitBytes: LIMIT, pollMs: 60_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const { hostname, port } = new URL(app.url)

const HEAD = [
  'POST /a2a/desk/ HTTP/1.1',
  `Host: ${hostname}`,
  `Authorization: Bearer ${client.token}`,
  'A2A-Version: 1.0',
  'Content-Type: application/json',
]

const dial = (): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => resolve(socket))
    socket.on('error', reject)
  })

/** Everything the server says until it closes. */
const heard = (socket: Socket): Promise<string> =>
  new Promise((resolve) => {
    let text = ''
    socket.removeAllListeners('error')
    socket.on('data', (bytes) => {
      text += bytes
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(text))
  })

const message = (text: string) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'SendMessage',
  params: {
    message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text }] },
    configuration: { returnImmediately: true },
  },
})
const sized = (bytes: number): string => {
  const empty = JSON.stringify(message('')).length
  return JSON.stringify(message('x'.repeat(bytes - empty)))
}
const options = { token: client.token, headers: { 'A2A-Version': '1.0' } }

test('a body of the limit is served, one byte more is refused and makes nothing', async () => {
  const fits = await post(a2a.endpoint, sized(LIMIT), options)
  expect(fits.body.result.task.status.state).toBe('TASK_STATE_SUBMITTED')
  await a2a.call('CancelTask', { id: fits.body.result.task.id })
  const before = await rowCounts(app)
  const over = await post(a2a.endpoint, sized(LIMIT + 1), options)
  expect(over.status).toBe(413)
  expect(over.body).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32600 } })
  expect(over.headers.get('connection')).toBe('close')
  for (const path of ['/agent', '/operator']) {
    const { status } = await post(`${app.url}${path}`, sized(LIMIT + 1), { token: agent.token })
    expect(status).toBe(413)
  }
  expect(await rowCounts(app)).toEqual(before)
})

test('a body without an end is cut off once it is over the limit, and memory stays flat', async () => {
  const before = process.memoryUsage().rss
  const socket = await dial()
  const answer = heard(socket)
  socket.write(`${HEAD.join('\r\n')}\r\nTransfer-Encoding: chunked\r\n\r\n`)
  const chunk = `${(65_536).toString(16)}\r\n${'x'.repeat(65_536)}\r\n`
  let open = true
  socket.on('close', () => {
    open = false
  })
  for (let sent = 0; open && sent < 4000; sent += 1) {
    if (!socket.write(chunk)) {
      await new Promise<void>((resolve) => {
        socket.once('drain', resolve)
        socket.once('close', () => resolve())
      })
    }
  }
  const text = await answer
  expect(open).toBe(false)
  if (text !== '') expect(text).toMatch(/^HTTP\/1\.1 413 /)
  expect(process.memoryUsage().rss - before).toBeLessThan(150 * 1024 * 1024)
  expect((await a2a.call('ListTasks', {})).result.tasks).toBeDefined()
})

test('a body that is broken off makes nothing', async () => {
  const before = await rowCounts(app)
  const body = JSON.stringify(message('half'))
  for (const part of [0, 1, body.length - 1]) {
    const socket = await dial()
    const over = heard(socket)
    socket.write(`${HEAD.join('\r\n')}\r\nContent-Length: ${body.length}\r\n\r\n`)
    socket.write(body.slice(0, part))
    await new Promise(setImmediate)
    socket.destroy()
    await over
  }
  expect((await a2a.call('ListTasks', { pageSize: 1 })).error).toBeUndefined()
  expect(await rowCounts(app)).toEqual(before)
})

test('what is not HTTP, and headers beyond measure, are refused without harm', async () => {
  for (const text of [
    'GARBAGE\r\n\r\n',
    `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`,
    'POST /a2a/desk/ HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
    'POST /a2a/desk/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
  ]) {
    const socket = await dial()
    const answer = heard(socket)
    socket.write(text)
    expect(await answer).toMatch(/^HTTP\/1\.1 4\d\d /)
  }
  expect((await fetch(`${app.url}/healthz`)).status).toBe(200)
})

test('bodies of the wrong kind are 415, and bytes that are no UTF-8 are no JSON', async () => {
  const body = JSON.stringify(message('x'))
  for (const type of ['text/plain', 'application/xml', 'application/json; charset=latin1', '']) {
    const { status, body: answer } = await post(a2a.endpoint, body, {
      ...options,
      headers: { ...options.headers, 'Content-Type': type },
    })
    expect([type, status]).toEqual([type, 415])
    expect(answer.error.code).toBe(-32005)
  }
  const bytes = Buffer.from(body.replace('"x"', '"AB"'))
  for (const bad of [
    [0xff, 0xfe],
    [0xc3, 0x28],
    [0xed, 0xa0],
  ]) {
    const broken = Buffer.from(bytes)
    broken.set(bad, broken.indexOf('AB'))
    const { body: answer } = await post(a2a.endpoint, broken, options)
    expect(answer).toMatchObject({ id: null, error: { code: -32700 } })
  }
})

test('blocking sends whose clients hang up leave their tasks, and no wait behind', async () => {
  const hangUp = new AbortController()
  const sends = Array.from({ length: 30 }, (_, i) =>
    a2a.call(
      'SendMessage',
      { message: { messageId: `h${i}`, role: 'ROLE_USER', parts: [{ text: 'x' }] } },
      { signal: hangUp.signal },
    ),
  )
  const waiting = async () =>
    (await a2a.call('ListTasks', { status: 'TASK_STATE_SUBMITTED' })).result.totalSize
  await until(async () => (await waiting()) === 30)
  hangUp.abort()
  await Promise.allSettled(sends)
  expect(await waiting()).toBe(30)
  for (let done = 0; done < 30; ) {
    const { todos } = await worker.call('todos.claim', { limit: 10 })
    for (const { id, fence } of todos) await worker.call('todos.complete', { id, fence })
    done += todos.length
  }
  expect(await waiting()).toBe(0)
  expect(await metric(app, 'switchboard_pool_waiting')).toBe(0)
})
