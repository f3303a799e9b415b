import { expect, test } from 'vitest'
import type { Caller, EndpointVerb } from '../../../src/domain/endpoint.ts'
import { DEFAULT_POLICY } from '../../../src/domain/policy.ts'
import type { Event } from '../../../src/domain/todo.ts'
import { OPERATOR_METHODS } from '../../../src/protocol/operator/methods.ts'
import type { Call, Services } from '../../../src/protocol/wire/method.ts'
import type { OperatorService } from '../../../src/service/operator/operator.ts'
import { anEndpoint, anEvent } from '../../http/live-feed.ts'
import { AT, AT_TEXT, anAttempt, aView } from '../a-todo.ts'

const callOf = (operator: Partial<OperatorService>, caller: Caller): Call => ({
  services: { operator } as Services,
  caller,
  signal: new AbortController().signal,
  lastEventId: null,
  idempotencyKey: null,
  isPeerThere: () => true,
  rest: (wait: Promise<void>) => wait,
  requestId: 'request-1',
})

const call = (method: string, operator: Partial<OperatorService>, params?: object) => {
  const row = OPERATOR_METHODS[method]
  if (row?.kind !== 'unary') throw new Error(`no unary row ${method}`)
  return row.call(callOf(operator, { kind: 'operator' }), row.params.parse(params))
}

const endpoint = anEndpoint({ id: 'e1', revokedAt: AT })
const ENDPOINT = {
  id: 'e1',
  name: 'somebody',
  queues: ['a'],
  verbs: ['watch', 'work'],
  defaultLeaseSeconds: 300,
  interruptTtlSeconds: null,
  effects: null,
  sendPerMinute: null,
  concurrency: null,
  highestPriority: null,
  lowestPriority: null,
  createdAt: AT_TEXT,
  expiresAt: null,
  revokedAt: AT_TEXT,
}
const queue = {
  name: 'a',
  card: { name: 'A', description: '', version: '1', skills: [] },
  policy: DEFAULT_POLICY,
  createdAt: AT,
  updatedAt: AT,
}
const QUEUE = { ...queue, createdAt: AT_TEXT, updatedAt: AT_TEXT }
const vended = { endpoint, token: 'secret' }

const answers: [string, Partial<OperatorService>, object | undefined, object][] = [
  ['queues.put', { putQueue: async () => queue }, { name: 'a' }, { ...QUEUE, warnings: [] }],
  ['queues.list', { listQueues: async () => [queue] }, undefined, { queues: [QUEUE] }],
  ['queues.remove', { removeQueue: async () => undefined }, { name: 'a' }, {}],
  [
    'endpoints.vend',
    { vend: async () => vended },
    { name: 'box', queues: ['a'], verbs: ['work'] },
    { endpoint: ENDPOINT, token: 'secret' },
  ],
  [
    'endpoints.list',
    { listEndpoints: async () => [endpoint] },
    undefined,
    { endpoints: [ENDPOINT] },
  ],
  ['endpoints.revoke', { revoke: async () => endpoint }, { id: 'e1' }, { endpoint: ENDPOINT }],
  [
    'endpoints.rotate',
    { rotate: async () => vended },
    { id: 'e1' },
    { endpoint: ENDPOINT, token: 'secret' },
  ],
  [
    'endpoints.update',
    { updateEndpoint: async () => endpoint },
    { id: 'e1', name: 'new' },
    { endpoint: ENDPOINT },
  ],
  [
    'settings.get',
    { getSettings: async () => ({ sse_retry_ms: null }) },
    undefined,
    { settings: { sse_retry_ms: null } },
  ],
  [
    'settings.set',
    { setSetting: async () => undefined },
    { key: 'sse_retry_ms', value: '5' },
    { key: 'sse_retry_ms', value: '5' },
  ],
  [
    'settings.unset',
    { unsetSetting: async () => undefined },
    { key: 'sse_retry_ms' },
    { key: 'sse_retry_ms', value: null },
  ],
]
test.each(answers)(
  '%s answers with exactly its members',
  async (method, services, params, result) => {
    expect(await call(method, services, params)).toEqual(result)
  },
)

test('an update changes the endpoint it names and hands on no id as a change', async () => {
  const changes: unknown[] = []
  const updateEndpoint: OperatorService['updateEndpoint'] = async (...given) => {
    changes.push(given)
    return endpoint
  }
  await call('endpoints.update', { updateEndpoint }, { id: 'e1', verbs: ['send'] })
  expect(changes).toEqual([['e1', { verbs: ['send'] }]])
})

test('a todo is shown with its attempts, its messages in place and its events', async () => {
  const event: Event = { ...anEvent({ position: 1, seq: 1 }), message: null, artifact: null }
  const shown = await call(
    'todos.show',
    {
      show: async () => ({
        view: aView(),
        attempts: [anAttempt()],
        children: [],
        events: [event],
        question: null,
        owed: [],
      }),
    },
    { id: 'todo-1' },
  )
  const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'Draft a letter' }] }
  expect(shown).toMatchObject({
    id: 'todo-1',
    fence: '9007199254740993',
    history: [message],
    messages: [{ seq: 1, message, receivedAt: AT_TEXT }],
    attempts: [{ seq: 1, outcome: 'reaped', cause: 'lease_expired' }],
  })
  expect((shown as { events: object[] }).events).toEqual([
    {
      id: 'todo-1',
      queue: 'a',
      contextId: 'context-1',
      seq: 1,
      from: null,
      to: 'pending',
      verb: 'send',
      retrying: false,
      attempt: 0,
      fence: '0',
      owner: null,
      claimant: null,
      ready: null,
      detail: null,
      at: AT_TEXT,
    },
  ])
})

test('a list says how many there are in all', async () => {
  const list: OperatorService['list'] = async () => ({
    todos: [aView()],
    nextPageToken: '',
    pageSize: 50,
    totalSize: 1,
  })
  expect(await call('todos.list', { list })).toMatchObject({
    todos: [{ id: 'todo-1' }],
    nextPageToken: '',
    totalSize: 1,
  })
})

const ALLOWED: Record<EndpointVerb, string[]> = {
  send: [],
  work: [],
  watch: ['todos.list', 'todos.show', 'todos.documents', 'todos.why', 'deliveries.list'],
  answer: ['todos.answer', 'todos.answerLink'],
}

test.each(Object.entries(ALLOWED))('an endpoint that may %s may only call its own', (verb, own) => {
  const caller: Caller = {
    kind: 'endpoint',
    endpoint: anEndpoint({ verbs: [verb as EndpointVerb] }),
  }
  const may = Object.entries(OPERATOR_METHODS).filter(([, row]) => {
    try {
      row.right(callOf({}, caller))
      return true
    } catch (error) {
      expect(error).toMatchObject({ kind: 'forbidden' })
      return false
    }
  })
  expect(may.map(([name]) => name)).toEqual(own)
})

test('the operator may call everything', () => {
  for (const row of Object.values(OPERATOR_METHODS)) {
    expect(() => row.right(callOf({}, { kind: 'operator' }))).not.toThrow()
  }
})
