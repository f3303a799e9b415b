// Field cases: batches of large reads; answers that nobody reads; bodies that stall; one token takes all;
// a connection that broke behind its requests.
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import type { Account } from '../../src/http/bounds/body-room.ts'
import { BodyRoom } from '../../src/http/bounds/body-room.ts'
import { ReadSlots } from '../../src/http/bounds/read-slots.ts'
import { guardUnread, UnreadAnswers } from '../../src/http/bounds/unread.ts'
import { apiError } from '../../src/protocol/wire/errors.ts'
import { type Call, reading, unary } from '../../src/protocol/wire/method.ts'
import { createRpc } from '../../src/rpc/server.ts'
import { ADMIN_TOKEN, startApp, testConfig } from '../support/app.ts'
import {
  type Answer,
  a2aClient,
  agentClient,
  openStream,
  post,
  textMessage,
} from '../support/clients/actors.ts'
import { restClient } from '../support/clients/rest.ts'
import { ask, metric, nextOf, operate, rowCounts, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'
import { listen } from './listen.ts'

const account = (owner: string): Account => ({
  owner,
  calls: 0,
  streams: 0,
  reads: 0,
  bodyBytes: 0,
})
const KB = 1024
const MB = 1024 * KB

describe('one endpoint', () => {
  const MOST = 2
  const times = <T>(make: () => T): T[] => Array.from({ length: MOST }, make)

  test('has so many calls in progress, in whatever dialect it asks, and others are served', async () => {
    const app = await startApp({ config: testConfig({ maxCallsPerEndpoint: MOST }) })
    const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
    const other = await app.vend(['send', 'work'], ['desk'])
    const a2a = a2aClient(app.url, 'desk', client.token)
    const hangUp = new AbortController()
    const wait = (token: string) =>
      post(
        `${app.url}/agent`,
        JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'todos.claim',
          params: { waitMs: 60_000, queues: ['desk'] },
        }),
        { token, signal: hangUp.signal },
      ).catch(() => null)
    const claims = times(() => wait(agent.token))
    await until(async () => (await metric(app, 'switchboard_waiting_claims')) === MOST)
    const get = { jsonrpc: '2.0', id: 1, method: 'todos.list', params: {} }
    const beyond = await post(`${app.url}/agent`, JSON.stringify(get), { token: agent.token })
    expect([beyond.status, beyond.headers.get('retry-after')]).toEqual([429, '1'])
    expect(beyond.body.error).toMatchObject({
      code: -32013,
      data: { reason: 'rate_limited', limit: MOST, retryAfterSeconds: 1 },
    })
    const served = await post(`${app.url}/agent`, JSON.stringify(get), { token: other.token })
    expect(served.body.result.todos).toEqual([])
    hangUp.abort()
    await Promise.all(claims)
    await until(
      async () =>
        (await post(`${app.url}/agent`, JSON.stringify(get), { token: agent.token })).status ===
        200,
    )

    const sends = times(() => a2a.send('wait for me', {}, {}))
    await until(async () => (await rowCounts(app)).todos === MOST)
    const [v1, v03, rest] = await Promise.all([
      post(a2a.endpoint, JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ListTasks' }), {
        token: client.token,
        headers: { 'A2A-Version': '1.0' },
      }),
      post(a2a.endpoint, JSON.stringify({ ...get, method: 'tasks/get', params: { id: 'x' } }), {
        token: client.token,
      }),
      restClient(app.url, 'desk', client.token).get('/tasks'),
    ])
    for (const { status, headers } of [v1, v03, rest]) {
      expect([status, headers.get('retry-after')]).toEqual([429, '1'])
    }
    expect(v1.body.error.data[0]).toMatchObject({
      reason: 'RATE_LIMITED',
      metadata: { limit: String(MOST) },
    })
    expect(rest.body.error.status).toBe('RESOURCE_EXHAUSTED')
    for (let left = MOST; left > 0; left -= 1) {
      const claim = { ...get, method: 'todos.claim', params: { limit: 1 } }
      const { body } = await post(`${app.url}/agent`, JSON.stringify(claim), { token: agent.token })
      const [{ id, fence }] = body.result.todos
      const complete = { ...get, method: 'todos.complete', params: { id, fence } }
      await post(`${app.url}/agent`, JSON.stringify(complete), { token: agent.token })
    }
    await Promise.all(sends)
    expect((await a2a.call('ListTasks', {})).result.totalSize).toBe(MOST)
  })

  test('has so many streams open; the next is refused before anything is done', async () => {
    const app = await startApp({ config: testConfig({ maxStreamsPerEndpoint: MOST }) })
    const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
    const other = await app.vend(['send', 'work'], ['desk'])
    const a2a = a2aClient(app.url, 'desk', client.token)
    const task = await a2a.submit('followed')
    const subscribe = () => a2a.stream('SubscribeToTask', { id: task.id })
    const streams = await Promise.all(times(subscribe))
    await Promise.all(streams.map(nextOf))
    const before = await rowCounts(app)
    const refused = [
      await subscribe(),
      await a2a.stream('SendStreamingMessage', { message: textMessage('x') }),
    ]
    for (const { status, headers, body } of refused) {
      expect([status, headers.get('retry-after')]).toEqual([429, '1'])
      expect(body.error.data[0].metadata.limit).toBe(String(MOST))
    }
    const rest = await restClient(app.url, 'desk', client.token).call('POST', '/message:stream', {
      body: { message: textMessage('x') },
    })
    expect(rest.status).toBe(429)
    expect(await rowCounts(app)).toEqual(before)

    const feed = (token: string) => openStream(`${app.url}/agent/events`, { token })
    const feeds = await Promise.all(times(() => feed(agent.token)))
    expect(await feed(agent.token)).toMatchObject({
      status: 429,
      body: { error: { data: { reason: 'rate_limited', limit: MOST } } },
    })
    const another = await feed(other.token)
    expect(another.status).toBe(200)
    const board = () => openStream(`${app.url}/board/events`, { token: ADMIN_TOKEN })
    const boards = await Promise.all(times(board))
    expect((await board()).status).toBe(429)
    for (const stream of [...streams, ...feeds, ...boards, another]) stream.close()
    const again = await until(async () => {
      const stream = await subscribe()
      return stream.status === 200 ? stream : null
    })
    again.close()
  })
})

