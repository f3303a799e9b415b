/** The HTTP face over services that are tables: who comes in, what is refused, what leaks. */
import { Router } from 'express'
import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import type { Caller, EndpointVerb } from '../../src/domain/endpoint.ts'
import { Refusal } from '../../src/domain/errors.ts'
import { createHttp, type HttpParts } from '../../src/http/server.ts'
import { createReauthorizer } from '../../src/http/stream/reauthorize.ts'
import { type MethodTable, stream, unary } from '../../src/protocol/wire/method.ts'
import { accessTo } from '../../src/service/tasks/access.ts'
import type { ClientService } from '../../src/service/tasks/client.ts'
import type { Watch } from '../../src/service/watch/watch.ts'
import { event, queue, view } from '../protocol/v1/build.ts'
import { resumeAfter } from '../support/clients/actors.ts'
import { listen, rawRequest } from './listen.ts'

const endpoint = (verbs: EndpointVerb[], queues: string[]): Caller => ({
  kind: 'endpoint',
  endpoint: {
    id: 'e-1',
    name: 'one',
    queues,
    verbs,
    defaultLeaseSeconds: 300,
    interruptTtlSeconds: null,
    effects: null,
    sendPerMinute: null,
    concurrency: null,
    highestPriority: null,
    lowestPriority: null,
    createdAt: new Date(),
    expiresAt: null,
    revokedAt: null,
  },
})

const CALLERS: Record<string, Caller> = {
  sender: endpoint(['send'], ['demo']),
  stranger: endpoint(['send'], ['other']),
}

const agentTable: MethodTable = {
  'todos.echo': unary(z.object({ text: z.string() }), async (_ctx, { text }) => ({ text })),
  'todos.busy': unary(z.unknown(), async () => {
    throw new Refusal('rate_limited', { retryAfterSeconds: 7 })
  }),
  'todos.count': stream(z.unknown(), async () =>
    (async function* () {
      yield { id: '1', result: 1 }
    })(),
  ),
}

type Counts = { failures: number; streams: string[]; calls: string[]; logged: object[] }

interface World {
  client?: Partial<ClientService>
  watch?: Partial<Watch>
  parts?: Partial<HttpParts>
}

const readQueue = async (name: string | null) => (name === null || name === 'demo' ? queue() : null)
const enter: ClientService['enter'] = async (caller, name) =>
  accessTo(caller, await readQueue(name))

const start = async ({ client, watch, parts }: World = {}, mounted = false) => {
  const counts: Counts = { failures: 0, streams: [], calls: [], logged: [] }
  const note = (fields: object) => void counts.logged.push(fields)
  const { router, listener } = createHttp({
    services: { client: { enter, ...client }, watch } as unknown as HttpParts['services'],
    authenticate: async (token) => CALLERS[token] ?? null,
    readQueue,
    adminToken: 'the-admin-token',
    metricsToken: null,
    metrics: { contentType: 'text/plain; version=0.0.4', metrics: async () => 'up 1\n' },
    log: { debug: () => undefined, warn: note, error: note } as unknown as HttpParts['log'],
    publicUrl: 'https://work.example',
    version: '9.9.9',
    ready: async () => ({ ok: true, reasons: [] }),
    agentTable,
    operatorTable: {},
    observe: {
      answered: (surface, { method, code }) => counts.calls.push(`${surface} ${method} ${code}`),
      streamOpened: (surface) => counts.streams.push(`${surface} opened`),
      streamClosed: (surface, outcome) => counts.streams.push(`${surface} ${outcome}`),
      unauthenticated: () => {
        counts.failures += 1
      },
    },
    ...parts,
  })
  const { url, port } = await listen(mounted ? router : listener)
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer sender', ...headers },
      body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
    })
  const a2a = (method: string, params: unknown, headers: Record<string, string> = {}) =>
    post(
      '/a2a/demo',
      { jsonrpc: '2.0', id: 'q1', method, params },
      { 'A2A-Version': '1.0', ...headers },
    )
  return { url, port, post, a2a, counts }
}

const echo = { jsonrpc: '2.0', id: 1, method: 'todos.echo', params: { text: 'é 😀' } }
const message = { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'hi' }] }

