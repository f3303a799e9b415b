// Pages of other origins: none may call the APIs, unless they were named.
// Field cases: browser clients of other origins.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { startApp, startNode, testConfig } from '../support/app.ts'
import { openBrowser } from '../support/browser.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'

/** A site of its own: an origin with an empty page. */
const startSite = async (): Promise<string> => {
  const server = createServer((_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>a page</title>')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterAll(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const [site, stranger] = [await startSite(), await startSite()]
const app = await startApp({ config: testConfig({ corsOrigins: [site] }) })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const task = await a2a.submit('x')

const PREFLIGHT = {
  'Access-Control-Request-Method': 'POST',
  'Access-Control-Request-Headers': 'a2a-version,authorization,content-type',
}
const preflight = (path: string, origin: string, url = app.url) =>
  fetch(`${url}${path}`, { method: 'OPTIONS', headers: { Origin: origin, ...PREFLIGHT } })

/** The card, which is all that a GET of the agent's own path gives, may be read by anyone. */
const expectNoCalls = (headers: Headers): void => {
  expect(headers.get('access-control-allow-origin') ?? '*').toBe('*')
  expect(headers.get('access-control-allow-methods') ?? 'GET, HEAD').toBe('GET, HEAD')
  expect(headers.get('access-control-allow-headers') ?? '').not.toMatch(
    /authorization|content-type/i,
  )
}

const PATHS = [
  '/a2a/desk',
  '/a2a/desk/',
  '/a2a/desk?x=1',
  '/A2A/desk',
  '/a2a/desk/tasks',
  `/a2a/desk/tasks/${task.id}:subscribe`,
  '/a2a/no-such-queue',
  '/agent',
  '/agent/events',
  '/operator',
]

test.each(PATHS)(
  'the preflight of %s is answered for the origins that were named',
  async (path) => {
    const { status, headers } = await preflight(path, site)
    expect(status).toBe(204)
    expect(headers.get('access-control-allow-origin')).toBe(site)
    expect(headers.get('vary')).toBe('Origin')
    expect(headers.get('access-control-allow-methods')).toBe('GET, HEAD, POST, DELETE')
    const allowed = headers.get('access-control-allow-headers')!.toLowerCase().split(', ')
    for (const header of [
      'authorization',
      'content-type',
      'a2a-version',
      'a2a-extensions',
      'x-a2a-extensions',
      'idempotency-key',
      'last-event-id',
    ]) {
      expect(allowed).toContain(header)
    }
    expect(Number(headers.get('access-control-max-age'))).toBeGreaterThan(0)
    expect(headers.get('access-control-allow-credentials')).toBeNull()
  },
)

test('what a page must see of an answer is exposed to it', async () => {
  for (const path of ['/a2a/desk/tasks', '/agent', '/operator']) {
    const { headers } = await fetch(`${app.url}${path}`, { headers: { Origin: site } })
    const exposed = headers.get('access-control-expose-headers')!.toLowerCase().split(', ')
    for (const header of [
      'retry-after',
      'www-authenticate',
      'allow',
      'x-request-id',
      'a2a-extensions',
      'x-a2a-extensions',
      'switchboard-webhook-secret',
    ]) {
      expect([path, exposed]).toEqual([path, expect.arrayContaining([header])])
    }
  }
})

test.each(PATHS)('%s opens to no other origin, and says that it depends on it', async (path) => {
  for (const origin of [
    stranger,
    'null',
    `${site}.evil.example`,
    site.replace('http:', 'https:'),
  ]) {
    const { headers } = await preflight(path, origin)
    expectNoCalls(headers)
    expect(headers.get('vary')).toBe('Origin')
  }
  expectNoCalls((await fetch(`${app.url}${path}`, { method: 'OPTIONS' })).headers)
})

test('what else an answer varies by stands beside the origin', async () => {
  const headers = { Origin: site, 'A2A-Version': '1.0', Authorization: `Bearer ${client.token}` }
  for (const [path, also] of [
    [`/a2a/desk/tasks/${task.id}`, 'Accept'],
    ['/a2a/desk/.well-known/agent-card.json', 'A2A-Version'],
  ]) {
    const answer = await fetch(`${app.url}${path}`, { headers })
    expect(answer.status).toBe(200)
    expect(answer.headers.get('vary')).toBe(`Origin, ${also}`)
  }
})

test.each(['/board', '/board/me', '/board/operator', '/board/events', '/metrics', '/answer/x'])(
  '%s stays its own page’s',
  async (path) => {
    for (const method of ['OPTIONS', 'GET']) {
      const { headers } = await fetch(`${app.url}${path}`, {
        method,
        headers: { Origin: site, ...(method === 'OPTIONS' && PREFLIGHT) },
      })
      expect(headers.get('access-control-allow-origin')).toBeNull()
    }
  },
)

test('by default no page may call, and no answer depends on its origin', async () => {
  const node = await startNode(app.databaseUrl)
  try {
    for (const path of PATHS) {
      const { headers } = await preflight(path, site, node.url)
      expectNoCalls(headers)
      expect(headers.get('vary')).toBeNull()
    }
  } finally {
    await node.stop()
  }
})

test('a star opens to all, and then no answer depends on the origin', async () => {
  const node = await startNode(app.databaseUrl, { config: testConfig({ corsOrigins: ['*'] }) })
  try {
    for (const origin of [site, stranger, 'null']) {
      const { status, headers } = await preflight('/a2a/desk', origin, node.url)
      expect([status, headers.get('access-control-allow-origin')]).toEqual([204, '*'])
      expect(headers.get('vary')).toBeNull()
    }
  } finally {
    await node.stop()
  }
})

/** Runs in the page: everything a client in a browser does, as far as it gets. */
const useApis = async ([url, token, worker, id]: string[]) => {
  const headers = { Authorization: `Bearer ${token}`, 'A2A-Version': '1.0' }
  const post = (path: string, method: string, params: object, more: Record<string, string> = {}) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json', ...more },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
  const firstOf = async (answer: Response): Promise<string> => {
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    while (!text.includes('\n\n')) text += (await reader.read()).value ?? '\n\n'
    await reader.cancel()
    return text
  }
  const said = async (step: () => Promise<unknown>) =>
    step().then(
      (value) => value,
      (error: Error) => error.name,
    )
  return {
    rpc: await said(
      async () => (await post('/a2a/desk', 'GetTask', { id }, { 'Idempotency-Key': 'k' })).status,
    ),
    named: await said(async () =>
      (await post('/a2a/desk', 'GetTask', { id })).headers.has('x-request-id'),
    ),
    unauthenticated: await said(async () => {
      const answer = await fetch(`${url}/a2a/desk/tasks`, { headers: { 'A2A-Version': '1.0' } })
      return [answer.status, answer.headers.get('www-authenticate')]
    }),
    rest: await said(async () => (await fetch(`${url}/a2a/desk/tasks/${id}`, { headers })).status),
    stream: await said(async () =>
      (await firstOf(await post('/a2a/desk', 'SubscribeToTask', { id }))).includes('TASK_STATE'),
    ),
    resumed: await said(async () => {
      const resuming = { 'Last-Event-ID': '1' }
      return (await post('/a2a/desk', 'SubscribeToTask', { id }, resuming)).status
    }),
    restStream: await said(async () =>
      (await firstOf(await fetch(`${url}/a2a/desk/tasks/${id}:subscribe`, { headers }))).includes(
        'TASK_STATE',
      ),
    ),
    agent: await said(async () => {
      const own = { Authorization: `Bearer ${worker}` }
      return (await post('/agent', 'todos.list', {}, own)).status
    }),
    feed: await said(async () => {
      const answer = await fetch(`${url}/agent/events`, {
        headers: { Authorization: `Bearer ${worker}` },
      })
      return (await firstOf(answer)).includes('retry')
    }),
    card: await said(
      async () => (await fetch(`${url}/a2a/desk/.well-known/agent-card.json`)).status,
    ),
  }
}

test('a client in a browser does everything from an origin that was named, and nothing from another', async () => {
  await agentClient(app.url, agent.token).claim()
  const browser = await openBrowser()
  const context = await browser.newContext()
  try {
    const page = await context.newPage()
    const given = [app.url, client.token, agent.token, task.id]
    await page.goto(site)
    expect(await page.evaluate(useApis, given)).toEqual({
      rpc: 200,
      named: true,
      unauthenticated: [401, 'Bearer realm="switchboard"'],
      rest: 200,
      stream: true,
      resumed: 200,
      restStream: true,
      agent: 200,
      feed: true,
      card: 200,
    })
    await page.goto(stranger)
    const refused = await page.evaluate(useApis, given)
    const { card, ...apis } = refused
    expect(card).toBe(200)
    expect(new Set(Object.values(apis))).toEqual(new Set(['TypeError']))
  } finally {
    await context.close()
  }
})
