// Requests at random: whatever is sent, the answer is one of ours, and nothing is half stored.
// Field cases: request ids of a wrong type; bodies that do not parse; envelope faults told apart;
// invalid messages store nothing; limits and quoting.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { type Answered, post } from '../support/clients/actors.ts'
import { ODD_TEXT, UNKNOWN_ID } from '../support/steps.ts'
import { runs } from '../support/tier.ts'
import { scaled } from '../support/timeouts.ts'

const app = await startApp({ maxWaitMs: 1 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const { token: both } = await app.vend(['send', 'work', 'answer', 'watch'], ['desk'])

const A2A = [
  -32700,
  -32600,
  -32601,
  -32602,
  -32000,
  ...Array.from({ length: 9 }, (_, i) => -32001 - i),
]
const API = [-32700, -32600, -32601, -32602, -32000, -32010, -32011, -32012, -32013]

const send = async (path: string, body: string | Uint8Array, token: string): Promise<Answered> => {
  const headers = { 'A2A-Version': '1.0' }
  // A hang is a failure of its own, told apart from a slow machine by its length.
  return post(`${app.url}${path}`, body, {
    token,
    headers,
    signal: AbortSignal.timeout(scaled(20_000)),
  })
}

const expectOurs = ({ status, body }: Answered, codes: readonly number[]) => {
  expect([200, 204, 401, 403, 413, 415]).toContain(status)
  for (const answer of [body].flat()) {
    if (answer === null) continue
    expect(answer.jsonrpc).toBe('2.0')
    expect('result' in answer).toBe(!('error' in answer))
    if (answer.error) expect(codes).toContain(answer.error.code)
  }
}

/** Every todo is whole: what is written in one statement is there together. */
const expectWhole = async () => {
  const [row] = await app.sql(
    `select
      count(*) filter (where not exists (select from messages m where m.todo_id = t.id and m.seq = 1))::int as mute,
      count(*) filter (where not exists (select from events e where e.todo_id = t.id and e.seq = 1))::int as untold,
      count(*) filter (where t.seq <> (select max(e.seq) from events e where e.todo_id = t.id))::int as ahead,
      count(*) filter (where t.attempts_total <> (select count(*) from attempts a where a.todo_id = t.id))::int as miscounted,
      count(*) filter (where (t.owner is not null) and not exists
        (select from attempts a where a.todo_id = t.id and a.ended_at is null))::int as unopened
     from todos t`,
  )
  expect(row).toEqual({ mute: 0, untold: 0, ahead: 0, miscounted: 0, unopened: 0 })
  const [orphans] = await app.sql(
    `select (select count(*)::int from messages m where not exists (select from todos t where t.id = m.todo_id)) as messages,
      (select count(*)::int from artifacts a where not exists (select from todos t where t.id = a.todo_id)) as artifacts`,
  )
  expect(orphans).toEqual({ messages: 0, artifacts: 0 })
}

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom('', 'x', ODD_TEXT, "'; DROP TABLE todos;--", '%', '\u0000', '\ud800', UNKNOWN_ID),
  fc.constant('x'.repeat(10_000)),
  fc.uuid(),
)
const anything = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  text,
  fc.constantFrom(-1, 1.5, 2 ** 31, 2 ** 53, -(2 ** 63), 1e308, [], {}, null, true),
  fc.constantFrom('__proto__', 'constructor', 'toString'),
)