describe('a call without a good token', () => {
  test.each([
    ['none', undefined],
    ['of another scheme', 'Basic c2VuZGVy'],
    ['that nobody has', 'Bearer nobody'],
    ['that is empty', 'Bearer '],
    ['of two words', 'Bearer sender sender'],
  ])('(%s) is 401 with a challenge, counted and not run', async (_, authorization) => {
    const { url, counts } = await start()
    for (const path of ['/a2a/demo', '/agent', '/operator']) {
      const response = await fetch(`${url}${path}`, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/json',
          ...(authorization !== undefined && { Authorization: authorization }),
        },
        body: JSON.stringify(echo),
      })
      expect(response.status).toBe(401)
      expect(response.headers.get('www-authenticate')).toContain('Bearer realm="switchboard"')
      expect(response.headers.get('content-type')).toContain('application/json')
      expect(await response.json()).toMatchObject({
        jsonrpc: '2.0',
        id: null,
        error: { code: -32000 },
      })
    }
    expect(counts.failures).toBe(3)
    expect(JSON.stringify(counts.logged)).not.toContain('nobody')
  })

  test('is not let in by a token in the URL', async () => {
    const { url } = await start()
    const response = await fetch(`${url}/agent?token=sender&access_token=sender`, {
      method: 'POST',
    })
    expect(response.status).toBe(401)
  })
})

describe('a body', () => {
  test('is answered as text that survives', async () => {
    const { post } = await start()
    const response = await post('/agent', echo)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(await response.json()).toEqual({ jsonrpc: '2.0', id: 1, result: { text: 'é 😀' } })
  })

  test('of the limit is read, of one byte more is 413 and closes the connection', async () => {
    const body = JSON.stringify(echo)
    const limit = Buffer.byteLength(body)
    const { post } = await start({ parts: { bodyLimitBytes: limit } })
    expect((await post('/agent', body)).status).toBe(200)
    for (const [path, code] of [
      ['/agent', -32600],
      ['/a2a/demo', -32600],
    ] as const) {
      const response = await post(path, `${body} `)
      expect(response.status).toBe(413)
      expect(response.headers.get('connection')).toBe('close')
      expect(await response.json()).toMatchObject({ id: null, error: { code } })
    }
  })

  test('without an end is 413 once it is over the limit', async () => {
    const { port } = await start({ parts: { bodyLimitBytes: 1000 } })
    const { socket, text } = rawRequest(
      port,
      'POST /agent HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sender\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
    )
    const pump = setInterval(() => socket.write(`3e8\r\n${'x'.repeat(1000)}\r\n`), 10)
    await new Promise((resolve) => socket.once('close', resolve))
    clearInterval(pump)
    expect(text()).toMatch(/^HTTP\/1\.1 413 /)
  })

  test('that trickles in is 408', async () => {
    const { port } = await start({ parts: { bodyTimeoutMs: 50 } })
    const { socket, text } = rawRequest(
      port,
      'POST /agent HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sender\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{',
    )
    await new Promise((resolve) => socket.once('close', resolve))
    expect(text()).toMatch(/^HTTP\/1\.1 408 /)
  })

  test('that is no UTF-8 is no JSON', async () => {
    const { post } = await start()
    const response = await post('/agent', new Uint8Array([0x22, 0xff, 0xfe, 0x22]))
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ id: null, error: { code: -32700 } })
  })

  test.each(['', '{"jsonrpc":"2.0","id":1,', 'not json'])('%j is no JSON', async (body) => {
    const { post } = await start()
    for (const path of ['/agent', '/a2a/demo']) {
      const response = await post(path, body)
      expect(response.status).toBe(200)
      expect(response.headers.get('content-type')).toContain('application/json')
      expect(await response.json()).toMatchObject({ id: null, error: { code: -32700 } })
    }
  })

  test.each([
    ['text/plain', {}],
    ['application/json; charset=latin1', {}],
    ['application/json', { 'Content-Encoding': 'gzip' }],
    ['multipart/form-data', {}],
  ])('of type %s and %j is 415', async (type, headers) => {
    const { post } = await start()
    for (const [path, code] of [
      ['/agent', -32600],
      ['/operator', -32600],
      ['/a2a/demo', -32005],
    ] as const) {
      const response = await post(path, 'x', { 'Content-Type': type, ...headers })
      expect(response.status).toBe(415)
      expect(await response.json()).toMatchObject({ id: null, error: { code } })
    }
  })

  test('may say its charset, and A2A its own media type', async () => {
    const { post, a2a } = await start({ client: { get: async () => view() } })
    const plain = { 'Content-Type': 'Application/JSON; Charset="UTF-8"' }
    expect((await post('/agent', echo, plain)).status).toBe(200)
    const own = { 'Content-Type': 'application/a2a+json' }
    expect((await a2a('GetTask', { id: 't-7' }, own)).status).toBe(200)
  })
})

