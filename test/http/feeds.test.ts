import { afterEach, beforeEach, expect, test } from 'vitest'
import { createAuth } from '../../src/http/request/auth.ts'
import { createFeeds } from '../../src/http/stream/feeds.ts'
import { createReauthorizer } from '../../src/http/stream/reauthorize.ts'
import {
  anEndpoint,
  anEvent,
  bearer,
  createLiveFeed,
  createTokens,
  readEvents,
  serve,
  silent,
} from './live-feed.ts'

const mine = anEndpoint({ id: 'mine', queues: ['a', 'b'] })

const start = async () => {
  const feed = createLiveFeed()
  const tokens = createTokens({
    agent: mine,
    sender: anEndpoint({ id: 'sender', verbs: ['send'] }),
  })
  const stopping = new AbortController()
  const auth = createAuth(tokens)
  const ended: string[] = []
  const router = createFeeds({
    watch: feed.watch,
    auth,
    boardAuth: auth,
    sseRetryMs: async () => 1234,
    log: silent,
    stopping: stopping.signal,
    reauthorizer: createReauthorizer({ everyMs: 20 }),
    onStream: () => ({ opened: () => undefined, closed: (outcome) => ended.push(outcome) }),
  })
  return { feed, tokens, stopping, ended, ...(await serve(router)) }
}

let it: Awaited<ReturnType<typeof start>>
beforeEach(async () => {
  it = await start()
})
afterEach(() => it.close())

const board = (count: number, query = '', headers: Record<string, string> = {}) =>
  readEvents(`${it.url}/board/events${query}`, { ...bearer('admin-token'), ...headers }, count)
const agent = (count: number, query = '', headers: Record<string, string> = {}) =>
  readEvents(`${it.url}/agent/events${query}`, { ...bearer('agent'), ...headers }, count)

const created = anEvent({ position: 10, ready: 'created' })

test('a todo that was made is a transition and then a ready, each with its own id', async () => {
  it.feed.tell(created)
  const { events, retry } = await board(2, '?after=0')
  expect(retry).toBe(1234)
  expect(events.map(({ id, event }) => [id, event])).toEqual([
    ['10', 'transition'],
    ['11', 'ready'],
  ])
  expect(JSON.parse(events[0]!.data)).toEqual({
    position: 10,
    id: 'todo-1',
    queue: 'a',
    contextId: 'context-1',
    seq: 10,
    from: null,
    to: 'pending',
    verb: 'send',
    retrying: false,
    attempt: 0,
    fence: '0',
    owner: null,
    claimant: null,
    ready: 'created',
    detail: null,
    at: '2026-01-02T03:04:05.006Z',
    phase: 'waiting',
    fromPhase: null,
    progressAt: null,
  })
  expect(JSON.parse(events[1]!.data)).toEqual({
    position: 11,
    id: 'todo-1',
    queue: 'a',
    reason: 'created',
    at: '2026-01-02T03:04:05.006Z',
  })
})

test('who resumes between a transition and its ready gets the ready and not the transition', async () => {
  it.feed.tell(created, anEvent({ position: 12, from: 'pending', to: 'claimed', verb: 'claim' }))
  const between = await board(2, '', { 'last-event-id': '10' })
  expect(between.events.map(({ id }) => id)).toEqual(['11', '12'])
  const behind = await board(1, '', { 'last-event-id': '11' })
  expect(behind.events.map(({ id }) => id)).toEqual(['12'])
})

test('the header of a reconnect wins over the position in the URL', async () => {
  it.feed.tell(created, anEvent({ position: 12, from: 'pending', to: 'claimed', verb: 'claim' }))
  const { events } = await board(1, '?after=0', { 'last-event-id': '11' })
  expect(events[0]!.id).toBe('12')
})

test('a feed without a cursor starts with what happens from now on', async () => {
  it.feed.tell(created)
  const reading = board(1)
  await expect.poll(() => it.feed.readers()).toBe(1)
  it.feed.tell(anEvent({ position: 14 }))
  expect((await reading).events[0]!.id).toBe('14')
})

