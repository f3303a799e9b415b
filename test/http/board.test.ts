import { readdirSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Caller } from '../../src/domain/scope.ts'
import type { TodoFilter, TodoPage, TodoView } from '../../src/domain/todo.ts'
import { createAuth } from '../../src/http/auth.ts'
import { createBoard, createBoardAuth } from '../../src/http/board.ts'
import { createBoardSessions } from '../../src/http/board-session.ts'
import { createFeeds } from '../../src/http/feeds.ts'
import { aView } from '../protocol/a-todo.ts'
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

const FOLDER = new URL('../../src/http/board/', import.meta.url)

const waiting = aView({ id: 'waiting' })
const asking = aView({ id: 'asking', state: 'input-required', statusSeq: 3 }, [
  { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'Book a table' }] },
  { messageId: 'm2', role: 'ROLE_AGENT', parts: [{ text: 'For how many?' }] },
])

/** Answers by the first state a list asks for, and remembers what it was asked. */
const createOperator = () => {
  const asked: { filter: TodoFilter; caller: Caller }[] = []
  const byState: Partial<Record<string, TodoView[]>> = {
    pending: [waiting],
    'input-required': [asking],
  }
  return {
    asked,
    list: async (filter: TodoFilter, caller: Caller): Promise<TodoPage> => {
      asked.push({ filter, caller })
      const todos = byState[filter.states?.[0] ?? ''] ?? []
      const { pageSize } = filter
      return { todos, nextPageToken: '', pageSize, totalSize: todos.length }
    },
    listQueues: async () => [],
  }
}

const start = async () => {
  const feed = createLiveFeed()
  const operator = createOperator()
  const tokens = createTokens({
    watcher: anEndpoint({ id: 'watcher', verbs: ['watch'], queues: ['a'] }),
    worker: anEndpoint({ id: 'worker', verbs: ['work'] }),
  })
  const sessions = createBoardSessions(tokens)
  const auth = createAuth(tokens)
  const boardAuth = createBoardAuth(auth, sessions)
  const publicUrl = () => 'https://board.example'
  const board = createBoard({ sessions, operator, boardAuth, log: silent, publicUrl })
  const feeds = createFeeds({
    watch: feed.watch,
    auth,
    boardAuth,
    sseRetryMs: async () => 1000,
    log: silent,
  })
  return { feed, operator, tokens, sessions, ...(await serve(board, feeds)) }
}

let it: Awaited<ReturnType<typeof start>>
beforeEach(async () => {
  it = await start()
})
afterEach(() => it.close())