describe('HTTP around a call', () => {
  test.each(['GET', 'PUT', 'DELETE'])('%s is 405, but for the card', async (method) => {
    const { url } = await start()
    const answered = async (path: string) => {
      const response = await fetch(`${url}${path}`, { method })
      return [response.status, response.headers.get('allow')]
    }
    for (const path of ['/agent', '/operator']) expect(await answered(path)).toEqual([405, 'POST'])
    for (const path of ['/a2a/demo', '/a2a/demo/']) {
      const card = method === 'GET' ? [200, null] : [405, 'GET, HEAD, POST']
      expect(await answered(path)).toEqual(card)
    }
  })

  test('a batch of notifications has no body', async () => {
    const { id: _, ...notification } = echo
    const response = await (await start()).post('/agent', [notification])
    expect([response.status, await response.text()]).toEqual([204, ''])
  })

  test('a call that came too often says when to come again', async () => {
    const { post } = await start()
    const response = await post('/agent', { ...echo, method: 'todos.busy' })
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '7'])
    expect(await response.json()).toMatchObject({ id: 1, error: { code: -32013 } })
  })

  test('a queue whose name is malformed is answered as one that does not exist, by the surface', async () => {
    const { post } = await start()
    const call = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 'x' } }
    const version = { 'A2A-Version': '1.0' }
    for (const path of ['/a2a/%ff', '/a2a/%ff/', '/a2a/%zz']) {
      const response = await post(path, call, version)
      expect(await response.json()).toMatchObject({ jsonrpc: '2.0', id: 1, error: {} })
      const unknown = await post('/a2a/unknown', call, version)
      expect(response.status).toBe(unknown.status)
    }
  })

  test('what is not there is 404 as JSON, and a malformed path 400', async () => {
    const { url } = await start()
    for (const [path, status] of [
      ['/nothing', 404],
      ['/a2a/demo/more', 404],
      ['/a2a/%E0%A4%A', 400],
    ] as const) {
      const response = await fetch(`${url}${path}`)
      expect(response.status).toBe(status)
      expect(await response.json()).toMatchObject({ error: { code: status } })
      expect(response.headers.get('x-powered-by')).toBeNull()
      expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    }
  })

  test('a route that breaks leaks nothing but the id that the log has too', async () => {
    const feeds = Router().get('/board', async () => {
      throw new Error('connect db.internal:5432')
    })
    const { url, counts } = await start({ parts: { feeds } })
    const response = await fetch(`${url}/board`, { headers: { 'X-Request-Id': 'trace-1' } })
    expect(response.status).toBe(500)
    expect(response.headers.get('x-request-id')).toBe('trace-1')
    expect(await response.json()).toEqual({
      error: { code: 500, message: 'Internal error', requestId: 'trace-1' },
    })
    expect(counts.logged).toMatchObject([{ request: 'trace-1' }])
  })

  test('a request id that could break a log line is not taken over', async () => {
    const { url } = await start()
    const response = await fetch(`${url}/healthz`, { headers: { 'X-Request-Id': 'a b' } })
    expect(response.headers.get('x-request-id')).toMatch(/^[\w-]{36}$/)
  })
})

