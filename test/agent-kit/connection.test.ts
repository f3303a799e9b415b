import { afterEach, expect, test } from 'vitest'
import { connect, retryDelayMs } from '../../src/agent-kit/connection/connection.ts'
import { AgentApiError, ConnectionError, meansLost } from '../../src/agent-kit/errors.ts'
import { scaled } from '../support/timeouts.ts'
import { type Answer, conflict, deadUrl, type FakeServer, startFakeServer } from './fake-server.ts'

let server: FakeServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

const answering = async (...answers: Answer[]) => {
  server = await startFakeServer((_, nth) => answers[nth - 1] ?? 'cut')
  return connect({ url: `${server.url}/agent`, token: 't' })
}

const busy = (status: number, headers: Record<string, string> = {}): Answer => ({
  error: { code: -32014, message: 'busy', data: { reason: 'unavailable' } },
  status,
  headers,
})

test('a call that the server had no time for is tried again', async () => {
  const connection = await answering(busy(503), busy(429), { result: 'ok' })
  expect(await connection.call('todos.complete', {})).toBe('ok')
  expect(server?.calls).toHaveLength(3)
})

test('a lost answer is asked for again where that does no harm', async () => {
  const connection = await answering('cut', { result: 'ok' })
  expect(await connection.call('todos.heartbeat', {}, { repeatable: true })).toBe('ok')
})

test('a lost answer is not asked for again where it could be done twice', async () => {
  const connection = await answering('cut', { result: 'ok' })
  const error = await connection.call('todos.artifact', {}).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(ConnectionError)
  expect(error).toMatchObject({ sent: true })
  expect(server?.calls).toHaveLength(1)
})

test('retries end when their time is up', async () => {
  const connection = await answering(busy(503), busy(503), busy(503), busy(503), busy(503))
  const started = performance.now()
  const call = connection.call('todos.list', {}, { retryForMs: 400 })
  await expect(call).rejects.toMatchObject({ status: 503, reason: 'unavailable' })
  expect(performance.now() - started).toBeLessThan(scaled(2000))
})

test('a server that cannot be reached is a connection error, not sent', async () => {
  const connection = connect({ url: await deadUrl(), token: 't' })
  const call = connection.call('todos.list', {}, { retryForMs: 0 })
  await expect(call).rejects.toMatchObject({ name: 'ConnectionError', sent: false })
})

test('a server that does not answer in time is a connection error', async () => {
  const connection = await answering('stall')
  const call = connection.call('todos.list', {}, { timeoutMs: 100 })
  await expect(call).rejects.toMatchObject({ name: 'ConnectionError', sent: true })
})

test('Retry-After is waited for, however short the own backoff', () => {
  const refusal = new AgentApiError({
    code: -32013,
    reason: 'rate_limited',
    message: 'slow down',
    status: 429,
    retryAfterSeconds: 7,
  })
  expect(retryDelayMs(refusal, 1, false)).toBe(7000)
})

test('Retry-After is read from the header and from the body', async () => {
  const body = { code: -32013, message: 'slow', data: { reason: 'rate_limited' } }
  const connection = await answering(
    { error: body, status: 429, headers: { 'retry-after': '3' } },
    { error: { ...body, data: { ...body.data, retryAfterSeconds: 4 } }, status: 429 },
  )
  const call = () => connection.call('todos.list', {}, { retryForMs: 0 })
  await expect(call()).rejects.toMatchObject({ retryAfterSeconds: 3 })
  await expect(call()).rejects.toMatchObject({ retryAfterSeconds: 4 })
})

test('a refusal tells its code, its reason and its data, and is not tried again', async () => {
  const connection = await answering(conflict('wrong_state', { state: 'done' }))
  await expect(connection.call('todos.complete', {})).rejects.toMatchObject({
    name: 'AgentApiError',
    code: -32010,
    reason: 'wrong_state',
    data: { state: 'done' },
  })
  expect(server?.calls).toHaveLength(1)
})

test('a proxy that answers with a page of its own is told apart by the status', async () => {
  server = await startFakeServer(() => ({ error: { code: 0, message: '' }, status: 401 }))
  const call = connect({ url: server.url, token: 't' }).call('todos.list', {})
  await expect(call).rejects.toMatchObject({ status: 401, reason: 'unauthorized' })
})

test('a signal ends a call with its reason', async () => {
  const connection = await answering('stall')
  const controller = new AbortController()
  const call = connection.call('todos.claim', {}, { signal: controller.signal })
  controller.abort(new Error('enough'))
  await expect(call).rejects.toThrow('enough')
})

test.each([
  ['stale_fence', {}, true],
  ['not_found', {}, true],
  ['wrong_state', { state: 'canceled' }, true],
  ['wrong_state', { state: 'input-required' }, false],
  ['unread_messages', {}, false],
  ['limit', {}, false],
])('%s %o means that the todo is lost: %s', (reason, data, lost) => {
  const error = new AgentApiError({ code: -32010, reason, message: '', data, status: 200 })
  expect(meansLost(error)).toBe(lost)
})

test('calls that come together share a request, and each has its own answer', async () => {
  let release: () => void = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  let requests = 0
  server = await startFakeServer(async ({ method, params }) => {
    if (method === 'hold') {
      requests += 1
      await held
    }
    return params.n === 3 ? conflict('stale_fence') : { result: params.n ?? 'held' }
  })
  const connection = connect({ url: `${server.url}/agent`, token: 't' })
  const holding = [connection.call('hold', {}), connection.call('hold', {})]
  const calls = [1, 2, 3, 4].map((n) => connection.call('todos.complete', { n }))
  const settled = Promise.allSettled(calls)
  const waiting = connection.call('todos.messages', { n: 9, waitMs: 10 })
  // What waits for something goes by itself, past those that are under way.
  expect(await waiting).toBe(9)
  expect(server.paramsOf('todos.complete')).toEqual([])
  release()
  await Promise.all(holding)
  const [one, two, three, four] = await settled
  expect([one, two, four]).toEqual([1, 2, 4].map((value) => ({ status: 'fulfilled', value })))
  expect(three).toMatchObject({ status: 'rejected', reason: { reason: 'stale_fence' } })
  expect(requests).toBe(2)
})

test('one of a shared request that gives up takes nobody with it', async () => {
  server = await startFakeServer(async ({ params }) => {
    await new Promise((resolve) => setTimeout(resolve, 20))
    return { result: params.n }
  })
  const connection = connect({ url: `${server.url}/agent`, token: 't' })
  const controller = new AbortController()
  const calls = [1, 2, 3, 4].map((n) =>
    connection.call('m', { n }, n === 4 ? { signal: controller.signal } : {}),
  )
  const settled = Promise.allSettled(calls)
  controller.abort(new Error('enough'))
  expect((await settled).map(({ status }) => status)).toEqual([
    'fulfilled',
    'fulfilled',
    'fulfilled',
    'rejected',
  ])
})

test('a batch that the server has no time for is tried again, call by call as each may', async () => {
  let busyFor = 2
  server = await startFakeServer(() => {
    busyFor -= 1
    return busyFor >= 0 ? busy(503) : { result: 'ok' }
  })
  const connection = connect({ url: `${server.url}/agent`, token: 't' })
  expect(await Promise.all([1, 2, 3, 4, 5].map(() => connection.call('m', {})))).toEqual(
    Array.from({ length: 5 }, () => 'ok'),
  )
})