const part = fc.record(
  {
    text: fc.oneof(text, anything),
    data: anything,
    url: text,
    raw: text,
    metadata: anything,
    filename: text,
    mediaType: text,
  },
  { requiredKeys: [] },
)
const message = fc.record(
  {
    messageId: fc.oneof(text, anything),
    role: fc.oneof(fc.constant('ROLE_USER'), anything),
    parts: fc.oneof(fc.array(fc.oneof(fc.record({ text }), part), { maxLength: 3 }), anything),
    taskId: text,
    contextId: text,
    metadata: fc.oneof(fc.dictionary(text, anything), anything),
    extensions: fc.oneof(fc.array(text), anything),
    referenceTaskIds: fc.oneof(fc.array(text), anything),
  },
  { requiredKeys: ['messageId', 'role', 'parts'] },
)
const a2aParams = fc.oneof(
  anything,
  fc.record(
    {
      message,
      configuration: fc.oneof(
        fc.record(
          { returnImmediately: fc.boolean(), historyLength: anything },
          { requiredKeys: [] },
        ),
        anything,
      ),
      metadata: anything,
    },
    { requiredKeys: ['message'] },
  ),
  fc.record({ id: fc.oneof(text, anything), historyLength: anything }, { requiredKeys: ['id'] }),
  fc.record(
    {
      contextId: text,
      status: anything,
      pageSize: anything,
      pageToken: fc.oneof(text, anything),
      statusTimestampAfter: fc.oneof(text, anything),
      includeArtifacts: anything,
    },
    { requiredKeys: [] },
  ),
)
const a2aMethods = [
  'SendMessage',
  'GetTask',
  'ListTasks',
  'CancelTask',
  'SubscribeToTask',
  'CreateTaskPushNotificationConfig',
  'GetExtendedAgentCard',
  'NoSuchThing',
]
const envelope = (methods: string[], params: fc.Arbitrary<unknown>) =>
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        jsonrpc: fc.constant('2.0'),
        id: fc.integer(),
        method: fc.constantFrom(...methods),
        params,
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record(
        {
          jsonrpc: anything,
          id: anything,
          method: fc.oneof(fc.constantFrom(...methods), anything),
          params,
        },
        { requiredKeys: [] },
      ),
    },
    { weight: 1, arbitrary: anything },
  )

test('whatever is sent to the A2A endpoint is answered with a result or an error of the protocol', async () => {
  await fc.assert(
    fc.asyncProperty(envelope(a2aMethods, a2aParams), async (value) => {
      expectOurs(await send('/a2a/desk/', JSON.stringify(value), client.token), A2A)
    }),
    { numRuns: runs(100, 400) },
  )
  await expectWhole()
})

const held = {
  id: fc.oneof(text, anything),
  fence: fc.oneof(fc.constantFrom('0', '1', '999999999999999999'), text, anything),
}
const agentParams = fc.oneof(
  anything,
  fc.record(
    {
      ...held,
      message: fc.oneof(
        fc.record({ parts: fc.array(fc.record({ text }), { minLength: 1, maxLength: 2 }) }),
        message,
        anything,
      ),
      artifact: fc.oneof(
        fc.record({ artifactId: text, parts: fc.array(part, { maxLength: 2 }) }),
        anything,
      ),
      error: fc.oneof(fc.record({ code: text, message: text }), anything),
      state: fc.oneof(fc.constantFrom('input-required', 'auth-required'), anything),
      through: anything,
      percent: anything,
      note: text,
      summary: text,
      result: anything,
      retryInSeconds: anything,
    },
    { requiredKeys: ['id', 'fence'] },
  ),
  fc.record(
    {
      queues: fc.oneof(fc.array(text, { maxLength: 3 }), fc.constant(['desk'])),
      limit: anything,
      claimant: text,
      leaseSeconds: anything,
    },
    { requiredKeys: [] },
  ),
)
const agentMethods = [
  'claim',
  'heartbeat',
  'progress',
  'say',
  'artifact',
  'interrupt',
  'messages',
  'acknowledge',
  'complete',
  'fail',
  'release',
  'reject',
  'get',
  'list',
].map((verb) => `todos.${verb}`)

test('whatever is sent to the agent API is answered with a result or one of its errors, by one who holds a todo too', async () => {
  const claimed = await send(
    '/a2a/desk/',
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: {
        message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] },
        configuration: { returnImmediately: true },
      },
    }),
    client.token,
  ).then(() =>
    send(
      '/agent',
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'todos.claim', params: {} }),
      agent.token,
    ),
  )
  const [{ id, fence }] = claimed.body.result.todos
  const mine = agentParams.map((params) =>
    typeof params === 'object' && params !== null && 'fence' in params
      ? { ...params, id, fence }
      : params,
  )
  await fc.assert(
    fc.asyncProperty(envelope(agentMethods, fc.oneof(agentParams, mine)), async (value) => {
      expectOurs(await send('/agent', JSON.stringify(value), agent.token), API)
    }),
    { numRuns: runs(100, 400) },
  )
  await expectWhole()
})

