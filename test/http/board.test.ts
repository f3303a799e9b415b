// The board over HTTP: its files and their policy, who comes in and how, and what it is told.
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, startNode, testConfig } from '../support/app.ts'
import { a2aClient, agentClient, openStream } from '../support/clients/actors.ts'
import { ask, operate, saying } from '../support/steps.ts'

const FOLDER = new URL('../../src/http/board/assets/', import.meta.url)

const app = await startApp()
const a = await app.queue('a', { contexts: 'parallel' })
const b = await app.queue('b', { contexts: 'parallel' })
const client = a2aClient(app.url, 'a', a.client.token)
const worker = agentClient(app.url, a.agent.token)
const watcher = await app.vend(['watch'], ['a'], { name: 'watcher' })
const answerer = await app.vend(['watch', 'answer'], ['a'], { name: 'answerer' })

const loginTo = (url: string, token: string, headers: Record<string, string> = {}) =>
  fetch(`${url}/board/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ token }),
  })
const login = (token: string, headers: Record<string, string> = {}) =>
  loginTo(app.url, token, headers)

const cookieOf = (response: Response): string =>
  response.headers.get('set-cookie')?.split(';')[0] ?? ''
const cookieFor = async (token: string) => cookieOf(await login(token))

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

const todos = (headers: Record<string, string>, query = '') =>
  fetch(`${app.url}/board/todos${query}`, { headers })

const spend = (code: string, init: RequestInit = {}, url = app.url) =>
  fetch(`${url}/board/login?code=${code}`, { redirect: 'manual', ...init })

/** A call as the page makes it. */
const call = async (
  cookie: string,
  method: string,
  params: unknown,
  headers: Record<string, string> = { 'x-switchboard-board': '1' },
) => {
  const response = await fetch(`${app.url}/board/operator`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', cookie, ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked into member by member
  return { status: response.status, body: (await response.json()) as any }
}

const asked = async (text: string, question: string, more = {}) => {
  await client.submit(text)
  const todo = await worker.claim()
  await ask(worker, todo, question, more)
  return todo
}

test('the page runs under a policy that allows its own files and nothing else', async () => {
  const response = await fetch(`${app.url}/board`)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(response.headers.get('content-security-policy')).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
      "img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; " +
      "require-trusted-types-for 'script'; trusted-types lit-html switchboard",
  )
  expect(response.headers.get('referrer-policy')).toBe('no-referrer')
})

test('every file the page asks for is served, and none comes from another host', async () => {
  const html = await (await fetch(`${app.url}/board`)).text()
  expect(html).not.toMatch(/<style|style=|\son[a-z]+=|https?:|<script(?![^>]*\ssrc=)/)
  const links = [...html.matchAll(/(?:href|src)="(board\/[^"]+)"/g)].map(([, link]) => link!)
  const seen = new Set<string>()
  const look = async (address: URL): Promise<void> => {
    if (seen.has(address.href)) return
    seen.add(address.href)
    const response = await fetch(address)
    expect([address.pathname, response.status]).toEqual([address.pathname, 200])
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    if (!address.pathname.endsWith('.js')) return
    const script = await response.text()
    const imports = [...script.matchAll(/(?:\bfrom\s*|\bimport\s*)["']([^"'\s]+)["']/g)]
    for (const [, name] of imports) {
      // A browser finds nothing by its name.
      expect(name).toMatch(/^\.\.?\//)
      await look(new URL(name!, address))
    }
  }
  for (const link of links) await look(new URL(link, `${app.url}/board`))
  expect([...seen].some((address) => address.endsWith('/vendor/lit-html/lit-html.js'))).toBe(true)
  expect([...seen].every((address) => new URL(address).origin === app.url)).toBe(true)
})

test('of the libraries only what the page needs is served, and nothing above them', async () => {
  for (const path of [
    'vendor/lit-html/package.json',
    'vendor/../../package.json',
    'vendor/%2e%2e/%2e%2e/package.json',
    'vendor/uplot/package.json',
    'index.html',
  ]) {
    expect([path, (await fetch(`${app.url}/board/${path}`)).status]).toEqual([path, 404])
  }
})

test('nothing of the page ever reads text as markup or as code', () => {
  for (const name of readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })) {
    if (!name.includes('.')) continue
    const text = readFileSync(new URL(name, FOLDER), 'utf8')
    expect(text, name).not.toMatch(
      /innerHTML|outerHTML|unsafeHTML|unsafeSVG|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\b|Function\(|setHTML|srcdoc|https?:\/\//,
    )
  }
})

test('a token in the URL logs nobody in', async () => {
  expect((await fetch(`${app.url}/board/todos?token=${ADMIN_TOKEN}`)).status).toBe(401)
  expect((await fetch(`${app.url}/board/login?token=${ADMIN_TOKEN}`)).status).toBe(401)
})

test('a log-in gives a cookie that no script reads and no other path or site is sent', async () => {
  const response = await login(ADMIN_TOKEN)
  expect(response.status).toBe(204)
  const cookie = response.headers.get('set-cookie')!
  expect(cookie).toMatch(/^switchboard_board=[A-Za-z0-9_-]{43}; /)
  for (const flag of ['HttpOnly', 'SameSite=Strict', 'Path=/board', 'Max-Age=']) {
    expect(cookie).toContain(flag)
  }
  expect(cookie).not.toContain(ADMIN_TOKEN)
})

test('behind TLS the cookie is sent over TLS only', async () => {
  const node = await startNode(app.databaseUrl, {
    config: testConfig({ publicUrl: 'https://board.example' }),
  })
  const response = await loginTo(node.url, ADMIN_TOKEN, { origin: 'https://board.example' })
  expect(response.headers.get('set-cookie')).toContain('; Secure')
  await node.stop()
})

test('the cookie opens the lanes and the feed, of the queues its token may watch', async () => {
  const cookie = await cookieFor(watcher.token)
  await a2aClient(app.url, 'b', b.client.token).submit('not yours')
  await client.submit('yours')
  const { lanes } = (await (await todos({ cookie })).json()) as {
    lanes: { waiting: { todos: { queue: string }[] } }
  }
  expect(new Set(lanes.waiting.todos.map(({ queue }) => queue))).toEqual(new Set(['a']))
  expect((await todos({ cookie }, '?queue=b')).status).toBe(403)
  const feed = await openStream(`${app.url}/board/events?after=0`, { headers: { cookie } })
  const frames = await feed.until(({ json }) => json.detail?.text === 'yours')
  expect(new Set(frames.map(({ json }) => json.queue))).toEqual(new Set(['a']))
  feed.close()
  await worker.claim()
})

test('the cookie is found among others, and none is taken for it', async () => {
  const cookie = await cookieFor(watcher.token)
  const me = async (text: string) =>
    (await fetch(`${app.url}/board/me`, { headers: { cookie: text } })).status
  expect(await me(`theme="dark; blue"; broken; x=%E0%A4%A; ${cookie}; y=1`)).toBe(200)
  expect(await me(`not_${cookie}`)).toBe(401)
  expect(await me(`${cookie}x; ${cookie}`)).toBe(401)
  expect(await me('switchboard_board=')).toBe(401)
})

test('the cookie is worth nothing on the feed of agents', async () => {
  const cookie = cookieOf(await login(ADMIN_TOKEN))
  expect((await fetch(`${app.url}/agent/events`, { headers: { cookie } })).status).toBe(401)
})

test('a wrong token is refused, and one without the right to watch is told so', async () => {
  expect((await login('wrong')).status).toBe(401)
  expect((await login(a.agent.token)).status).toBe(403)
  expect(cookieOf(await login('wrong'))).toBe('')
})

test('a session ends with the token it was opened with', async () => {
  const leaver = await app.vend(['watch'], ['a'])
  const turned = await app.vend(['watch'], ['a'])
  const cookies = [await cookieFor(leaver.token), await cookieFor(turned.token)]
  for (const cookie of cookies) expect((await todos({ cookie })).status).toBe(200)
  await operate(app, 'endpoints.revoke', { id: leaver.endpoint.id })
  await operate(app, 'endpoints.rotate', { id: turned.endpoint.id })
  for (const cookie of cookies) expect((await todos({ cookie })).status).toBe(401)
})

test('a session is good on every node, after a restart, and as long as the admin token is', async () => {
  const cookie = await cookieFor(ADMIN_TOKEN)
  const look = (url: string) => fetch(`${url}/board/todos`, { headers: { cookie } })
  const other = await startNode(app.databaseUrl)
  expect((await look(other.url)).status).toBe(200)
  await other.stop()
  const changed = await startNode(app.databaseUrl, {
    config: testConfig({ adminToken: 'another-admin-token' }),
  })
  expect((await look(changed.url)).status).toBe(401)
  await changed.stop()
  expect((await look(app.url)).status).toBe(200)
})

test('sessions are listed without their secrets, and revoked one by one or all at once', async () => {
  const mine = await cookieFor(watcher.token)
  const other = await cookieFor(ADMIN_TOKEN)
  const { sessions } = await operate(app, 'sessions.list', {})
  expect(JSON.stringify(sessions)).not.toContain(mine.split('=')[1])
  const found = sessions.find(
    ({ endpoint }: { endpoint: { id: string } | null }) => endpoint?.id === watcher.endpoint.id,
  )
  expect(found).toMatchObject({ endpoint: { name: 'watcher' }, live: true })
  const newest = sessions.find(
    ({ endpoint }: { endpoint: { id: string } | null }) => endpoint?.id === watcher.endpoint.id,
  )
  expect(await operate(app, 'sessions.revoke', { id: newest.id })).toEqual({ revoked: 1 })
  expect((await todos({ cookie: mine })).status).toBe(401)
  expect((await todos({ cookie: other })).status).toBe(200)
  await expect(operate(app, 'sessions.revoke', { id: newest.id })).rejects.toMatchObject({
    error: { code: -32012 },
  })
  await operate(app, 'sessions.revoke', { all: true })
  expect((await todos({ cookie: other })).status).toBe(401)
})

test('who logs out is out', async () => {
  const cookie = cookieOf(await login(ADMIN_TOKEN))
  const out = await fetch(`${app.url}/board/logout`, { method: 'POST', headers: { cookie } })
  expect(out.status).toBe(204)
  expect((await todos({ cookie })).status).toBe(401)
})

test('a log-in that another site asks for is refused', async () => {
  expect((await login(ADMIN_TOKEN, { 'sec-fetch-site': 'cross-site' })).status).toBe(403)
  expect((await login(ADMIN_TOKEN, { 'sec-fetch-site': 'same-site' })).status).toBe(403)
  expect((await login(ADMIN_TOKEN, { origin: 'https://evil.example' })).status).toBe(403)
  expect((await login(ADMIN_TOKEN, { origin: 'null' })).status).toBe(403)
  expect((await login(ADMIN_TOKEN, { 'sec-fetch-site': 'same-origin' })).status).toBe(204)
  expect((await login(ADMIN_TOKEN, { origin: app.url })).status).toBe(204)
  expect((await login(ADMIN_TOKEN, { 'content-type': 'text/plain' })).status).toBe(415)
})

test('a success is not counted against an address', async () => {
  for (let i = 0; i < 15; i++) expect((await login(ADMIN_TOKEN)).status).toBe(204)
})

test('a one-time code logs in once, on any node, and only by a look of the one it was given to', async () => {
  const code = await app.issueBoardCode()
  expect((await spend(code, { method: 'HEAD' })).status).toBe(403)
  expect((await spend(code, { headers: { 'sec-fetch-site': 'cross-site' } })).status).toBe(403)
  const first = await spend(code)
  expect(first.status).toBe(303)
  expect(new URL(first.headers.get('location')!, `${app.url}/board/login`).pathname).toBe('/board')
  expect((await todos({ cookie: cookieOf(first) })).status).toBe(200)
  const second = await spend(code)
  expect([second.status, cookieOf(second)]).toEqual([401, ''])
  // Who is logged in already is led to the board, and stays who they were.
  const again = await spend(code, { headers: { cookie: cookieOf(first) } })
  expect([again.status, cookieOf(again)]).toEqual([303, ''])
  const stranger = await spend(code, { headers: { cookie: 'switchboard_board=x' } })
  expect(stranger.status).toBe(401)
  const other = await startNode(app.databaseUrl)
  expect((await spend(await app.issueBoardCode(), {}, other.url)).status).toBe(303)
  await other.stop()
})

test('a code or session that has expired logs nobody in', async () => {
  const code = await app.issueBoardCode()
  await app.sql(`update board_codes set expires_at = now()`)
  expect((await spend(code)).status).toBe(401)
  const cookie = await cookieFor(ADMIN_TOKEN)
  await app.sql(`update board_sessions set expires_at = now()`)
  expect((await todos({ cookie })).status).toBe(401)
  await cookieFor(ADMIN_TOKEN)
  expect(await app.sql('select from board_sessions')).toHaveLength(1)
})

test('the number of sessions is bounded and the oldest gives way', async () => {
  const cookie = await cookieFor(ADMIN_TOKEN)
  await app.sql(
    `insert into board_sessions (secret_sha256, token_sha256, created_at, expires_at)
    select sha256(i::text::bytea), (select token_sha256 from board_sessions order by created_at desc limit 1), now() + make_interval(secs => i), now() + interval '1 hour'
    from generate_series(1, 999) i`,
  )
  expect((await todos({ cookie })).status).toBe(200)
  await cookieFor(ADMIN_TOKEN)
  expect((await todos({ cookie })).status).toBe(401)
  await app.sql('delete from board_sessions')
})

test('the lanes are the phases of life, with cards of what a line needs', async () => {
  const todo = await asked('Book a table', 'For how many?', {
    schema: { type: 'object', properties: { seats: { type: 'integer' } } },
  })
  const response = await todos(bearer(ADMIN_TOKEN))
  expect(response.headers.get('cache-control')).toBe('no-store')
  const { lanes } = (await response.json()) as {
    lanes: Record<string, { total: number; todos: { id: string }[] }>
  }
  expect(Object.keys(lanes)).toEqual(['waiting', 'held', 'interrupted', 'ended'])
  const card = lanes.interrupted!.todos.find(({ id }) => id === todo.id)
  expect(card).toMatchObject({
    queue: 'a',
    state: 'input-required',
    phase: 'interrupted',
    client: 'send',
    title: 'Book a table',
    said: 'For how many?',
    parked: false,
    question: {
      seq: 3,
      plain: false,
      form: [{ name: 'seats', kind: 'integer', label: 'seats', required: false }],
    },
  })
  await operate(app, 'todos.cancel', { id: todo.id })
})

test('a lane is read a page at a time, and todos by their ids, within what one may watch', async () => {
  for (let i = 0; i < 5; i += 1) await client.submit(`page ${i}`)
  const foreign = await a2aClient(app.url, 'b', b.client.token).submit('foreign')
  interface Page {
    todos: { id: string; title: string }[]
    total: number
    nextPageToken: string
  }
  const seen: string[] = []
  let token = ''
  do {
    const query = `?lane=waiting&queue=a&pageSize=2&pageToken=${token}`
    const page = (await (await todos(bearer(watcher.token), query)).json()) as Page
    expect(page.total).toBe(5)
    seen.push(...page.todos.map(({ title }) => title))
    token = page.nextPageToken
  } while (token !== '')
  expect(seen).toEqual(['page 4', 'page 3', 'page 2', 'page 1', 'page 0'])

  const some = await todos(bearer(watcher.token), `?ids=${foreign.id},nonsense`)
  expect(await some.json()).toEqual({ todos: [] })
  const whole = await todos(bearer(ADMIN_TOKEN), `?ids=${foreign.id}`)
  expect(((await whole.json()) as Page).todos).toMatchObject([{ title: 'foreign' }])
  for (const { id } of (await worker.call('todos.claim', { limit: 5 })).todos) {
    await operate(app, 'todos.cancel', { id })
  }
})

test.each([
  '?lane=nowhere',
  '?pageSize=0&lane=held',
  '?lane=held&pageToken=x',
  '?state=asleep',
  '?queue=a&lane=a&lane=b',
  '?queue=a%00',
  '?context=%00',
])('what the lanes cannot be asked is refused in words: %s', async (query) => {
  const response = await todos(bearer(ADMIN_TOKEN), query)
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({ error: { data: { violations: [{}] } } })
})

test('the page acts in the name of who is logged in, as far as that one may', async () => {
  const todo = await asked('act', 'really?')
  const watching = await cookieFor(watcher.token)
  const answering = await cookieFor(answerer.token)
  const shown = await call(watching, 'todos.show', { id: todo.id })
  expect(shown.body.result).toMatchObject({ id: todo.id, question: { seq: 3 } })
  const answer = { id: todo.id, question: 3, message: saying('yes') }
  expect((await call(watching, 'todos.answer', answer)).body.error.code).toBe(-32011)
  expect((await call(answering, 'todos.cancel', { id: todo.id })).body.error.code).toBe(-32011)
  expect((await call(answering, 'todos.answer', answer)).body.result.receipt.outcome).toBe(
    'resumed',
  )
  const admin = await cookieFor(ADMIN_TOKEN)
  expect((await call(admin, 'todos.cancel', { id: todo.id })).body.result.state).toBe('canceled')
})

test('an answer meant for one question never answers another, nor lands in the inbox', async () => {
  const todo = await asked('twice', 'first?')
  const admin = await cookieFor(ADMIN_TOKEN)
  const late = { id: todo.id, question: 3, message: saying('to the first') }
  await call(admin, 'todos.answer', late)
  expect(
    (await call(admin, 'todos.answer', { ...late, message: saying('late') })).body.error,
  ).toMatchObject({
    data: { reason: 'wrong_state', state: 'claimed' },
  })
  await ask(worker, todo, 'second?')
  expect((await call(admin, 'todos.answer', late)).body.error.data.reason).toBe('wrong_state')
  const { messages } = await operate(app, 'todos.show', { id: todo.id })
  expect(
    messages.map(
      ({ message }: { message: { parts: { text: string }[] } }) => message.parts[0]!.text,
    ),
  ).toEqual(['twice', 'first?', 'to the first', 'second?'])
  await operate(app, 'todos.cancel', { id: todo.id })
})

test('no other site makes the page act, and the page can do nothing but what is about todos and what their webhooks were told', async () => {
  const cookie = await cookieFor(ADMIN_TOKEN)
  const list = (headers: Record<string, string>) => call(cookie, 'todos.list', {}, headers)
  const own = { 'x-switchboard-board': '1' }
  expect((await list({})).status).toBe(403)
  expect((await list({ ...own, 'sec-fetch-site': 'cross-site' })).status).toBe(403)
  expect((await list({ ...own, 'sec-fetch-site': 'same-site' })).status).toBe(403)
  expect((await list({ ...own, origin: 'https://evil.example' })).status).toBe(403)
  expect((await list({ ...own, 'content-type': 'text/plain' })).status).toBe(415)
  expect((await list({ ...own, origin: app.url })).status).toBe(200)
  expect((await call(cookie, 'deliveries.list', {})).status).toBe(200)
  for (const method of ['endpoints.vend', 'settings.set', 'deliveries.retry', 'sessions.list']) {
    expect((await call(cookie, method, {})).body.error.code).toBe(-32601)
  }
  expect((await call('', 'todos.list', {})).status).toBe(401)
  // A cookie opens the board and nothing beside it.
  const operator = await fetch(`${app.url}/operator`, { method: 'POST', headers: { cookie } })
  expect(operator.status).toBe(401)
})

test('the page learns who looks, and what to offer', async () => {
  const me = async (token: string) =>
    (await fetch(`${app.url}/board/me`, { headers: bearer(token) })).json()
  expect(await me(ADMIN_TOKEN)).toEqual({
    name: 'operator',
    queues: ['a', 'b'],
    mayAnswer: true,
    mayOperate: true,
  })
  expect(await me(watcher.token)).toEqual({
    name: 'watcher',
    queues: ['a'],
    mayAnswer: false,
    mayOperate: false,
  })
  expect(await me(answerer.token)).toMatchObject({ mayAnswer: true, mayOperate: false })
})
