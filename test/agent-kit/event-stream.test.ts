import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, expect, test } from 'vitest'
import { readEvents, type StreamedEvent } from '../../src/agent-kit/connection/event-stream.ts'
import { until } from '../support/until.ts'
import { deadUrl, type FakeServer, startFakeServer } from './fake-server.ts'

let server: FakeServer
const stop = new AbortController()
afterEach(async () => {
  await server.close()
})

const reading = async (signal: AbortSignal, lastEventId?: string) => {
  server = await startFakeServer(() => 'stall')
  const events: StreamedEvent[] = []
  const options = { url: `${server.url}/agent/events`, token: 't', signal }
  const ended = (async () => {
    const stream = readEvents({ ...options, ...(lastEventId === undefined ? {} : { lastEventId }) })
    for await (const event of stream) events.push(event)
  })()
  await until(() => server.streams.length === 1)
  return { events, ended }
}

test('events are handed out with name, id and parsed data, however the bytes are cut', async () => {
  const { events } = await reading(stop.signal)
  server.streams[0]?.send('event: ready\nid: 5\nda')
  server.streams[0]?.send('ta: {"id":"ä"}\n\n: ping\n\ndata: plain\n\n')
  await until(() => events.length === 2)
  expect(events).toEqual([
    { name: 'ready', id: '5', data: { id: 'ä' } },
    { name: 'message', id: undefined, data: 'plain' },
  ])
})

test('after a break the stream goes on after the last event it handed out', async () => {
  const { events } = await reading(stop.signal)
  server.streams[0]?.send('id: 41\ndata: 1\n\nid: 42\ndata: 2\n\n')
  await until(() => events.length === 2)
  server.streams[0]?.end()
  await until(() => server.streams.length === 2)
  expect(server.streams[1]?.lastEventId).toBe('42')
  server.streams[1]?.send('id: 43\ndata: 3\n\n')
  await until(() => events.length === 3)
  expect(events.map(({ data }) => data)).toEqual([1, 2, 3])
})

test('a frame that has only an id is where a stream goes on that broke before its first event', async () => {
  const { events } = await reading(stop.signal)
  server.streams[0]?.send('retry: 10\nid: 4')
  server.streams[0]?.send('0\n')
  server.streams[0]?.send('\n: ping\n')
  server.streams[0]?.end()
  await until(() => server.streams.length === 2)
  expect(server.streams[1]?.lastEventId).toBe('40')
  server.streams[1]?.send('id: 41\n\nid: 42\ndata: 2\n\ndata: 3\nid: 43\n\nid: 44\n\n')
  server.streams[1]?.end()
  await until(() => server.streams.length === 3)
  expect(server.streams[2]?.lastEventId).toBe('44')
  expect(events.map(({ id, data }) => [id, data])).toEqual([
    ['42', 2],
    ['43', 3],
  ])
})

test('a stream can be begun after an event known from before', async () => {
  await reading(stop.signal, '17')
  expect(server.streams[0]?.lastEventId).toBe('17')
})

test('the signal ends the stream and closes its connection', async () => {
  const own = new AbortController()
  const { ended } = await reading(own.signal)
  own.abort()
  await ended
})

test('the signal closes the connection also long after the answer came', async () => {
  const own = new AbortController()
  const { ended } = await reading(own.signal)
  // What Node keeps of an answered fetch may be collected; the stream must not depend on it.
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  for (let round = 0; round < 5; round++) {
    collect()
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  own.abort()
  await ended
  await until(() => server.streams[0]?.closed === true)
})

test('a server that cannot be reached is an error only where the first try must succeed', async () => {
  server = await startFakeServer(() => 'stall')
  const url = await deadUrl()
  const gone = readEvents({ url, token: 't', signal: stop.signal, firstMustSucceed: true })
  await expect(gone.next()).rejects.toMatchObject({ name: 'ConnectionError' })
})

test('a stream that the server refuses for good is an error', async () => {
  server = await startFakeServer(() => 'stall')
  const refused = readEvents({ url: `${server.url}/refused`, token: 't', signal: stop.signal })
  await expect(refused.next()).rejects.toMatchObject({ name: 'AgentApiError', status: 401 })
})