const operatorMethods = [
  'queues.put',
  'queues.list',
  'queues.remove',
  'endpoints.vend',
  'endpoints.revoke',
  'endpoints.rotate',
  'endpoints.update',
  'settings.set',
  'settings.unset',
  'todos.list',
  'todos.show',
  'todos.send',
  'todos.answer',
  'todos.cancel',
  'todos.retry',
  'todos.why',
]

test('whatever is sent to the operator API is answered with a result or one of its errors', async () => {
  const params = fc.oneof(
    anything,
    fc.record(
      {
        id: text,
        name: fc.oneof(fc.constantFrom('fuzzed', 'desk'), text),
        queue: text,
        key: fc.oneof(
          fc.constantFrom('interrupt_lease_ttl_seconds', 'interrupt_max_wait_seconds'),
          text,
        ),
        value: text,
        message,
        queues: fc.array(text, { maxLength: 2 }),
        verbs: anything,
      },
      { requiredKeys: [] },
    ),
    fc.record({ id: text }),
    fc.record({
      name: fc.constantFrom('fuzzed', 'other'),
      policy: fc.record(
        { maxAttempts: anything, backoff: anything, timeouts: anything },
        { requiredKeys: [] },
      ),
    }),
    fc.record({ key: text, value: text }),
  )
  await fc.assert(
    fc.asyncProperty(envelope(operatorMethods, params), async (value) => {
      expectOurs(await send('/operator', JSON.stringify(value), ADMIN_TOKEN), API)
    }),
    { numRuns: runs(75, 300) },
  )
  await expectWhole()
})

test('bytes that are no envelope, deep ones and large ones, are answered as no JSON or no request', async () => {
  const bombs = [
    '['.repeat(200_000),
    `${'['.repeat(50_000)}${']'.repeat(50_000)}`,
    `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}}`,
    `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"${'x'.repeat(1_000_000)}"}}`,
    `[${'1,'.repeat(100_000)}1]`,
    '"text"',
    '1e999',
    '{"__proto__":{"jsonrpc":"2.0"},"id":1,"method":"GetTask"}',
  ]
  for (const [path, token, codes] of [
    ['/a2a/desk/', client.token, A2A],
    ['/agent', agent.token, API],
    ['/operator', ADMIN_TOKEN, API],
  ] as const) {
    for (const bomb of bombs) expectOurs(await send(path, bomb, token), codes)
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        expectOurs(await send(path, bytes, token), codes)
      }),
      { numRuns: runs(10, 40) },
    )
  }
})

test('whatever stands in a path, a query or a header is answered below 500', async () => {
  const odd = fc.string({ unit: 'binary', maxLength: 60 })
  await fc.assert(
    fc.asyncProperty(odd, odd, fc.string({ maxLength: 60 }), async (one, two, header) => {
      const encoded = encodeURIComponent(one.toWellFormed())
      const query = encodeURIComponent(two.toWellFormed())
      const value = header.replace(/[^\x20-\x7e]/g, '').trim()
      const headers = {
        Authorization: `Bearer ${both}`,
        'A2A-Version': value,
        'If-None-Match': value,
      }
      for (const [method, url] of [
        ['POST', `/a2a/${encoded}/`],
        ['GET', `/a2a/${encoded}/.well-known/agent-card.json`],
        ['GET', `/${encoded}?${query}`],
        ['POST', `/a2a/desk/?A2A-Version=${query}`],
        ['GET', `/board/events?queue=${encoded || 'x'}&after=x${query}`],
      ] as const) {
        const response = await fetch(`${app.url}${url}`, {
          method,
          headers: { ...headers, 'Content-Type': 'application/json', 'Last-Event-ID': `x${value}` },
          ...(method === 'POST' && { body: '{"jsonrpc":"2.0","id":1,"method":"ListTasks"}' }),
          signal: AbortSignal.timeout(scaled(20_000)),
        })
        expect(response.status).toBeLessThan(500)
        await response.text()
      }
    }),
    { numRuns: runs(15, 60) },
  )
})