test('a retry that has come due is a ready and no transition', async () => {
  it.feed.tell(
    anEvent({ position: 20, from: 'failed', to: 'failed', verb: 'comeDue', ready: 'retried' }),
  )
  const { events } = await board(1, '?after=0')
  expect(events.map(({ id, event }) => [id, event])).toEqual([['21', 'ready']])
})

test('what changes no state and readies nothing is not on the board', async () => {
  it.feed.tell(
    anEvent({ position: 30, from: 'claimed', to: 'claimed', verb: 'progress' }),
    anEvent({ position: 32, from: 'claimed', to: 'done', verb: 'complete' }),
  )
  const { events } = await board(1, '?after=0')
  expect(events[0]!.id).toBe('32')
})

test('a transition that says that the work moved tells when, and no other does', async () => {
  it.feed.tell(
    anEvent({ position: 50, from: 'pending', to: 'claimed', verb: 'claim' }),
    anEvent({ position: 52, from: 'claimed', to: 'input-required', verb: 'interrupt' }),
    anEvent({ position: 54, from: 'input-required', to: 'claimed', verb: 'resumeLater' }),
    anEvent({ position: 56, from: 'claimed', to: 'pending', verb: 'reapLease' }),
  )
  const { events } = await board(4, '?after=0')
  const at = '2026-01-02T03:04:05.006Z'
  expect(events.map(({ data }) => JSON.parse(data).progressAt)).toEqual([at, at, at, null])
})

test('a failure with a retry scheduled is on the board as waiting', async () => {
  it.feed.tell(anEvent({ position: 34, from: 'claimed', to: 'failed', retrying: true }))
  const { events } = await board(1, '?after=0')
  expect(JSON.parse(events[0]!.data)).toMatchObject({ phase: 'waiting', fromPhase: 'held' })
})

test('a cursor older than what is kept is told of the gap, and the feed goes on', async () => {
  it.feed.tell({ gap: true, oldest: 40 }, anEvent({ position: 42 }))
  const { events } = await board(2, '?after=1')
  expect(events[0]).toEqual({ id: undefined, event: 'gap', data: '{"oldest":40}' })
  expect(events[1]!.id).toBe('42')
})

test('the board can be narrowed to queues, named apart or in a list', async () => {
  it.feed.tell(
    anEvent({ position: 50, queue: 'a' }),
    anEvent({ position: 52, queue: 'b' }),
    anEvent({ position: 54, queue: 'c' }),
  )
  const list = await board(2, '?after=0&queue=b,c')
  expect(list.events.map(({ id }) => id)).toEqual(['52', '54'])
  const apart = await board(2, '?after=0&queue=a&queue=c')
  expect(apart.events.map(({ id }) => id)).toEqual(['50', '54'])
})

test('an endpoint that may watch sees its own queues and no other', async () => {
  it.feed.tell(anEvent({ position: 60, queue: 'c' }), anEvent({ position: 62, queue: 'b' }))
  const { events } = await board(1, '?after=0', bearer('agent'))
  expect(events[0]!.id).toBe('62')
  await expect(board(1, '?queue=c', bearer('agent'))).rejects.toThrow('answered 403')
})

test('an agent that waits by a claim leaves the doorbells out, and hears its signals all the same', async () => {
  it.feed.tell(
    anEvent({ position: 2, ready: 'created' }),
    anEvent({ position: 4, verb: 'cancel', from: 'claimed', to: 'canceled', owner: 'mine' }),
  )
  const { events } = await agent(1, '?ready=none&after=0')
  expect(events.map(({ event }) => event)).toEqual(['canceled'])
  const refused = await fetch(`${it.url}/agent/events?ready=some`, { headers: bearer('agent') })
  expect(refused.status).toBe(400)
})

test('an agent hears the doorbell of the queues it named', async () => {
  it.feed.tell(
    anEvent({ position: 70, queue: 'b', ready: 'created' }),
    anEvent({ position: 72, queue: 'a', ready: 'requeued' }),
  )
  const { events } = await agent(1, '?queues=a&after=0')
  expect(events).toEqual([
    { id: '73', event: 'ready', data: '{"id":"todo-1","queue":"a","reason":"requeued"}' },
  ])
})

