// On the real `serve` process, with little memory.
// Field cases: batches of large reads; answers that nobody reads; bodies that stall; one token takes all.
import fs from 'node:fs'
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import {
  a2aClient,
  agentClient,
  post,
  type Stream,
  textMessage,
} from '../support/clients/actors.ts'
import { serveProcessWith } from '../support/process/serve-process.ts'
import { metric, nextOf, operate } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const good = await app.queue('good', { contexts: 'parallel' })
const MEGABYTE = 1024 * 1024

/** A todo as large as one message can make it, which its agent holds. */
const LARGE = 'x'.repeat(3.9 * MEGABYTE)
const large = await a2aClient(app.url, 'desk', client.token).submit(LARGE)
await agentClient(app.url, agent.token).claim({ leaseSeconds: 3600 })

const node = await serveProcessWith(
  { NODE_OPTIONS: '--max-old-space-size=384', LOG_LEVEL: 'error' },
  app.databaseUrl,
)
const { hostname, port } = new URL(node.url)

const sockets = new Set<Socket>()
afterEach(() => {
  for (const socket of sockets) socket.destroy()
  sockets.clear()
})

interface Raw {
  path: string
  token?: string
  body?: string | Buffer
  headers?: string
}

const headOf = ({ path, token, body = '', headers = '' }: Raw): string => {
  const length = Buffer.byteLength(body)
  return (
    `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}` +
    `A2A-Version: 1.0\r\nAuthorization: Bearer ${token}\r\nContent-Length: ${length}\r\n\r\n`
  )
}

/** A connection that never reads. */
const openRaw = (...texts: (string | Buffer)[]): Socket => {
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  sockets.add(socket)
  socket.pause()
  for (const text of texts) socket.write(text)
  return socket
}

const call = (method: string, params: unknown, id: unknown = 1) =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params })
const getTask = call('GetTask', { id: large.id })

/** What a good client and its agent do while others attack; each part must come about in time. */
const serveGood = async (): Promise<void> => {
  const a2a = a2aClient(node.url, 'good', good.client.token)
  const worker = agentClient(node.url, good.agent.token)
  const signal = () => AbortSignal.timeout(scaled(20_000))
  expect((await fetch(`${node.url}/healthz`, { signal: signal() })).status).toBe(200)
  const { result, error } = await a2a.call(
    'SendMessage',
    { message: textMessage('hello'), configuration: { returnImmediately: true } },
    { signal: signal() },
  )
  expect(error).toBeUndefined()
  const todo = await worker.claim()
  expect(todo.id).toBe(result.task.id)
  await worker.call('todos.complete', todo.held, { signal: signal() })
  expect((await a2a.get(todo.id)).status.state).toBe('TASK_STATE_COMPLETED')
}

const rss = (): number => {
  const status = fs.readFileSync(`/proc/${node.child.pid}/status`, 'utf8')
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
}

/** Runs the attack to its end while a good client is served again and again; the node lives. */
const survives = async (attack: Promise<unknown>, rounds = 5): Promise<void> => {
  let over = false
  const attacked = attack.finally(() => {
    over = true
  })
  let most = 0
  for (let round = 0; round < rounds || !over; round += 1) {
    await serveGood()
    most = Math.max(most, rss())
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await attacked
  if (process.env.TEST_LOG === '1') process.stdout.write(`at most ${most} MB\n`)
  expect([node.child.exitCode, node.child.signalCode]).toEqual([null, null])
}

const times = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n))
const settled = (calls: Promise<unknown>[]) => Promise.allSettled(calls)

test('batches of a hundred large reads', async () => {
  const reads = (method: string) =>
    `[${times(100, (n) => call(method, { id: large.id }, n)).join(',')}]`
  const ask = async (path: string, method: string, token: string) =>
    (await post(node.url + path, reads(method), { token })).body
  const attack = settled([
    ...times(3, () => ask('/operator', 'todos.show', ADMIN_TOKEN)),
    ...times(3, () => ask('/agent', 'todos.get', agent.token)),
  ])
  await survives(attack)
  for (const [path, method, token] of [
    ['/operator', 'todos.show', ADMIN_TOKEN],
    ['/agent', 'todos.get', agent.token],
  ] as const) {
    const body = (await ask(path, method, token)) as { id: number; error?: { data: object } }[]
    expect(body.map(({ id }) => id)).toEqual(times(100, (n) => n))
    const refused = body.filter(({ error }) => error !== undefined)
    expect(refused.length).toBeGreaterThan(90)
    expect(refused[0]!.error!.data).toMatchObject({ reason: 'limit', limit: 8 * MEGABYTE })
  }
})