describe('A2A', () => {
  test('answers with and without a slash, and echoes the id', async () => {
    const { post } = await start({ client: { get: async () => view() } })
    for (const path of ['/a2a/demo', '/a2a/demo/']) {
      const call = { jsonrpc: '2.0', id: 7, method: 'GetTask', params: { id: 't-7' } }
      const response = await post(path, call, { 'A2A-Version': '1.0' })
      expect(await response.json()).toMatchObject({ id: 7, result: { id: 't-7' } })
    }
  })

  test.each([['0.5'], ['99.0'], ['one']])(
    'in version %j is refused before anything',
    async (version) => {
      const { a2a } = await start()
      for (const method of ['SendMessage', 'SendStreamingMessage', 'NoSuchThing']) {
        const response = await a2a(method, { message }, { 'A2A-Version': version })
        expect(response.headers.get('content-type')).toContain('application/json')
        expect(await response.json()).toMatchObject({
          id: 'q1',
          error: { code: -32009, data: [{ reason: 'VERSION_NOT_SUPPORTED' }] },
        })
      }
    },
  )

  test('takes its version from the URL too', async () => {
    const { post } = await start({ client: { get: async () => view() } })
    const call = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } }
    const response = await post('/a2a/demo?A2A-Version=1.0', call)
    expect(await response.json()).toHaveProperty('result')
  })

  test('gives one answer for a queue that is not there and one that is not yours', async () => {
    const { post } = await start()
    const call = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 't' } }
    const ask = async (path: string, token: string) => {
      const response = await post(path, call, {
        'A2A-Version': '1.0',
        Authorization: `Bearer ${token}`,
      })
      return [response.status, await response.text()]
    }
    const foreign = await ask('/a2a/demo', 'stranger')
    expect(foreign[0]).toBe(403)
    expect(await ask('/a2a/nothing', 'sender')).toEqual(foreign)
    expect(await ask('/a2a/other', 'stranger')).toEqual(foreign)
    const operator = await ask('/a2a/demo', 'the-admin-token')
    expect(operator[0]).toBe(403)
    expect(operator[1]).toContain('admin token')
  })

  test('says that it cannot serve, with 503 and nothing of why', async () => {
    const client: Partial<ClientService> = {
      get: async () => {
        throw new Refusal('unavailable', { retryAfterSeconds: 3 })
      },
    }
    const { a2a, counts } = await start({ client })
    const response = await a2a('GetTask', { id: 't' })
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '3'])
    const body = await response.json()
    expect(body).toMatchObject({ error: { code: -32603 } })
    expect(counts.logged).toHaveLength(1)
    expect(JSON.stringify(body)).toContain(response.headers.get('x-request-id'))
  })

  test('streams whole responses and resumes from an id', async () => {
    const after: number[] = []
    const watch: Partial<Watch> = {
      follow: async function* (_id, from) {
        after.push(from)
        yield event({ seq: from + 1 })
      },
    }
    const client: Partial<ClientService> = {
      send: async () => ({ view: view(), after: 1 }),
      get: async () => view({ state: 'claimed', seq: 9 }),
    }
    const { a2a, counts } = await start({ client, watch })
    const sent = await a2a('SendStreamingMessage', { message })
    expect(sent.headers.get('content-type')).toContain('text/event-stream')
    const blocks = (await sent.text()).trimEnd().split('\n\n')
    expect(blocks.map((block) => block.split('\n')[0])).toEqual(['id: t-7:1', 'id: t-7:2'])
    expect(JSON.parse(blocks[1]!.split('\ndata: ')[1]!)).toMatchObject({
      jsonrpc: '2.0',
      id: 'q1',
      result: { statusUpdate: { taskId: 't-7' } },
    })
    const missed = await a2a('SubscribeToTask', { id: 't-7' }, resumeAfter('4'))
    expect(await missed.text()).toMatch(/^id: 5\n/)
    expect(after).toEqual([1, 4])
    expect(counts.streams).toEqual(['a2a opened', 'a2a ended', 'a2a opened', 'a2a ended'])
  })

  test.each<[string, Caller | undefined]>([
    ['is revoked', undefined],
    ['may do less than before', endpoint(['answer'], ['demo'])],
  ])('ends the stream of a token that %s, also of a task at rest', async (_, later) => {
    let caller: Caller | undefined = endpoint(['send'], ['demo'])
    let readers = 0
    const watch: Partial<Watch> = {
      follow: async function* (_id, _from, signal) {
        readers += 1
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        readers -= 1
        yield* []
      },
    }
    const client: Partial<ClientService> = { get: async () => view({ state: 'claimed' }) }
    const reauthorizer = createReauthorizer({ everyMs: 20 })
    const parts = { reauthorizer, authenticate: async () => caller ?? null }
    const { a2a, counts } = await start({ client, watch, parts })
    const stream = await a2a('SubscribeToTask', { id: 't-7' })
    await expect.poll(() => readers).toBe(1)
    // A right that is as it was ends nothing.
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(readers).toBe(1)
    caller = later
    expect(await stream.text()).toContain('TASK_STATE_WORKING')
    await expect.poll(() => [readers, counts.streams.at(-1)]).toEqual([0, 'a2a ended'])
  })

  test('ends a wait and not the task when the client hangs up', async () => {
    let reason: unknown
    let waits = false
    const watch: Partial<Watch> = {
      settle: (_id, _after, signal) =>
        new Promise((_, reject) => {
          waits = true
          signal.addEventListener('abort', () => {
            reason = signal.reason
            reject(signal.reason)
          })
        }),
    }
    const client = { send: async () => ({ view: view(), after: 1 }) }
    const { url, counts } = await start({ client, watch })
    const controller = new AbortController()
    const call = fetch(`${url}/a2a/demo`, {
      method: 'POST',
      signal: controller.signal,
      headers: {
        'Content-Type': 'application/json',
        Authorization: 'Bearer sender',
        'A2A-Version': '1.0',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }),
    })
    const aborted = expect(call).rejects.toThrow()
    await expect.poll(() => waits).toBe(true)
    controller.abort()
    await aborted
    await expect.poll(() => reason).toBe('hung_up')
    expect(counts.logged).toEqual([])
  })
})

