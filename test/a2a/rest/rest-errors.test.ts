// What HTTP+JSON of A2A 1.0 refuses, and how (spec 11.3, 11.6).
// Field cases: invalid messages store nothing; version checked on every method;
// typed error details; undeclared capabilities; a context must match its task;
// task ids refer and never create; no messages into finished tasks; cancel is idempotent.
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp } from '../../support/app.ts'
import { type Answered, agentClient, textMessage } from '../../support/clients/actors.ts'
import { restClient } from '../../support/clients/rest.ts'
import { rowCounts, saying, UNKNOWN_ID } from '../../support/steps.ts'

const app = await startApp({ bodyLimitBytes: 20_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const { client: stranger } = await app.queue('elsewhere')
const rest = restClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const INFO = 'type.googleapis.com/google.rpc.ErrorInfo'
const BAD = 'type.googleapis.com/google.rpc.BadRequest'

/** That an answer is an error of this status, name and reason, and nothing more than that. */
const expectError = (
  { status, headers, body }: Answered,
  [code, name, reason]: readonly [number, string, string | null],
) => {
  expect(headers.get('content-type')).toMatch(/^application\/(a2a\+)?json\b/)
  expect([status, body.error?.code, body.error?.status]).toEqual([code, code, name])
  expect(Object.keys(body)).toEqual(['error'])
  const info = body.error.details?.find((each: Record<string, string>) => each['@type'] === INFO)
  expect(info?.reason ?? null).toBe(reason)
  for (const each of body.error.details ?? []) expect(each['@type']).toBeTruthy()
}
const fieldsOf = ({ body }: Answered): string[] =>
  body.error.details
    .filter((each: Record<string, string>) => each['@type'] === BAD)
    .flatMap((each: { fieldViolations: { field: string }[] }) => each.fieldViolations)
    .map(({ field }: { field: string }) => field)

const INVALID = [400, 'INVALID_ARGUMENT', 'INVALID_PARAMS'] as const
const NOT_FOUND = [404, 'NOT_FOUND', 'TASK_NOT_FOUND'] as const
const UNSUPPORTED = [400, 'FAILED_PRECONDITION', 'UNSUPPORTED_OPERATION'] as const
const NO_PUSH = [400, 'FAILED_PRECONDITION', 'PUSH_NOTIFICATION_NOT_SUPPORTED'] as const
const VERSION = [400, 'FAILED_PRECONDITION', 'VERSION_NOT_SUPPORTED'] as const
const NO_ROUTE = [404, 'NOT_FOUND', null] as const

const ROUTES: [string, string, unknown?][] = [
  ['POST', '/message:send', { message: textMessage('x') }],
  ['POST', '/message:stream', { message: textMessage('x') }],
  ['GET', '/tasks'],
  ['GET', `/tasks/${UNKNOWN_ID}`],
  ['POST', `/tasks/${UNKNOWN_ID}:cancel`],
  ['POST', `/tasks/${UNKNOWN_ID}:subscribe`],
  ['GET', `/tasks/${UNKNOWN_ID}:subscribe`],
  ['POST', `/tasks/${UNKNOWN_ID}/pushNotificationConfigs`, { url: 'https://example.com/' }],
  ['GET', `/tasks/${UNKNOWN_ID}/pushNotificationConfigs`],
  ['GET', `/tasks/${UNKNOWN_ID}/pushNotificationConfigs/c`],
  ['DELETE', `/tasks/${UNKNOWN_ID}/pushNotificationConfigs/c`],
  ['GET', '/extendedAgentCard'],
]

test.each(ROUTES)(
  '%s %s is refused without a token, and in another version',
  async (verb, path, body) => {
    const before = await rowCounts(app)
    for (const token of [null, 'swb_nobody']) {
      const answer = await rest.call(verb, path, { body, token })
      expectError(answer, [401, 'UNAUTHENTICATED', 'UNAUTHENTICATED'])
      expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer /)
    }
    for (const version of ['0.5', '99.0', '2.0', 'latest']) {
      const other = restClient(app.url, 'desk', client.token, version)
      const answer = await other.call(verb, path, { body })
      expectError(answer, VERSION)
      expect(answer.body.error.details[0].metadata.supportedVersions).toContain('1.0')
    }
    // Absent and empty mean 0.3, which has no such path: what to send is the better answer.
    for (const version of [null, '', '0.3']) {
      const other = restClient(app.url, 'desk', client.token, version)
      const answer = await other.call(verb, path, { body })
      expectError(answer, VERSION)
      expect(answer.body.error.message).toContain('A2A-Version')
    }
    expect(await rowCounts(app)).toEqual(before)
  },
)

test('a queue that is not there and one that is not yours are one answer, and the admin has no business here', async () => {
  const foreign = await restClient(app.url, 'desk', stranger.token).get('/tasks')
  expectError(foreign, [403, 'PERMISSION_DENIED', 'PERMISSION_DENIED'])
  const absent = await restClient(app.url, 'nothing', stranger.token).get('/tasks')
  expect([absent.status, absent.body]).toEqual([foreign.status, foreign.body])
  expect((await restClient(app.url, 'desk', ADMIN_TOKEN).get('/tasks')).status).toBe(403)
})

test('a task that is not there and one of another client are one answer', async () => {
  const mine = await rest.submit('x')
  const { token } = await app.vend(['send'], ['desk'])
  const other = restClient(app.url, 'desk', token)
  const answers = []
  for (const id of [mine.id, UNKNOWN_ID, 'no-uuid', 'a/b', '漢']) {
    const path = `/tasks/${encodeURIComponent(id)}`
    for (const [verb, target] of [
      ['GET', path],
      ['POST', `${path}:cancel`],
      ['POST', `${path}:subscribe`],
      ['GET', `${path}:subscribe`],
    ] as const) {
      const answer = await other.call(verb, target)
      expectError(answer, NOT_FOUND)
      answers.push(JSON.stringify(answer.body))
    }
    const sent = await other.send('x', { taskId: id })
    expectError(sent, NOT_FOUND)
    answers.push(JSON.stringify(sent.body))
  }
  expect(new Set(answers).size).toBe(1)
  await rest.call('POST', `/tasks/${mine.id}:cancel`)
})

test.each([
  ['nothing', {}, ['message']],
  ['null', 'null', ['message']],
  ['no parts', { message: { ...textMessage('x'), parts: [] } }, ['message.parts']],
  ['no id', { message: { ...textMessage('x'), messageId: '' } }, ['message.messageId']],
  ['the role of an agent', { message: textMessage('x', { role: 'ROLE_AGENT' }) }, ['message.role']],
  ['a role of 0.3', { message: textMessage('x', { role: 'user' }) }, ['message.role']],
  ['a list', [], ['body']],
  ['a text', '"hi"', ['body']],
  ['a number', '7', ['body']],
  [
    'a length that is none',
    { message: textMessage('x'), configuration: { historyLength: -1 } },
    ['configuration.historyLength'],
  ],
])(
  'a send of %s is refused by the names of the fields and makes nothing',
  async (_what, body, fields) => {
    const before = await rowCounts(app)
    for (const path of ['/message:send', '/message:stream']) {
      const answer = await rest.call('POST', path, { body })
      expectError(answer, INVALID)
      expect(fieldsOf(answer)).toEqual(fields)
    }
    expect(await rowCounts(app)).toEqual(before)
  },
)

test.each(['', '{', 'not json', '{"message":', '\u0000', '[1,'])('%j is no JSON', async (body) => {
  const answer = await rest.call('POST', '/message:send', { body })
  expectError(answer, [400, 'INVALID_ARGUMENT', 'PARSE_ERROR'])
  expect(JSON.stringify(answer.body)).not.toMatch(/\bat |\.ts\b|Unexpected/)
  if (body.trim() === '') return
  const { id } = await rest.submit('x')
  expectError(await rest.call('POST', `/tasks/${id}:cancel`, { body }), [
    400,
    'INVALID_ARGUMENT',
    'PARSE_ERROR',
  ])
  expect((await rest.get(`/tasks/${id}`)).body.status.state).toBe('TASK_STATE_SUBMITTED')
})

test.each([
  ['/tasks?pageSize=abc', 'pageSize'],
  ['/tasks?pageSize=0', 'pageSize'],
  ['/tasks?pageSize=101', 'pageSize'],
  ['/tasks?pageSize=1&pageSize=2', 'pageSize'],
  ['/tasks?includeArtifacts=1', 'includeArtifacts'],
  ['/tasks?includeArtifacts=True', 'includeArtifacts'],
  ['/tasks?status=working', 'status'],
  ['/tasks?statusTimestampAfter=yesterday', 'statusTimestampAfter'],
  ['/tasks?historyLength=1.5', 'historyLength'],
  ['/tasks?pageToken=forged', 'pageToken'],
  ['/tasks?contextId=%00', 'contextId'],
  ['/tasks?contextId=%zz', 'contextId'],
  ['/tasks?%zz=1', 'query'],
  ['/tasks/%zz', 'path'],
  ['/tasks/%E6%BC', 'path'],
  ['/tasks/%00', 'id'],
  [`/tasks/${'x'.repeat(300)}`, 'id'],
  ['/nowhere/%zz', 'path'],
])('GET %s is refused by the name of what is wrong', async (path, field) => {
  const answer = await rest.call('GET', path)
  expectError(answer, INVALID)
  expect(fieldsOf(answer)).toEqual([field])
})

test('a body that contradicts its path is refused, and nothing happens', async () => {
  const { id } = await rest.submit('x')
  const answer = await rest.call('POST', `/tasks/${id}:cancel`, { body: { id: UNKNOWN_ID } })
  expectError(answer, INVALID)
  expect(fieldsOf(answer)).toEqual(['id'])
  expect((await rest.get(`/tasks/${id}`)).body.status.state).toBe('TASK_STATE_SUBMITTED')
  expect((await rest.call('POST', `/tasks/${id}:cancel`, { body: { id } })).status).toBe(200)
})

test.each([
  ['GET', '/message:send', 'POST, OPTIONS'],
  ['PUT', '/tasks', 'GET, HEAD, OPTIONS'],
  ['POST', '/tasks', 'GET, HEAD, OPTIONS'],
  ['DELETE', '/tasks/x', 'GET, HEAD, OPTIONS'],
  ['GET', '/tasks/x:cancel', 'POST, OPTIONS'],
  ['HEAD', '/tasks/x:subscribe', 'POST, GET, OPTIONS'],
  ['PATCH', '/tasks/x/pushNotificationConfigs/c', 'GET, HEAD, DELETE, OPTIONS'],
  ['POST', '/extendedAgentCard', 'GET, HEAD, OPTIONS'],
])('%s %s is the wrong method, and the right ones are told', async (verb, path, allow) => {
  const answer = await rest.call(verb, path)
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, allow])
  if (verb !== 'HEAD') expectError(answer, [405, 'UNIMPLEMENTED', null])
})