describe('the bytes of bodies', () => {
  test('wait for room in their turn; small ones have some kept, and one owner gets no more than a part', async () => {
    const room = new BodyRoom(8 * MB, 60_000)
    const [a, b, c] = [account('a'), account('b'), account('c')]
    expect(room.take(a, 3 * MB)).toBeUndefined()
    const order: string[] = []
    const waits = [
      room.take(a, MB)?.then(() => order.push('a')),
      room.take(b, 3 * MB)?.then(() => order.push('b')),
      room.take(c, 2 * MB)?.then(() => order.push('c')),
    ]
    // What waits for its own owner does not hold up those behind it.
    expect(waits.map((wait) => wait === undefined)).toEqual([false, true, false])
    expect(room.take(c, 60 * KB)).toBeUndefined()
    room.give(b, 3 * MB)
    await waits[2]
    expect(order).toEqual(['c'])
    room.give(a, 3 * MB)
    await waits[0]
    expect(order).toEqual(['c', 'a'])
    expect([a.bodyBytes, b.bodyBytes, c.bodyBytes]).toEqual([MB, 0, 2 * MB + 60 * KB])
    room.give(a, MB)
    room.give(c, 2 * MB + 60 * KB)
    expect(room.used).toBe(0)
  })

  test('that find no room in time are refused, by whose fault it is', async () => {
    const room = new BodyRoom(MB, 20)
    const [a, b, c] = [account('a'), account('b'), account('c')]
    expect(room.take(a, 380 * KB)).toBeUndefined()
    await expect(room.take(a, 100 * KB)).rejects.toMatchObject({ kind: 'rate_limited' })
    expect(room.take(b, 380 * KB)).toBeUndefined()
    await expect(room.take(c, 100 * KB)).rejects.toMatchObject({
      kind: 'unavailable',
      detail: { limit: MB, retryAfterSeconds: 1 },
    })
    for (let n = 0; n < 4; n += 1) expect(room.take(c, 64 * KB)).toBeUndefined()
    expect(() => room.take(account('d'), 64 * KB)).toThrow('too many bytes')
    room.give(a, 380 * KB)
    expect(room.take(account('d'), 64 * KB)).toBeUndefined()
  })
})