test('answers that nobody reads, each on a connection of its own or all on one', async () => {
  const request = (path: string, token: string, body: string) =>
    headOf({ path, token, body }) + body
  const read = request('/a2a/desk', client.token, getTask)
  for (const socket of times(200, () => openRaw(read))) expect(socket.destroyed).toBe(false)
  openRaw(read.repeat(100))
  const show = request('/operator', ADMIN_TOKEN, call('todos.show', { id: large.id }))
  openRaw(show.repeat(100))
  await survives(Promise.resolve(), 20)
})

test('bodies and heads that stall', async () => {
  const body = call('SendMessage', { message: textMessage(LARGE) })
  const head = headOf({ path: '/a2a/desk', token: client.token, body })
  times(300, () => openRaw(head, body.slice(0, 60_000)))
  times(100, () => openRaw(head, body.slice(0, -1)))
  times(300, () => openRaw('POST /a2a/desk HTTP/1.1\r\nHost: x\r\nX-Slow: '))
  // Of another owner, so that it has room: nothing but the silence ends it.
  const stalls = { path: '/a2a/good', token: good.client.token, body: body.slice(0, 1000) }
  const begun = performance.now()
  const stalled = openRaw(headOf(stalls), '{')
  let answer = ''
  stalled.on('data', (chunk: Buffer) => {
    answer += chunk
  })
  stalled.resume()
  await survives(Promise.resolve(), 20)
  await until(() => answer.startsWith('HTTP/1.1 408'), {
    timeoutMs: 25_000,
    what: 'the end of a body that stalls',
  })
  expect(performance.now() - begun).toBeGreaterThan(9000)
})

test('large bodies whose sends wait for an answer', async () => {
  const ask = (method: string, text: string) => {
    const body = call(method, { message: textMessage(text) })
    return openRaw(headOf({ path: '/a2a/desk', token: client.token, body }), body)
  }
  times(60, () => ask('SendMessage', LARGE))
  await survives(Promise.resolve(), 30)
})

test('streams that began with a large body keep none of it', async () => {
  const a2a = a2aClient(node.url, 'desk', client.token)
  const open = async (): Promise<Stream> => {
    const stream = await a2a.stream('SendStreamingMessage', {
      message: textMessage('ж'.repeat(1.9 * MEGABYTE)),
    })
    // Whoever sends so much in a moment is told to come again.
    if (stream.status === 429) return open()
    expect((await nextOf(stream)).json.result.task.status.state).toBe('TASK_STATE_SUBMITTED')
    return stream
  }
  const streams: Stream[] = []
  const attack = async () => {
    while (streams.length < 120) streams.push(await open())
  }
  await survives(attack())
  for (const stream of streams) stream.close()
})

test('documents of tiny values', async () => {
  const send = (values: string) =>
    post(
      `${node.url}/a2a/desk`,
      `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":[${values}]}]},"configuration":{"returnImmediately":true}}}`,
      { token: client.token, headers: { 'A2A-Version': '1.0' } },
    )
  const tooMany = `${'0,'.repeat(2 * MEGABYTE - 500)}0`
  const many = `${'0,'.repeat(190_000)}0`
  const attack = settled([...times(40, () => send(tooMany)), ...times(20, () => send(many))])
  let over = false
  const waits: number[] = []
  const asking = (async () => {
    while (!over || waits.length < 100) {
      const begun = performance.now()
      expect((await fetch(`${node.url}/healthz`)).status).toBe(200)
      waits.push(performance.now() - begun)
    }
  })()
  await survives(attack).finally(() => {
    over = true
  })
  await asking
  waits.sort((a, b) => a - b)
  expect(waits[Math.floor(waits.length * 0.99)]).toBeLessThan(scaled(1000))
  const { body } = await send(tooMany)
  expect(body.error.message).toContain('200000 JSON values')
})

test('feeds and streams of one token leave room for others', async () => {
  const get = (path: string, token: string) =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`
  times(1500, () => openRaw(get('/agent/events', agent.token)))
  await survives(Promise.resolve(), 10)
  const headers = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } })
  await expect
    .poll(async () => (await fetch(`${node.url}/agent/events`, headers(agent.token))).status)
    .toBe(429)
  const other = await fetch(`${node.url}/agent/events`, headers(good.agent.token))
  expect(other.status).toBe(200)
  await other.body?.cancel()
})

test('when all of it is over, nothing is left in progress', async () => {
  for (const kind of ['a2a', 'agent']) {
    await until(
      async () => (await metric(node, `switchboard_streams_open{kind="${kind}"}`)) === 0,
      {
        timeoutMs: 60_000,
        what: `no stream of ${kind} is open`,
      },
    )
  }
  await serveGood()
  expect((await operate(node, 'todos.show', { id: large.id })).id).toBe(large.id)
})
