// Field cases: streams behind a stream.
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, test, vi } from 'vitest'
import { TooSlow } from '../../src/domain/errors.ts'
import { UnreadAnswers } from '../../src/http/bounds/unread.ts'
import { callSignalOf } from '../../src/http/request/call-signal.ts'
import { closeWithConnection } from '../../src/http/request/pipelined.ts'
import {
  encodeFrame,
  type Frame,
  type Source,
  type StreamOptions,
  type StreamOutcome,
  writeStream,
} from '../../src/http/stream/sse.ts'
import { until } from '../support/until.ts'
import { listen, rawRequest } from './listen.ts'

interface Stream {
  port: number
  url: string
  outcome: Promise<StreamOutcome>
}

/** Serves one stream. `source` is given the signal of the request. */
const serve = async (
  source: (signal: AbortSignal, res: ServerResponse) => Source,
  options: Partial<StreamOptions> = {},
  stopping?: AbortSignal,
): Promise<Stream> => {
  let over: (outcome: StreamOutcome) => void
  const outcome = new Promise<StreamOutcome>((resolve) => {
    over = resolve
  })
  const server = await listen((_req, res) => {
    const { signal } = callSignalOf(res, stopping)
    void writeStream(res, source(signal, res), { signal, ...options }).then((how) => over(how))
  })
  return { ...server, outcome }
}

async function* frames(...items: Frame[]): AsyncGenerator<Frame> {
  yield* items
}

/** Waits until the signal fires, as a tail with nothing to say does. */
const silence = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'

/** A source of what is told to it: pulled from where its reader is, and live for one that keeps up. */
const createTold = () => {
  const all: Frame[][] = []
  let read = 0
  let wake: () => void = () => {}
  let push: ((frames: readonly Frame[]) => boolean) | null = null
  let refused: () => void = () => {}
  let pushed = 0
  async function* pulled(signal: AbortSignal): AsyncGenerator<Frame | readonly Frame[]> {
    while (!signal.aborted) {
      const next = all[read]
      if (next) {
        read += 1
        yield next
      } else {
        await new Promise<void>((resolve) => {
          wake = resolve
          signal.addEventListener('abort', () => resolve(), { once: true })
        })
      }
    }
  }
  return {
    pushed: () => pushed,
    isLive: () => push !== null,
    tell: (...frames: Frame[]): void => {
      all.push(frames)
      if (push?.(frames)) {
        read += 1
        pushed += 1
      } else if (push) {
        push = null
        refused()
      }
      wake()
    },
    source: (signal: AbortSignal): Source => ({
      [Symbol.asyncIterator]: () => pulled(signal),
      live: (take, end) => {
        if (read < all.length) return null
        push = take
        refused = end
        return () => {
          push = null
        }
      },
    }),
  }
}

describe('a reader that keeps up', () => {
  test('is handed what comes, each list in one chunk, with pings and what it pulled in order', async () => {
    const told = createTold()
    told.tell({ id: '1', data: 'pulled' })
    const { url } = await serve(told.source, { retryMs: 5 })
    const stop = new AbortController()
    const response = await fetch(url, { signal: stop.signal })
    await vi.waitFor(() => expect(told.isLive()).toBe(true))
    told.tell({ id: '2', data: 'é' }, { id: '3', data: 'twice' })
    told.tell({ id: '4', data: 'x'.repeat(20_000) })
    let text = ''
    const decoder = new TextDecoder()
    for await (const bytes of response.body!) {
      text += decoder.decode(bytes, { stream: true })
      if (text.includes('id: 4') && text.endsWith('\n\n')) break
    }
    stop.abort()
    const whole = [
      { retry: 5 },
      { id: '1', data: 'pulled' },
      { id: '2', data: 'é' },
      { id: '3', data: 'twice' },
      { id: '4', data: 'x'.repeat(20_000) },
    ]
    expect(text).toBe(whole.map(encodeFrame).join(''))
    expect(told.pushed()).toBe(2)
  })

  test('that falls behind pulls again, misses nothing and has nothing twice', async () => {
    const told = createTold()
    const { port } = await serve(told.source)
    const socket = connect(port, '127.0.0.1')
    socket.write(GET)
    await vi.waitFor(() => expect(told.isLive()).toBe(true))
    socket.pause()
    const large = 'x'.repeat(100_000)
    const count = 200
    for (let n = 1; n <= count; n += 1) told.tell({ id: String(n), data: large })
    expect(told.pushed()).toBeGreaterThan(0)
    expect(told.pushed()).toBeLessThan(count)
    let text = ''
    socket.setEncoding('utf8')
    socket.on('data', (chunk: string) => {
      text += chunk
    })
    socket.resume()
    await vi.waitFor(() => expect(text).toContain(`id: ${count}\n`), 10_000)
    const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id))
    expect(ids).toEqual(Array.from({ length: count }, (_, n) => n + 1))
    socket.destroy()
  })

  test('over HTTP/1.0 is written what it is handed without chunks', async () => {
    const told = createTold()
    const { port } = await serve(told.source)
    const socket = connect(port, '127.0.0.1')
    let text = ''
    socket.setEncoding('utf8')
    socket.on('data', (chunk: string) => {
      text += chunk
    })
    socket.write('GET / HTTP/1.0\r\n\r\n')
    await vi.waitFor(() => expect(told.isLive()).toBe(true))
    told.tell({ id: '1', data: 'plain' })
    await vi.waitFor(() => expect(text).toContain('plain'))
    expect(text.split('\r\n\r\n')[1]).toBe(encodeFrame({ id: '1', data: 'plain' }))
    expect(told.pushed()).toBe(1)
    socket.destroy()
  })
})