describe('the agent card', () => {
  const paths = ['/.well-known/agent-card.json', '/a2a/demo/.well-known/agent-card.json']
  test.each(paths)('at %s is public, cacheable and has the public URL', async (path) => {
    const { url } = await start()
    const response = await fetch(`${url}${path}`, {
      headers: { Origin: 'https://elsewhere.example' },
    })
    expect(response.status).toBe(200)
    const headers = Object.fromEntries(response.headers)
    expect(headers).toMatchObject({
      'cache-control': 'public, max-age=300',
      'access-control-allow-origin': '*',
      vary: 'A2A-Version',
    })
    expect(headers['last-modified']).toBeTruthy()
    const card = (await response.json()) as { supportedInterfaces: { url: string }[] }
    expect(card.supportedInterfaces[0]?.url).toBe('https://work.example/a2a/demo/')

    const known = { 'If-None-Match': headers.etag ?? '' }
    const again = await fetch(`${url}${path}`, { headers: known })
    expect([again.status, await again.text()]).toEqual([304, ''])
    const head = await fetch(`${url}${path}`, { method: 'HEAD' })
    expect([head.status, head.headers.get('etag')]).toEqual([200, headers.etag])
  })

  test('of no queue is 404, and no other document is open to other origins', async () => {
    const { url } = await start()
    const none = await fetch(`${url}/a2a/none/.well-known/agent-card.json`)
    expect(none.status).toBe(404)
    for (const path of ['/healthz', '/metrics', '/agent', '/a2a/demo/tasks']) {
      const response = await fetch(`${url}${path}`)
      expect(response.headers.get('access-control-allow-origin')).toBeNull()
    }
    const called = await fetch(`${url}/a2a/demo`, { method: 'POST' })
    expect(called.headers.get('access-control-allow-origin')).toBeNull()
  })
})

describe('operations', () => {
  test('alive and ready are two questions', async () => {
    const ready = async () => ({ ok: false, reasons: ['the database does not answer'] })
    const { url } = await start({ parts: { ready } })
    const alive = await fetch(`${url}/healthz`)
    expect([alive.status, await alive.json()]).toEqual([200, { status: 'ok', version: '9.9.9' }])
    const unready = await fetch(`${url}/readyz`)
    expect([unready.status, await unready.json()]).toEqual([
      503,
      { status: 'not ready', reasons: ['the database does not answer'] },
    ])
  })

  test('metrics are open, or for their own token only', async () => {
    const open = await start()
    expect(await (await fetch(`${open.url}/metrics`)).text()).toBe('up 1\n')
    const closed = await start({ parts: { metricsToken: 'm' } })
    const ask = (token: string) =>
      fetch(`${closed.url}/metrics`, { headers: { Authorization: `Bearer ${token}` } })
    expect((await ask('x')).status).toBe(401)
    expect((await ask('the-admin-token')).status).toBe(401)
    expect((await ask('m')).status).toBe(200)
  })

  test('metrics are read once for all who ask at a time, and again when they are old', async () => {
    let reads = 0
    let open = () => {}
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    const metrics = {
      contentType: 'text/plain',
      metrics: async () => {
        reads += 1
        const text = `reads ${reads}\n`
        await gate
        return text
      },
    }
    const { url } = await start({ parts: { metrics, metricsCacheMs: 60 } })
    const ask = async () => (await fetch(`${url}/metrics`)).text()
    const asked = Array.from({ length: 20 }, ask)
    await expect.poll(() => reads).toBe(1)
    open()
    // Those that were on their way to the server when the text grew old get the next one.
    expect((await Promise.all(asked)).filter((text) => text === 'reads 1\n')).not.toEqual([])
    expect(reads).toBeLessThanOrEqual(2)
    await expect.poll(ask).not.toBe('reads 1\n')
  })

  test('metrics are closed where others reach the node and no token is set', async () => {
    const { url } = await start({ parts: { metricsClosed: true } })
    const response = await fetch(`${url}/metrics`, { headers: { Authorization: 'Bearer sender' } })
    expect(response.status).toBe(403)
    expect(await response.text()).toContain('SWITCHBOARD_METRICS_TOKEN')
    const withToken = await start({ parts: { metricsToken: 'm', metricsClosed: false } })
    const headers = { Authorization: 'Bearer m' }
    expect((await fetch(`${withToken.url}/metrics`, { headers })).status).toBe(200)
  })
})

