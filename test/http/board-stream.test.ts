/** The board's own reader of its feed, as the browser runs it, against a real server. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createFrameCompleter } from '../../src/agent-kit/connection/event-stream.ts'
import { createAuth } from '../../src/http/request/auth.ts'
import { createFeeds } from '../../src/http/stream/feeds.ts'
import { createReauthorizer } from '../../src/http/stream/reauthorize.ts'
import { anEndpoint, anEvent, createLiveFeed, createTokens, serve, silent } from './live-feed.ts'

interface Reader {
  createParser(
    onEvent: (event: object) => void,
    onRetry: (ms: number) => void,
  ): (text: string) => void
  follow(url: string, signal: AbortSignal, callbacks: object): Promise<void>
}

// Plain JavaScript for a browser: Node has all of it but the window's events.
const window = new EventTarget()
Object.assign(globalThis, {
  addEventListener: window.addEventListener.bind(window),
  removeEventListener: window.removeEventListener.bind(window),
})
const script = (name: string): Promise<unknown> =>
  import(new URL(`../../src/http/board/assets/scripts/feed/${name}`, import.meta.url).href)
const { follow } = (await script('follow.js')) as Pick<Reader, 'follow'>
const { createParser } = (await script('parser.js')) as Pick<Reader, 'createParser'>
const frames = (await script('frames.js')) as {
  createFrameCompleter: typeof createFrameCompleter
}

const start = async () => {
  const feed = createLiveFeed()
  const tokens = createTokens({ watcher: anEndpoint({ verbs: ['watch'] }) })
  let token: string | null = 'watcher'
  const auth = createAuth(tokens)
  const feeds = createFeeds({
    watch: feed.watch,
    auth,
    boardAuth: async (req) => {
      if (token !== null) req.headers.authorization = `Bearer ${token}`
      return auth(req)
    },
    sseRetryMs: async () => 10,
    reauthorizer: createReauthorizer(),
    log: silent,
  })
  const logOut = () => {
    token = null
  }
  return { feed, logOut, ...(await serve(feeds)) }
}

let it: Awaited<ReturnType<typeof start>>
let done: AbortController
beforeEach(async () => {
  it = await start()
  done = new AbortController()
})
afterEach(async () => {
  done.abort()
  await it.close()
})

test('an event is read whole, however the bytes of its stream are cut', () => {
  const text =
    'retry: 5\n\n: ping\n\nid: 1\nevent: a\ndata: {"x":\ndata: 1}\n\nid: 2\n\ndata:y\r\n\r\n'
  for (let cut = 1; cut < text.length; cut++) {
    const events: object[] = []
    const retries: number[] = []
    const parse = createParser(
      (event) => events.push(event),
      (ms) => retries.push(ms),
    )
    for (let at = 0; at < text.length; at += cut) parse(text.slice(at, at + cut))
    expect(events).toEqual([{ id: '1', event: 'a', data: '{"x":\n1}' }, { id: '2' }, { data: 'y' }])
    expect(retries).toEqual([5])
  }
})

test('frames without data are completed by the board as by the kit, however they are cut', () => {
  const text = 'id: 1\n\nid: 2\ndata: x\n\ndata: y\nid: 3\n\n: ping\n\nevent: e\nid: 4\n\nid\n\n'
  const whole = text.replace('id: 1\n', 'id: 1\ndata:\n').replace('id: 4\n', 'id: 4\ndata:\n')
  for (const createCompleter of [frames.createFrameCompleter, createFrameCompleter]) {
    for (let cut = 1; cut <= text.length; cut++) {
      const complete = createCompleter()
      let completed = ''
      for (let at = 0; at < text.length; at += cut) completed += complete(text.slice(at, at + cut))
      expect(completed).toBe(whole)
    }
  }
})

test('an event without an end is no event of the feed', () => {
  const parse = createParser(
    () => undefined,
    () => undefined,
  )
  const feed = () => {
    for (let n = 0; n < 11; n += 1) parse(`data: ${'x'.repeat(100_000)}\n`)
  }
  expect(feed).toThrow('max buffer size')
})

test('a board that lost its connection says so, and misses and repeats nothing', async () => {
  const seen: string[] = []
  const following = follow(`${it.url}/board/events`, done.signal, {
    open: (resumed: boolean) => void seen.push(resumed ? 'resumed' : 'opened'),
    event: (kind: string, data: string) =>
      void seen.push(`${kind} ${(JSON.parse(data) as { position: number }).position}`),
    lost: () => void seen.push('lost'),
    refused: (status: number) => void seen.push(`refused ${status}`),
  })
  await expect.poll(() => it.feed.readers()).toBe(1)
  it.feed.tell(anEvent({ position: 2, ready: 'created' }))
  await expect.poll(() => seen).toEqual(['opened', 'transition 2', 'ready 3'])

  it.drop()
  it.feed.tell(anEvent({ position: 4, from: 'pending', to: 'claimed', verb: 'claim' }))
  await expect.poll(() => seen.slice(3)).toEqual(['lost', 'resumed', 'transition 4'])

  it.logOut()
  it.drop()
  await following
  expect(seen.slice(6)).toEqual(['lost', 'refused 401'])
})

test('a board that stops watching leaves no reader behind', async () => {
  const following = follow(`${it.url}/board/events`, done.signal, {
    open: () => undefined,
    event: () => undefined,
    lost: () => undefined,
    refused: () => undefined,
  })
  await expect.poll(() => it.feed.readers()).toBe(1)
  done.abort()
  await following
  await expect.poll(() => it.feed.readers()).toBe(0)
})