test('an agent is told of cancels, messages and answers of what it holds, and of nothing else', async () => {
  const held = { from: 'claimed', to: 'claimed', fence: '7' } as const
  it.feed.tell(
    anEvent({ position: 80, ...held, verb: 'cancel', to: 'canceled', owner: 'somebody else' }),
    anEvent({ position: 82, ...held, verb: 'message', owner: 'mine', seq: 5 }),
    anEvent({ position: 84, ...held, verb: 'resume', from: 'input-required', owner: 'mine' }),
    anEvent({ position: 86, ...held, verb: 'progress', owner: 'mine' }),
    anEvent({ position: 88, ...held, verb: 'cancel', to: 'canceled', owner: 'mine', queue: 'b' }),
  )
  const { events } = await agent(3, '?queues=a&after=0')
  expect(events).toEqual([
    { id: '82', event: 'message', data: '{"id":"todo-1","seq":5}' },
    { id: '84', event: 'answered', data: '{"id":"todo-1"}' },
    { id: '88', event: 'canceled', data: '{"id":"todo-1","fence":"7"}' },
  ])
})

test('a feed needs a token with the right for it', async () => {
  const status = async (path: string, headers: Record<string, string>) => {
    const response = await fetch(it.url + path, { headers })
    const { error } = (await response.json()) as { error: { data: { reason: string } } }
    return [response.status, error.data.reason, response.headers.has('www-authenticate')]
  }
  expect(await status('/board/events', {})).toEqual([401, 'unauthenticated', true])
  expect(await status('/board/events?token=admin-token', {})).toEqual([
    401,
    'unauthenticated',
    true,
  ])
  expect(await status('/agent/events', bearer('wrong'))).toEqual([401, 'unauthenticated', true])
  expect(await status('/board/events', bearer('sender'))).toEqual([403, 'forbidden', false])
  expect(await status('/agent/events', bearer('sender'))).toEqual([403, 'forbidden', false])
  expect(await status('/agent/events', bearer('admin-token'))).toEqual([403, 'forbidden', false])
})

test('a cursor that is no position is refused before the stream begins', async () => {
  const response = await fetch(`${it.url}/board/events?after=soon`, {
    headers: bearer('admin-token'),
  })
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({
    error: { data: { violations: [{ field: 'after' }] } },
  })
})

test('a stream ends when the token it was opened with is revoked', async () => {
  const response = await fetch(`${it.url}/board/events`, { headers: bearer('agent') })
  await expect.poll(() => it.feed.readers()).toBe(1)
  it.tokens.revoke('agent')
  expect(await response.text()).toContain('retry: 1234')
  await expect.poll(() => it.feed.readers()).toBe(0)
})

test('a stream ends in order when the server stops, and nothing reads on', async () => {
  const response = await fetch(`${it.url}/board/events`, { headers: bearer('admin-token') })
  await expect.poll(() => it.feed.readers()).toBe(1)
  it.stopping.abort()
  await response.text()
  await expect.poll(() => [it.feed.readers(), it.ended]).toEqual([0, ['ended']])
})

test('a hang-up leaves no reader of the feed behind', async () => {
  it.feed.tell(created)
  await board(1, '?after=0')
  await expect.poll(() => [it.feed.readers(), it.ended]).toEqual([0, ['hung_up']])
})

test('a feed from now on begins before its headers, and says where, so that a break loses nothing', async () => {
  it.feed.tell(created)
  const hangUp = new AbortController()
  const opened = await fetch(`${it.url}/board/events`, {
    headers: bearer('admin-token'),
    signal: hangUp.signal,
  })
  it.feed.tell(anEvent({ position: 12, ready: 'created' }))
  let text = ''
  for await (const chunk of opened.body!) {
    text += new TextDecoder().decode(chunk)
    if (text.includes('id: 13')) break
  }
  hangUp.abort()
  expect(text.match(/^id: .*$/gm)).toEqual(['id: 11', 'id: 12', 'id: 13'])

  const { events } = await board(2, '', { 'last-event-id': '11' })
  expect(events.map(({ id }) => id)).toEqual(['12', '13'])
})