test('the admin token is the operator, and calls are counted by surface', async () => {
  const who: Caller[] = []
  const operatorTable: MethodTable = {
    'queues.list': unary(z.unknown(), async ({ caller }) => void who.push(caller)),
  }
  const { post, counts } = await start({ parts: { operatorTable } })
  const call = { jsonrpc: '2.0', id: 1, method: 'queues.list' }
  const admin = { Authorization: 'bearer the-admin-token' }
  expect((await post('/operator', call, admin)).status).toBe(200)
  expect(who).toEqual([{ kind: 'operator' }])
  expect(counts.calls).toEqual(['operator queues.list 0'])
})

test('a request is answered alike by the listener and by the router, straight or not', async () => {
  const client = { get: async () => view({ id: '5f0c1d6e-3b1f-4c57-9a8e-000000000001' }) }
  const servers = [await start({ client }), await start({ client }, true)]
  const a2a = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 'x' } }
  const version = { 'A2A-Version': '1.0', 'A2A-Extensions': 'https://a2a.example/unknown' }
  const asked: [string, unknown, Record<string, string>?][] = [
    ['/a2a/demo', a2a, version],
    ['/a2a/demo/', a2a, version],
    ['/a2a/demo?A2A-Version=1.0', a2a],
    ['/a2a/demo?A2A-Version=1.0&A2A-Version=9', a2a],
    ['/A2A/demo', a2a, version],
    ['/a2a/d%65mo', a2a, version],
    ['/a2a/Demo', a2a, version],
    ['/a2a/%zz', a2a, version],
    ['/a2a/demo', a2a, { 'A2A-Version': '9' }],
    ['/a2a/demo', a2a, { ...version, Authorization: 'Bearer nobody' }],
    ['/a2a/demo', '{', version],
    ['/a2a/demo', [a2a], version],
    ['/a2a/demo', a2a, { ...version, 'Content-Type': 'text/plain' }],
    ['/agent', echo],
    ['/agent/', echo],
    ['/Agent', echo],
    ['/agent?x=1', echo],
    ['/agent', [echo, echo]],
    ['/agent', { jsonrpc: '2.0', id: 1, method: 'todos.busy' }],
    ['/agent', { jsonrpc: '2.0', id: 1, method: 'todos.count' }],
    ['/agent', { jsonrpc: '2.0', method: 'todos.echo', params: { text: 'x' } }],
  ]
  for (const [path, body, headers] of asked) {
    const answers = servers.map(async ({ post }) => {
      const answer = await post(path, body, { 'X-Request-Id': 'the-same', ...headers })
      const told = [...answer.headers].filter(([name]) => name !== 'date')
      return [answer.status, Object.fromEntries(told), await answer.text()]
    })
    const [listened, routed] = await Promise.all(answers)
    expect(listened, path).toEqual(routed)
  }
})

test('a request whose target is a whole URL is for the queue in it', async () => {
  const { port } = await start({ client: { get: async () => view({}) } })
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 'x' } })
  const { text } = rawRequest(
    port,
    [
      'POST http://work.example/a2a/demo HTTP/1.1',
      'Host: work.example',
      'Authorization: Bearer sender',
      'A2A-Version: 1.0',
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      '',
      body,
    ].join('\r\n'),
  )
  await vi.waitFor(() => expect(text()).toContain('"result"'))
  expect(text()).toMatch(/^HTTP\/1.1 200/)
})

test('a route that breaks before it has answered is answered for, straight as well', async () => {
  const { post, counts } = await start({
    parts: {
      observe: {
        answered: () => {
          throw new Error('an observer broke')
        },
      },
    },
  })
  const answer = await post('/agent', echo, { 'X-Request-Id': 'broken-1' })
  expect([answer.status, await answer.json()]).toEqual([
    500,
    { error: { code: 500, message: 'Internal error', requestId: 'broken-1' } },
  ])
  expect(counts.logged).toContainEqual(expect.objectContaining({ request: 'broken-1' }))
})