const login = (token: string, headers: Record<string, string> = {}) =>
  fetch(`${it.url}/board/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ token }),
  })

const cookieOf = (response: Response): string =>
  response.headers.get('set-cookie')?.split(';')[0] ?? ''

const todos = (headers: Record<string, string>, query = '') =>
  fetch(`${it.url}/board/todos${query}`, { headers })

const spend = (code: string, init: RequestInit = {}) =>
  fetch(`${it.url}/board/login?code=${code}`, { redirect: 'manual', ...init })

test('the page runs under a policy that allows its own files and nothing else', async () => {
  const response = await fetch(`${it.url}/board`)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(response.headers.get('content-security-policy')).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
      "img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
  )
  expect(response.headers.get('referrer-policy')).toBe('no-referrer')
})

test('every file the page asks for is served, and none comes from another host', async () => {
  const html = await (await fetch(`${it.url}/board`)).text()
  expect(html).not.toMatch(/<style|style=|\son[a-z]+=|https?:|<script(?![^>]*\ssrc=)/)
  const links = [...html.matchAll(/(?:href|src)="(board\/[^"]+)"/g)].map(([, link]) => link!)
  expect(links).toEqual(['board/board.css', 'board/board.js'])
  const script = await (await fetch(new URL(links[1]!, `${it.url}/board`))).text()
  const imports = [...script.matchAll(/from '\.\/([^']+)'/g)].map(([, name]) => `board/${name}`)
  expect(imports.length).toBeGreaterThan(0)
  for (const link of [...links, ...imports]) {
    const response = await fetch(new URL(link, `${it.url}/board`))
    expect([link, response.status]).toEqual([link, 200])
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
  }
})

test('nothing of the page ever reads text as markup or as code', () => {
  for (const name of readdirSync(FOLDER)) {
    const text = readFileSync(new URL(name, FOLDER), 'utf8')
    expect(text, name).not.toMatch(
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\b|Function\(|setHTML|\.href\s*=|srcdoc|https?:\/\//,
    )
  }
})

test('a token in the URL logs nobody in', async () => {
  expect((await fetch(`${it.url}/board/todos?token=admin-token`)).status).toBe(401)
  expect((await fetch(`${it.url}/board/login?token=admin-token`)).status).toBe(401)
})

test('a log-in gives a cookie that no script reads and no other path or site is sent', async () => {
  const response = await login('admin-token')
  expect(response.status).toBe(204)
  const cookie = response.headers.get('set-cookie')!
  expect(cookie).toMatch(/^switchboard_board=[A-Za-z0-9_-]{43}; /)
  for (const flag of ['HttpOnly', 'SameSite=Strict', 'Path=/board', 'Secure', 'Max-Age=']) {
    expect(cookie).toContain(flag)
  }
  expect(cookie).not.toContain('admin-token')
})

test('the cookie opens the snapshot and the feed', async () => {
  const cookie = cookieOf(await login('watcher'))
  expect((await todos({ cookie })).status).toBe(200)
  it.feed.tell(anEvent({ position: 2, queue: 'b' }), anEvent({ position: 4, queue: 'a' }))
  const { events } = await readEvents(`${it.url}/board/events?after=0`, { cookie }, 1)
  expect(events[0]!.id).toBe('4')
})

test('the cookie is worth nothing on the feed of agents', async () => {
  const cookie = cookieOf(await login('admin-token'))
  expect((await fetch(`${it.url}/agent/events`, { headers: { cookie } })).status).toBe(401)
})

test('a wrong token is refused, and one without the right to watch is told so', async () => {
  expect((await login('wrong')).status).toBe(401)
  expect((await login('worker')).status).toBe(403)
  expect(cookieOf(await login('wrong'))).toBe('')
})

test('a session ends with the token it was opened with', async () => {
  const cookie = cookieOf(await login('watcher'))
  it.tokens.revoke('watcher')
  expect((await todos({ cookie })).status).toBe(401)
})

test('who logs out is out', async () => {
  const cookie = cookieOf(await login('admin-token'))
  const out = await fetch(`${it.url}/board/logout`, { method: 'POST', headers: { cookie } })
  expect(out.status).toBe(204)
  expect((await todos({ cookie })).status).toBe(401)
})

test('a log-in that another site asks for is refused', async () => {
  expect((await login('admin-token', { 'sec-fetch-site': 'cross-site' })).status).toBe(403)
  expect((await login('admin-token', { 'sec-fetch-site': 'same-site' })).status).toBe(403)
  expect((await login('admin-token', { origin: 'https://evil.example' })).status).toBe(403)
  expect((await login('admin-token', { origin: 'null' })).status).toBe(403)
  expect((await login('admin-token', { 'sec-fetch-site': 'same-origin' })).status).toBe(204)
  expect((await login('admin-token', { origin: 'https://board.example' })).status).toBe(204)
  expect((await login('admin-token', { 'content-type': 'text/plain' })).status).toBe(415)
})

test('after ten failures an address has to wait, also with the right token', async () => {
  const answers = await Promise.all(Array.from({ length: 12 }, () => login('wrong')))
  expect(answers.filter(({ status }) => status === 401)).toHaveLength(10)
  const late = await login('admin-token')
  expect(late.status).toBe(429)
  expect(Number(late.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('a success is not counted against an address', async () => {
  for (let i = 0; i < 15; i++) expect((await login('admin-token')).status).toBe(204)
})

test('a one-time code logs in once, and only by a look of the one it was given to', async () => {
  const code = it.sessions.issueCode({ kind: 'operator' }, 60_000)
  expect((await spend(code, { method: 'HEAD' })).status).toBe(403)
  expect((await spend(code, { headers: { 'sec-fetch-site': 'cross-site' } })).status).toBe(403)
  const first = await spend(code)
  expect(first.status).toBe(303)
  expect(new URL(first.headers.get('location')!, `${it.url}/board/login`).pathname).toBe('/board')
  expect((await todos({ cookie: cookieOf(first) })).status).toBe(200)
  const second = await spend(code)
  expect([second.status, cookieOf(second)]).toEqual([401, ''])
})

test('a code that has expired logs nobody in', async () => {
  const code = it.sessions.issueCode({ kind: 'operator' }, -1)
  expect((await spend(code)).status).toBe(401)
})

test('the number of sessions is bounded and the oldest gives way', async () => {
  const oldest = await it.sessions.login({ token: 'admin-token' })
  for (let i = 0; i < 1000; i++) await it.sessions.login({ token: 'admin-token' })
  expect(await it.sessions.authenticate(oldest!)).toBe(null)
})

test('the snapshot has a lane for each phase, with cards of what a line needs', async () => {
  const response = await todos(bearer('admin-token'))
  expect(response.headers.get('cache-control')).toBe('no-store')
  const { lanes, queues } = (await response.json()) as {
    lanes: Record<string, { total: number; todos: object[] }>
    queues: string[]
  }
  expect(queues).toEqual([])
  expect(Object.keys(lanes)).toEqual(['waiting', 'held', 'interrupted', 'ended'])
  expect(lanes.waiting!.total).toBe(1)
  expect(lanes.interrupted!.todos[0]).toEqual({
    id: 'asking',
    queue: 'legal',
    contextId: 'context-1',
    state: 'input-required',
    phase: 'interrupted',
    seq: 3,
    attempt: 1,
    maxAttempts: 5,
    claimant: 'box-1',
    title: 'Book a table',
    said: 'For how many?',
    error: null,
    retryAt: null,
    progressAt: null,
    at: '2026-01-02T03:04:05.006Z',
  })
})

test('every list of the snapshot is bounded and asked for in the name of its reader', async () => {
  await todos(bearer('watcher'), '?queue=a')
  expect(it.operator.asked.map(({ filter }) => [filter.states, filter.retrying])).toEqual([
    [['pending', 'failed'], 'only'],
    [['claimed'], undefined],
    [['input-required', 'auth-required'], undefined],
    [['done', 'failed', 'canceled', 'rejected'], 'never'],
  ])
  for (const { filter, caller } of it.operator.asked) {
    expect(filter).toMatchObject({ queue: 'a', pageSize: 50, includeArtifacts: false })
    expect(caller).toMatchObject({ kind: 'endpoint', endpoint: { id: 'watcher' } })
  }
})

test('a list that fails makes the snapshot an error and not a shorter board', async () => {
  it.operator.listQueues = () => Promise.reject(new Error('secret of the database'))
  const response = await todos(bearer('admin-token'))
  expect(response.status).toBe(500)
  expect(await response.text()).not.toContain('secret')
})