describe('a frame', () => {
  test('is one line for each field and a blank one', () => {
    const frame = { id: '7', event: 'ready', retry: 2000, data: { text: 'a\r\nb\u2028' } }
    expect(encodeFrame(frame)).toBe(
      'retry: 2000\nevent: ready\nid: 7\ndata: {"text":"a\\r\\nb\\u2028"}\n\n',
    )
    expect(encodeFrame({ data: null })).toBe('data: null\n\n')
    expect(encodeFrame({ id: '1' })).toBe('id: 1\n\n')
  })

  test('cannot be broken out of by an id or an event', () => {
    expect(() => encodeFrame({ id: '1\ndata: x' })).toThrow(TypeError)
    expect(() => encodeFrame({ event: 'a\rb' })).toThrow(TypeError)
  })
})

describe('a stream', () => {
  test('has the headers that keep proxies from holding it back, and ends cleanly', async () => {
    const { url, outcome } = await serve(() => frames({ data: 1 }, { id: '2', data: 2 }))
    const response = await fetch(url, { headers: { 'Accept-Encoding': 'gzip, br' } })
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    expect(response.headers.get('cache-control')).toBe('no-cache, no-transform')
    expect(response.headers.get('x-accel-buffering')).toBe('no')
    expect(response.headers.get('content-encoding')).toBeNull()
    expect(await response.text()).toBe('data: 1\n\nid: 2\ndata: 2\n\n')
    expect(await outcome).toBe('ended')
  })

  test('shows its headers before the first frame, then retry and pings', async () => {
    async function* late(signal: AbortSignal): AsyncGenerator<Frame> {
      await silence(signal)
      yield { data: 'too late' }
    }
    const { url, outcome } = await serve(late, { pingMs: 10, retryMs: 1500 })
    const response = await fetch(url)
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    while (!text.includes(': ping\n: ping\n')) text += (await reader.read()).value ?? ''
    expect(text.startsWith('retry: 1500\n: ping\n')).toBe(true)
    await reader.cancel()
    expect(await outcome).toBe('hung_up')
  })

  test('asks for the next frame only after the last was drained', async () => {
    let asked = 0
    async function* endless(): AsyncGenerator<Frame> {
      for (;;) {
        asked += 1
        yield { data: 'x'.repeat(1_000_000) }
      }
    }
    const { port, outcome } = await serve(endless, { drainMs: 300 })
    const { socket } = rawRequest(port, GET)
    socket.pause()
    expect(await outcome).toBe('stalled')
    // What fits between two sockets of the kernel, and not what an endless source would give.
    expect(asked).toBeLessThan(20)
  })

  test('that waits behind another of its connection is cut off like one that is not read', async () => {
    const unread = new UnreadAnswers()
    const outcomes: Promise<StreamOutcome>[] = []
    const { port } = await listen((req, res) => {
      closeWithConnection(req, res)
      const { signal } = callSignalOf(res)
      const quiet = async function* (): AsyncGenerator<Frame> {
        yield { data: 'first' }
        await silence(signal)
      }
      const source = outcomes.length === 0 ? quiet() : frames({ data: 'x'.repeat(1_000_000) })
      outcomes.push(writeStream(res, source, { signal, drainMs: 300, unread }))
    })
    const { socket } = rawRequest(port, GET.repeat(3))
    const closed = once(socket, 'close')
    await until(() => unread.bytes > 2_000_000)
    await closed
    const [first, ...behind] = await Promise.all(outcomes)
    expect(first).toBe('hung_up')
    for (const outcome of behind) expect(['stalled', 'hung_up']).toContain(outcome)
    expect(unread.bytes).toBe(0)
  })

  test('goes on when a slow reader reads on', async () => {
    const big = 'x'.repeat(1_000_000)
    const { port, outcome } = await serve(() => frames(...Array(12).fill({ data: big })))
    const { socket, text } = rawRequest(
      port,
      `${GET.replace('\r\n\r\n', '')}\r\nConnection: close\r\n\r\n`,
    )
    socket.pause()
    setTimeout(() => socket.resume(), 100)
    expect(await outcome).toBe('ended')
    await new Promise((resolve) => socket.once('close', resolve))
    expect(text().match(/data: /g)).toHaveLength(12)
    expect(text().endsWith('0\r\n\r\n')).toBe(true)
  })

  test('lets go of its source when the client hangs up, also while that is busy', async () => {
    let signal: AbortSignal | undefined
    let released = false
    const busy = (given: AbortSignal): AsyncIterable<Frame> => ({
      [Symbol.asyncIterator]: () => {
        signal = given
        return {
          next: () => new Promise(() => undefined),
          return: async () => {
            released = true
            return { done: true, value: undefined }
          },
        }
      },
    })
    const { port, outcome } = await serve(busy)
    const { socket } = rawRequest(port, GET)
    // A request that hangs up before it is read reaches no stream at all.
    await until(() => signal !== undefined, { what: 'the stream asks its source' })
    socket.destroy()
    expect(await outcome).toBe('hung_up')
    expect(released).toBe(true)
    expect(signal?.reason).toBe('hung_up')
  })

  test('ends with one last frame when its source breaks', async () => {
    async function* breaking(): AsyncGenerator<Frame> {
      yield { data: 1 }
      throw new Error('secret')
    }
    const onError = () => ({ data: { error: true } })
    const { url, outcome } = await serve(breaking, { onError })
    expect(await (await fetch(url)).text()).toBe('data: 1\n\ndata: {"error":true}\n\n')
    expect(await outcome).toBe('failed')
  })

  test('just ends, to be resumed, when its source will not buffer for it any longer', async () => {
    async function* impatient(): AsyncGenerator<Frame> {
      yield { id: '1', data: 1 }
      throw new TooSlow()
    }
    const { url, outcome } = await serve(impatient, { onError: () => ({ data: 'never' }) })
    expect(await (await fetch(url)).text()).toBe('id: 1\ndata: 1\n\n')
    expect(await outcome).toBe('too_slow')
  })

  test('does not begin once the server has stopped, and leaves no timer', async () => {
    const made = vi.spyOn(globalThis, 'setInterval')
    const cleared = vi.spyOn(globalThis, 'clearInterval')
    async function* deaf(): AsyncGenerator<Frame> {
      await new Promise(() => undefined)
      yield { data: 1 }
    }
    const { url, outcome } = await serve(deaf, { pingMs: 12_345 }, AbortSignal.abort())
    expect(await (await fetch(url)).text()).toMatch(/^retry: \d+\n$/)
    expect(await outcome).toBe('ended')
    const ping = made.mock.calls.findIndex(([, ms]) => ms === 12_345)
    expect(cleared).toHaveBeenCalledWith(made.mock.results[ping]?.value)
    vi.restoreAllMocks()
  })

  test('ends when the server stops, whatever its source does, and says when to come again', async () => {
    const stop = new AbortController()
    async function* deaf(): AsyncGenerator<Frame> {
      yield { data: 1 }
      await new Promise(() => undefined)
    }
    const { url, outcome } = await serve(deaf, {}, stop.signal)
    const response = await fetch(url)
    stop.abort()
    expect(await response.text()).toMatch(/^data: 1\n\nretry: (5\d\d|[6-9]\d\d|1[0-4]\d\d|1500)\n$/)
    expect(await outcome).toBe('ended')
  })

  test('spreads its readers around its own delay when the server stops', async () => {
    const stop = new AbortController()
    const told = new Set<number>()
    async function* deaf(): AsyncGenerator<Frame> {
      await new Promise(() => undefined)
      yield {}
    }
    const { url } = await serve(deaf, { retryMs: 4000 }, stop.signal)
    const responses = await Promise.all(Array.from({ length: 10 }, () => fetch(url)))
    stop.abort()
    for (const response of responses) {
      const [first, last] = [...(await response.text()).matchAll(/retry: (\d+)\n/g)]
      expect(first?.[1]).toBe('4000')
      expect(Number(last?.[1])).toBeGreaterThanOrEqual(2000)
      expect(Number(last?.[1])).toBeLessThanOrEqual(6000)
      told.add(Number(last?.[1]))
    }
    expect(told.size).toBeGreaterThan(3)
  })
})

test('a long life of requests leaves no listener on the signal of the server', async () => {
  const stop = new AbortController()
  let live = 0
  const { addEventListener, removeEventListener } = stop.signal
  stop.signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    live += 1
    addEventListener.apply(stop.signal, args)
  }
  stop.signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    live -= 1
    removeEventListener.apply(stop.signal, args)
  }
  const { url } = await serve(() => frames({ data: 1 }), {}, stop.signal)
  for (let n = 0; n < 20; n += 1) await (await fetch(url)).text()
  await expect.poll(() => live).toBe(0)
})
