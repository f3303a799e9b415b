import { afterEach, expect, test } from 'vitest'
import { readEvents, type StreamedEvent } from '../../src/agent-kit/event-stream.ts'
import { type FakeServer, startFakeServer, until } from './fake-server.ts'

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

test('a refusal for good is thrown, an unreachable server only where the first try must succeed', async () => {
  server = await startFakeServer(() => 'stall')
  const gone = readEvents({
    url: 'http://127.0.0.1:9/agent/events',
    token: 't',
    signal: stop.signal,
    firstMustSucceed: true,
  })
  await expect(gone.next()).rejects.toMatchObject({ name: 'ConnectionError' })
})