test.each([
  '/nowhere',
  '/tasks/x:resume',
  '/tasks/x:',
  '/message:receive',
  '/acme/tasks',
  '/acme/message:send',
  '/tasks/x/pushNotificationConfigs/c/d',
  '/tasks/__proto__/constructor',
])('there is nothing at %s, with a token and without', async (path) => {
  for (const token of [client.token, null]) {
    for (const verb of ['GET', 'POST']) {
      expectError(await rest.call(verb, path, { token }), NO_ROUTE)
    }
  }
})

test('a type that is none of ours is 415; a part of a type that the agent does not take is 400', async () => {
  const body = JSON.stringify({ message: textMessage('x') })
  for (const [type, path] of [
    ['text/plain', '/message:send'],
    ['application/x-www-form-urlencoded', '/message:stream'],
    ['application/json; charset=latin1', '/message:send'],
    ['text/plain', `/tasks/${UNKNOWN_ID}:cancel`],
  ]) {
    const answer = await rest.call('POST', path!, { body, headers: { 'Content-Type': type! } })
    expectError(answer, [415, 'INVALID_ARGUMENT', 'CONTENT_TYPE_NOT_SUPPORTED'])
  }
  const untyped = await fetch(`${rest.base}/message:send`, {
    method: 'POST',
    headers: { 'A2A-Version': '1.0', Authorization: `Bearer ${client.token}` },
    body: new Blob([body]),
  })
  expect(untyped.status).toBe(415)

  await app.services.operator.putQueue({
    name: 'picky',
    card: { defaultInputModes: ['text/plain'] },
  })
  const { token } = await app.vend(['send'], ['picky'])
  const answer = await restClient(app.url, 'picky', token).call('POST', '/message:send', {
    body: { message: { ...textMessage('x'), parts: [{ raw: 'aGk=', mediaType: 'image/png' }] } },
  })
  expectError(answer, [400, 'INVALID_ARGUMENT', 'CONTENT_TYPE_NOT_SUPPORTED'])
})