test('a body that did not say its length takes room for no more than it has, once it is read', async () => {
  const app = await startApp({ config: testConfig({ inFlightMegabytes: 32 }) })
  const { client } = await app.queue('desk', { contexts: 'parallel' })
  const send = (text: string) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: { message: textMessage(text) },
    })
  const hangUp = new AbortController()
  const answered: unknown[] = []
  /** Each sends its body in pieces, and waits for an answer with those before it. */
  const sendAll = (texts: string[]) => {
    for (const text of texts) {
      const call = fetch(`${app.url}/a2a/desk`, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/json',
          'A2A-Version': '1.0',
          Authorization: `Bearer ${client.token}`,
        },
        body: new Blob([send(text)]).stream(),
        duplex: 'half',
        signal: hangUp.signal,
      } as RequestInit)
      call.then(
        async (response) => answered.push(await response.text()),
        () => undefined,
      )
    }
  }
  const haveCome = (todos: number) =>
    until(async () => answered.length > 0 || (await rowCounts(app)).todos === todos)
  sendAll(Array(20).fill('x'.repeat(70_000)))
  await haveCome(20)
  for (let n = 1; n <= 5; n += 1) {
    sendAll(Array(30).fill('short'))
    await haveCome(20 + n * 30)
  }
  expect(answered).toEqual([])
  hangUp.abort()
})

describe('reads of whole tasks', () => {
  test('run so many at a time; the next is of whoever has the fewest', async () => {
    const slots = new ReadSlots(4)
    const [a, b, c] = [account('a'), account('b'), account('c')]
    const begun: string[] = []
    const take = (of: Account) => {
      const waiting = slots.take(of)
      if (!waiting) begun.push(of.owner)
      // Those that are left over are refused after the test.
      else
        waiting.then(
          () => begun.push(of.owner),
          () => undefined,
        )
    }
    for (let n = 0; n < 10; n += 1) take(a)
    for (let n = 0; n < 10; n += 1) take(b)
    expect(begun).toEqual(['a', 'a', 'b', 'b'])
    take(c)
    slots.give(a)
    await until(() => begun.length === 5)
    expect(begun.at(-1)).toBe('c')
    slots.give(c)
    await until(() => begun.length === 6)
    expect(begun.at(-1)).toBe('a')
    expect([a.reads, b.reads, c.reads]).toEqual([2, 2, 0])
  })

  test('that wait too long are refused', async () => {
    const slots = new ReadSlots(2, 20)
    const a = account('a')
    expect(slots.take(a)).toBeUndefined()
    await expect(slots.take(a)).rejects.toMatchObject({
      kind: 'rate_limited',
      detail: { limit: 1 },
    })
    slots.give(a)
    expect(slots.take(a)).toBeUndefined()
  })

  test('keep no turn while they wait: a holder of many questions reads on, and hears each answer', async () => {
    const app = await startApp()
    const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
    const a2a = a2aClient(app.url, 'desk', client.token)
    const worker = agentClient(app.url, agent.token)
    // More than there are turns.
    const asked: Answer[] = []
    for (let n = 0; n < 20; n += 1) {
      await a2a.submit('a table')
      const todo = await worker.claim()
      await ask(worker, todo, 'when?')
      asked.push(todo)
    }
    const waits = asked.map(({ held }) =>
      worker.call('todos.messages', { ...held, after: 1, waitMs: 50_000 }),
    )
    const listed = await worker.call('todos.list', { state: 'input-required' })
    expect(listed.todos).toHaveLength(20)
    for (const { id } of asked) await operate(app, 'todos.answer', { id, message: saying('now') })
    for (const { messages } of await Promise.all(waits)) {
      expect(messages).toMatchObject([{ message: saying('now') }])
    }
    await Promise.all(asked.map(({ held }) => worker.call('todos.get', { id: held.id })))
  })
})

