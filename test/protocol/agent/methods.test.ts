import { expect, test } from 'vitest'
import type { Endpoint } from '../../../src/domain/endpoint.ts'
import { AGENT_METHODS } from '../../../src/protocol/agent/methods.ts'
import type { Call, Services } from '../../../src/protocol/wire/method.ts'
import type { AgentService } from '../../../src/service/claims/agent.ts'
import { anEndpoint } from '../../http/live-feed.ts'
import { AT, AT_TEXT, anAttempt, aTodo, aView } from '../a-todo.ts'

const callOf = (agent: Partial<AgentService>, given: Partial<Endpoint> = {}): Call => ({
  services: { agent } as Services,
  caller: { kind: 'endpoint', endpoint: anEndpoint(given) },
  signal: new AbortController().signal,
  lastEventId: null,
  idempotencyKey: null,
  isPeerThere: () => true,
  rest: (wait: Promise<void>) => wait,
  requestId: 'request-1',
})

const call = (method: string, agent: Partial<AgentService>, params: object) => {
  const row = AGENT_METHODS[method]
  if (row?.kind !== 'unary') throw new Error(`no unary row ${method}`)
  return row.call(callOf(agent), row.params.parse(params))
}

const held = { id: 'todo-1', fence: '7' }
const message = {
  messageId: 'm1',
  role: 'ROLE_USER',
  parts: [{ text: 'Draft a letter' }],
} as const

const artifact = { artifactId: 'a1', parts: [{ text: 'page' }] }

test('a claimed todo has exactly the shape of the contract', async () => {
  const view = { ...aView({ state: 'claimed' }), artifacts: [artifact] }
  const answered = await call(
    'todos.claim',
    {
      claim: async () => [
        {
          view,
          unread: [{ ...view.messages[0]!, seq: 4 }],
          priorAttempts: [anAttempt()],
          children: [],
        },
      ],
    },
    {},
  )
  const said = { ...message, parts: [...message.parts] }
  expect(answered).toEqual({
    todos: [
      {
        id: 'todo-1',
        queue: 'legal',
        contextId: 'context-1',
        state: 'claimed',
        attempt: 1,
        maxAttempts: 5,
        fence: '9007199254740993',
        leaseExpiresAt: AT_TEXT,
        createdAt: AT_TEXT,
        message: said,
        history: [said],
        unread: [{ seq: 4, message: said, receivedAt: AT_TEXT }],
        artifacts: [artifact],
        result: null,
        priorAttempts: [
          {
            seq: 1,
            attempt: 1,
            claimant: 'box-1',
            claimedAt: AT_TEXT,
            lastHeartbeatAt: AT_TEXT,
            endedAt: AT_TEXT,
            outcome: 'reaped',
            disposition: 'requeued',
            died: true,
            summary: 'page 14 of 22',
          },
        ],
        attemptsTotal: 2,
        metadata: null,
        sender: 'client-1',
        extensions: [],
        effects: null,
        children: [],
        deadlines: {},
      },
    ],
  })
})

test('a todo has exactly the shape of the contract, its attempts included', async () => {
  const view = { ...aView(), artifacts: [artifact] }
  const got = await call(
    'todos.get',
    { get: async () => ({ view, attempts: [anAttempt()] }) },
    { id: 'todo-1' },
  )
  expect(got).toEqual({
    id: 'todo-1',
    queue: 'legal',
    contextId: 'context-1',
    state: 'pending',
    attempt: 1,
    maxAttempts: 5,
    attemptsTotal: 2,
    fence: '9007199254740993',
    owner: 'endpoint-1',
    claimant: 'box-1',
    leaseExpiresAt: AT_TEXT,
    interruptedAt: null,
    heldUntil: null,
    dueAt: AT_TEXT,
    nextRetryAt: null,
    progressAt: null,
    seq: 3,
    unread: 1,
    createdAt: AT_TEXT,
    updatedAt: AT_TEXT,
    finishedAt: null,
    statusAt: AT_TEXT,
    deadlines: {},
    retryOf: null,
    effects: null,
    idleSeconds: null,
    message,
    history: [message],
    artifacts: [artifact],
    metadata: null,
    result: null,
    attempts: [
      {
        seq: 1,
        attempt: 1,
        claimant: 'box-1',
        claimedAt: AT_TEXT,
        lastHeartbeatAt: AT_TEXT,
        endedAt: AT_TEXT,
        outcome: 'reaped',
        disposition: 'requeued',
        died: true,
        summary: 'page 14 of 22',
        endpointId: 'endpoint-1',
        progressAt: null,
        leaseExpiresAt: AT_TEXT,
        cause: 'lease_expired',
      },
    ],
  })
})