test('a body over the limit is 413 and makes nothing', async () => {
  const before = await rowCounts(app)
  const answer = await rest.send('x'.repeat(20_000))
  expectError(answer, [413, 'INVALID_ARGUMENT', 'REQUEST_TOO_LARGE'])
  expect(answer.headers.get('connection')).toBe('close')
  expect(await rowCounts(app)).toEqual(before)
})

test('a task that has ended takes no message, no subscription and no second end', async () => {
  const task = await rest.submit('x')
  const todo = await worker.claim({ limit: 1 })
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const { id } = todo
  expect((await rest.get(`/tasks/${task.id}`)).status).toBe(200)
  for (const [verb, path, body] of [
    ['POST', '/message:send', { message: textMessage('more', { taskId: id }) }],
    ['POST', '/message:stream', { message: textMessage('more', { taskId: id }) }],
    ['POST', `/tasks/${id}:subscribe`, undefined],
    ['GET', `/tasks/${id}:subscribe`, undefined],
  ] as const) {
    expectError(await rest.call(verb, path, { body }), UNSUPPORTED)
  }
  expectError(await rest.call('POST', `/tasks/${id}:cancel`), [
    400,
    'FAILED_PRECONDITION',
    'TASK_NOT_CANCELABLE',
  ])
})

test('what the card does not declare is refused', async () => {
  await app.services.operator.putQueue({
    name: 'plain',
    card: { capabilities: { streaming: false } },
  })
  const { token } = await app.vend(['send'], ['plain'])
  const plain = restClient(app.url, 'plain', token)
  const { id } = await plain.submit('x')
  const message = textMessage('x')
  expectError(await plain.call('POST', '/message:stream', { body: { message } }), UNSUPPORTED)
  expectError(await plain.call('POST', `/tasks/${id}:subscribe`), UNSUPPORTED)
  expectError(await plain.get('/extendedAgentCard'), UNSUPPORTED)
  await app.services.operator.putQueue({
    name: 'vain',
    card: { capabilities: { extendedAgentCard: true } },
  })
  const vain = await app.vend(['send'], ['vain'])
  expectError(await restClient(app.url, 'vain', vain.token).get('/extendedAgentCard'), [
    400,
    'FAILED_PRECONDITION',
    'EXTENDED_AGENT_CARD_NOT_CONFIGURED',
  ])
})