describe('unread answers', () => {
  const unread = (owner: string, bytes: number, cuts: string[], name: string) => ({
    owner,
    bytes,
    cut: () => void cuts.push(name),
  })

  test('are bounded together: the owner with most of them loses its oldest', () => {
    const answers = new UnreadAnswers({ totalBytes: 100 })
    const cuts: string[] = []
    answers.add(unread('good', 30, cuts, 'good 1'))
    for (let n = 1; n <= 3; n += 1) answers.add(unread('bad', 20, cuts, `bad ${n}`))
    expect(cuts).toEqual([])
    expect(() => answers.check('bad')).toThrow('wait to be read')
    expect(() => answers.check('good')).not.toThrow()
    const last = unread('good', 25, cuts, 'good 2')
    answers.add(last)
    expect([cuts, answers.bytes]).toEqual([['bad 1'], 95])
    answers.add(unread('third', 90, cuts, 'third'))
    expect(cuts).not.toContain('third')
    expect(answers.bytes).toBeLessThanOrEqual(100)
    answers.remove(last)
    answers.remove(last)
    expect(answers.timeFor(1)).toBe(30_000)
    expect(answers.timeFor(9 * MB)).toBe(90_000)
  })

  test('are cut off in time, and those that are read are not', async () => {
    const answers = new UnreadAnswers({ drainMs: 100 })
    const { url, port } = await listen((_req, res) => {
      res.end('x'.repeat(16 * MB))
      if (res.writableLength > 0) guardUnread(answers, res, 'a')
    })
    const socket = connect(port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => {})
    socket.pause()
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => answers.bytes > 0)
    await until(() => answers.bytes === 0)
    const closed = once(socket, 'close')
    socket.resume()
    await closed
    expect(socket.bytesRead).toBeLessThan(16 * MB)
    expect((await (await fetch(url)).text()).length).toBe(16 * MB)
    await until(() => answers.bytes === 0)
  })
})

test('of a batch, what comes after 8 MB of answers is not run and says so; what has no answer is run', async () => {
  const ran: number[] = []
  let atOnce = 0
  let most = 0
  const table = {
    read: reading(
      unary(z.object({ n: z.number() }), async (_ctx, { n }) => {
        most = Math.max(most, ++atOnce)
        await new Promise((resolve) => setImmediate(resolve))
        atOnce -= 1
        ran.push(n)
        return 'x'.repeat(3 * MB)
      }),
    ),
    tell: unary(z.object({ n: z.number() }), async (_ctx, { n }) => void ran.push(n)),
  }
  const served = { table, writeError: apiError }
  const log = { debug: () => {}, warn: () => {}, error: () => {} }
  const rpc = createRpc<Call>({
    tables: [served],
    writeError: apiError,
    batches: true,
    turnOf: ({ params }) => String((params as { n: number }).n),
    log: log as never,
  })
  const entry = (method: string, n: number, id?: number) => ({
    jsonrpc: '2.0',
    method,
    params: { n },
    ...(id !== undefined && { id }),
  })
  const reads = Array.from({ length: 6 }, (_, n) => entry('read', n, n))
  const answer = await rpc.answer({
    text: JSON.stringify([...reads, entry('tell', 7)]),
    requestId: 'r',
    serve: () => served,
    enter: async () => ({}) as Call,
  })
  const bodies = (answer as { body: { id: number; error?: unknown }[] }).body
  expect(bodies.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, 5])
  expect(bodies.flatMap(({ id, error }) => (error ? [id] : []))).toEqual([3, 4, 5])
  expect(bodies[3]!.error).toMatchObject({
    code: -32010,
    message: expect.stringContaining('was not run'),
    data: { reason: 'limit', limit: 8 * MB },
  })
  expect(ran.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 7])
  expect(most).toBe(1)
})

test('requests that wait behind others of a connection end with it', async () => {
  const app = await startApp()
  const { agent } = await app.queue('desk')
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'todos.claim',
    params: { waitMs: 60_000 },
  })
  const request =
    `POST /agent HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n` +
    `Authorization: Bearer ${agent.token}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const socket = connect(Number(new URL(app.url).port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write(request.repeat(5))
  const waiting = () => metric(app, 'switchboard_waiting_claims')
  await until(async () => (await waiting()) === 5)
  socket.destroy()
  await until(async () => (await waiting()) === 0)
})
