// Paths, queries and bodies made to break HTTP+JSON: always a clear refusal, never a 5xx or a hang.
import { connect } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import { restClient } from '../../support/clients/rest.ts'
import { rowCounts, UNKNOWN_ID } from '../../support/steps.ts'

const app = await startApp()
const { client } = await app.queue('desk', { contexts: 'parallel' })
const rest = restClient(app.url, 'desk', client.token)
const old03 = restClient(app.url, 'desk', client.token, '0.3')
const { hostname, port } = new URL(app.url)

/** The request line and all headers by hand: fetch would tidy them. */
const raw = (
  verb: string,
  target: string,
  { version = '1.0', headers = [] as string[], body = '' } = {},
): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      const lines = [
        `${verb} ${target} HTTP/1.1`,
        `Host: ${hostname}`,
        `Authorization: Bearer ${client.token}`,
        `A2A-Version: ${version}`,
        'Connection: close',
        ...headers,
      ]
      socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`)
    })
    let text = ''
    socket.setEncoding('utf8')
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('close', () => resolve(text))
    socket.on('error', reject)
  })

const statusOf = (text: string): number => Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1])

const expectTame = (text: string): void => {
  const status = statusOf(text)
  expect([text.split('\r\n')[0], status >= 200 && status < 500]).toEqual([expect.anything(), true])
  expect(text).not.toMatch(/\bat .*\.ts\b|node_modules|select |SyntaxError/)
}

const piece = fc.oneof(
  fc.constantFrom(
    ...['tasks', 'message:send', 'message:stream', 'extendedAgentCard', 'pushNotificationConfigs'],
    ...['v1', '..', '.', '%2e%2e', '%00', '%zz', '%E6%BC', ':cancel', `${UNKNOWN_ID}:subscribe`],
    ...['a:b:c', '', '*', '{id}', '__proto__', 'constructor', ';', '@', '%2F', '%3Acancel', '\\'],
  ),
  // What may stand in a request target: anything else ends it before it gets to us.
  fc.string({ maxLength: 12 }).map((text) => text.replace(/[^\x21-\x7e]|[#?]/g, '')),
  fc
    .string({ unit: 'binary', maxLength: 6 })
    .map((text) => encodeURIComponent(text.toWellFormed())),
)

const search = fc.array(
  fc.tuple(
    fc.constantFrom(
      'pageSize',
      'status',
      'historyLength',
      'A2A-Version',
      'includeArtifacts',
      '%',
      'x',
    ),
    piece,
  ),
  { maxLength: 4 },
)

test('any path and query by any method gets an answer of its own', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('GET', 'POST', 'DELETE', 'PUT', 'PATCH', 'HEAD', 'OPTIONS'),
      fc.array(piece, { minLength: 1, maxLength: 5 }),
      search,
      fc.constantFrom('1.0', '0.3'),
      async (verb, pieces, query, version) => {
        const text = query.map(([name, value]) => `${name}=${value}`).join('&')
        const prefix = version === '0.3' ? 'v1/' : ''
        const target = `/a2a/desk/${prefix}${pieces.join('/')}${text === '' ? '' : `?${text}`}`
        expectTame(await raw(verb, target, { version }))
      },
    ),
    { numRuns: 300 },
  )
})

const json = fc.jsonValue({ maxDepth: 3 })
const rubbish = fc.oneof(
  json,
  fc.record(
    {
      message: fc.oneof(
        json,
        fc.record(
          {
            messageId: fc.oneof(json, fc.string()),
            role: fc.oneof(json, fc.constantFrom('ROLE_AGENT', 'agent', 'ROLE_UNSPECIFIED')),
            parts: fc.oneof(json, fc.array(fc.oneof(json, fc.record({ text: json })))),
            content: fc.oneof(json, fc.array(fc.oneof(json, fc.record({ data: json })))),
            taskId: json,
          },
          { requiredKeys: [] },
        ),
      ),
      configuration: json,
      metadata: json,
      id: json,
      tenant: json,
      config: json,
      name: json,
    },
    { requiredKeys: [] },
  ),
)

test('any JSON as a body is refused where it is not a request, and makes nothing', async () => {
  const before = await rowCounts(app)
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(
        '/message:send',
        '/message:stream',
        `/tasks/${UNKNOWN_ID}:cancel`,
        `/tasks/${UNKNOWN_ID}:subscribe`,
        `/tasks/${UNKNOWN_ID}/pushNotificationConfigs`,
      ),
      rubbish,
      fc.boolean(),
      async (path, body, old) => {
        const { status, body: answer } = old
          ? await old03.call('POST', `/v1${path}`, { body: JSON.stringify(body) })
          : await rest.call('POST', path, { body: JSON.stringify(body) })
        expect([400, 404]).toContain(status)
        expect(old ? answer.code < 0 : answer.error.code === status).toBe(true)
      },
    ),
    { numRuns: 200 },
  )
  expect(await rowCounts(app)).toEqual(before)
})

test('a body that is deep, and one with a NUL, are refused', async () => {
  const deep = `${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`
  for (const metadata of [deep, '{"a":"\\u0000"}', '{"a":"\\ud800"}', '{"a":1e999}']) {
    const { status, body } = await rest.call('POST', `/tasks/${UNKNOWN_ID}:cancel`, {
      body: `{"metadata":${metadata}}`,
    })
    expect([status, body.error.status]).toEqual([400, 'INVALID_ARGUMENT'])
  }
})

test.each([
  ['//desk//tasks', 404],
  ['/a2a/desk//tasks', 200],
  ['/a2a/desk/tasks//', 200],
  ['/a2a/%64esk/tasks', 200],
  ['/a2a/%zz/tasks', 400],
  ['/a2a/%00/tasks', 403],
  ['/a2a/__proto__/tasks', 403],
  ['/a2a/../a2a/desk/tasks', 404],
  ['/a2a//tasks', 404],
  ['/a2a/desk/tasks?', 200],
  ['/a2a/desk/tasks?&&=&', 200],
  ['/a2a/desk/tasks?pageSize', 400],
  ['/a2a/desk/tasks?__proto__=1&constructor=2', 200],
  ['/a2a/desk/message%3Asend', 404],
  [`/a2a/desk/${'a/'.repeat(4000)}`, 404],
  [`/a2a/desk/tasks?${'x=1&'.repeat(3000)}`, 200],
])('GET %s is %i', async (target, status) => {
  const text = await raw('GET', target)
  expectTame(text)
  expect(statusOf(text)).toBe(status)
})

test('a whole URL as the target is read as its path', async () => {
  expect(statusOf(await raw('GET', `${rest.base}/tasks?pageSize=3`))).toBe(200)
})

test('a GET that brings a body is answered without it', async () => {
  const text = await raw('GET', '/a2a/desk/tasks', {
    headers: ['Content-Length: 9'],
    body: '{"a": nul',
  })
  expect(statusOf(text)).toBe(200)
})