test('where a queue switches push off, its routes and an inline config say so', async () => {
  const { client } = await app.queue('unhooked')
  const card = { capabilities: { pushNotifications: false } }
  await app.services.operator.putQueue({ name: 'unhooked', card })
  const rest = restClient(app.url, 'unhooked', client.token)
  const { id } = await rest.submit('x')
  const before = await rowCounts(app)
  const url = 'https://example.com/hook'
  const configs = `/tasks/${id}/pushNotificationConfigs`
  for (const [verb, path, body] of [
    ['POST', configs, { url }],
    ['GET', configs, undefined],
    ['GET', `${configs}/c`, undefined],
    ['DELETE', `${configs}/c`, undefined],
    [
      'POST',
      '/message:send',
      { message: textMessage('x'), configuration: { taskPushNotificationConfig: { url } } },
    ],
  ] as const) {
    expectError(await rest.call(verb, path, { body }), NO_PUSH)
  }
  expect(await rowCounts(app)).toEqual(before)
})

test('a client that sends too often is told when to come again', async () => {
  const { token } = await app.services.operator.vend({
    name: 'hasty',
    queues: ['desk'],
    verbs: ['send'],
    sendPerMinute: 1,
  })
  const hasty = restClient(app.url, 'desk', token)
  await hasty.submit('x')
  const answer = await hasty.send('y', {}, { returnImmediately: true })
  expectError(answer, [429, 'RESOURCE_EXHAUSTED', 'RATE_LIMITED'])
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
})