const todo = aTodo({ state: 'claimed', seq: 9 })
const answers: [string, Partial<AgentService>, object, object][] = [
  [
    'todos.heartbeat',
    { heartbeat: async () => todo },
    held,
    { state: 'claimed', leaseExpiresAt: AT_TEXT, unread: 1 },
  ],
  [
    'todos.heartbeat of a wait',
    { heartbeat: async () => aTodo({ state: 'input-required', interruptHeldUntil: AT }) },
    { ...held, holdSeconds: 60 },
    { state: 'input-required', leaseExpiresAt: AT_TEXT, heldUntil: AT_TEXT, unread: 1 },
  ],
  [
    'todos.progress',
    { progress: async () => aTodo({ progressAt: AT }) },
    { ...held, note: 'half', percent: 50 },
    { progressAt: AT_TEXT },
  ],
  [
    'todos.say',
    { say: async () => todo },
    { ...held, message: { parts: [{ text: '' }] } },
    { seq: 9 },
  ],
  ['todos.artifact', { artifact: async () => todo }, { ...held, artifact }, { seq: 9 }],
  [
    'todos.interrupt',
    {
      interrupt: async () => ({
        todo: aTodo({ state: 'input-required', interruptedAt: AT, fence: '7' }),
        deadline: null,
      }),
    },
    { ...held, state: 'input-required', message: { parts: [{ text: '?' }] } },
    { state: 'input-required', interruptedAt: AT_TEXT, deadline: null, fence: '7' },
  ],
  [
    'todos.messages',
    { messages: async () => ({ state: 'claimed', messages: aView().messages }) },
    held,
    { state: 'claimed', messages: [{ seq: 1, message, receivedAt: AT_TEXT }] },
  ],
  [
    'todos.acknowledge',
    { acknowledge: async () => aTodo({ unread: 0 }) },
    { ...held, through: 4 },
    { unread: 0 },
  ],
  ['todos.complete', { complete: async () => aTodo({ state: 'done' }) }, held, { state: 'done' }],
  [
    'todos.fail',
    { fail: async () => aTodo({ state: 'failed', nextRetryAt: AT }) },
    { ...held, error: { code: 'e', message: '' } },
    { state: 'failed', deadLetter: false, nextRetryAt: AT_TEXT },
  ],
  [
    'todos.fail for good',
    { fail: async () => aTodo({ state: 'failed' }) },
    { ...held, error: { code: 'e', message: '' }, retryable: false },
    { state: 'failed', deadLetter: true, nextRetryAt: null },
  ],
  ['todos.release', { release: async () => aTodo() }, held, { state: 'pending' }],
  [
    'todos.reject',
    { reject: async () => aTodo({ state: 'rejected' }) },
    held,
    { state: 'rejected' },
  ],
]
test.each(answers)('%s answers with exactly its members', async (name, agent, params, result) => {
  expect(await call(name.split(' ')[0]!, agent, params)).toEqual(result)
})

test('a list passes its filter on and leaves artifacts out', async () => {
  const asked: object[] = []
  const page = await call(
    'todos.list',
    {
      list: async (filter) => {
        asked.push(filter)
        return { todos: [aView()], nextPageToken: 'next', pageSize: 7, totalSize: 9 }
      },
    },
    { queue: 'legal', state: 'failed', contextId: 'c', pageSize: 7, pageToken: '' },
  )
  expect(asked).toEqual([
    { queue: 'legal', states: ['failed'], contextId: 'c', pageSize: 7, includeArtifacts: false },
  ])
  expect(page).toMatchObject({ todos: [{ id: 'todo-1' }], nextPageToken: 'next' })
  expect((page as { todos: object[] }).todos[0]).not.toHaveProperty('artifacts')
})

test.each(Object.entries(AGENT_METHODS))('%s is for endpoints that may work', (_name, row) => {
  expect(() => row.right(callOf({}, { verbs: ['send', 'answer', 'watch'] }))).toThrow(
    expect.objectContaining({ kind: 'forbidden' }),
  )
  expect(() => row.right({ ...callOf({}), caller: { kind: 'operator' } })).toThrow(
    expect.objectContaining({ kind: 'forbidden' }),
  )
  expect(() => row.right(callOf({}, { verbs: ['work'] }))).not.toThrow()
})
