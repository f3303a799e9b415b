/** Golden pairs of 0.1: its send, its task, its events, and the ids that its clients make. */
import { describe, expect, test } from 'vitest'
import type { Task } from '../../../src/protocol/v1/wire.ts'
import { PARAMS } from '../../../src/protocol/v01/schema.ts'
import { taskIdOf } from '../../../src/protocol/v01/task-id.ts'
import { fromStream, fromTask, toFirst, toFollowUp } from '../../../src/protocol/v01/translate.ts'
import type { Event03, Task03 } from '../../../src/protocol/v03/translate.ts'
import type { QueueCall, StreamItem } from '../../../src/protocol/wire/method.ts'

const read = (more: object = {}) =>
  PARAMS.TaskSendParams.parse({
    id: 'mine',
    message: { role: 'user', parts: [{ type: 'text', text: 'x' }] },
    ...more,
  })

const timestamp = '2026-03-01T08:00:00.120Z'

describe('a send', () => {
  test('makes a task with what lies in its params, and tells what its client calls it', () => {
    const params = read({
      sessionId: 's',
      message: {
        role: 'user',
        parts: [
          { type: 'text', text: 'x' },
          { type: 'file', file: { bytes: 'aGk=', name: 'a.txt' } },
          { type: 'data', data: { a: 1 } },
        ],
        metadata: { m: 1 },
      },
      acceptedOutputModes: ['text/plain'],
      pushNotification: { url: 'https://h', token: 't' },
      historyLength: 3,
      metadata: { k: 1 },
    })
    expect(toFirst(params, 'm-1')).toEqual({
      message: {
        messageId: 'm-1',
        contextId: 's',
        role: 'ROLE_USER',
        parts: [{ text: 'x' }, { raw: 'aGk=', filename: 'a.txt' }, { data: { a: 1 } }],
        metadata: { m: 1 },
      },
      configuration: {
        acceptedOutputModes: ['text/plain'],
        historyLength: 3,
        taskPushNotificationConfig: { id: 'default', url: 'https://h', token: 't' },
      },
      metadata: { k: 1, 'urn:switchboard:client-task-id': 'mine' },
    })
  })

  test('asks for no history, where it does not say how much', () => {
    expect(toFirst(read(), 'm').configuration?.historyLength).toBe(0)
  })

  test.each([
    [{ role: 'agent', parts: [{ type: 'text', text: 'x' }] }],
    [{ role: 'user', parts: [] }],
    [{ role: 'user', parts: [{ type: 'data', text: 'x' }] }],
  ])('of %j is refused', (message) => {
    expect(PARAMS.TaskSendParams.safeParse({ id: 'a', message }).success).toBe(false)
  })
})

const said = (messageId: string, text: string, role: 'ROLE_USER' | 'ROLE_AGENT' = 'ROLE_USER') => ({
  messageId,
  role,
  parts: [{ text }],
})
const task = (state: Task['status']['state'], history: Task['history'] = []): Task => ({
  id: 't',
  contextId: 's',
  status: { state, timestamp },
  history,
})

describe('a send to a task that is there', () => {
  const idIn = (of: Task, more = {}) => toFollowUp(read(more), of, 'new').message

  test('is a message of its own', () => {
    expect(idIn(task('TASK_STATE_WORKING', [said('m-1', 'other')]))).toMatchObject({
      messageId: 'new',
      taskId: 't',
    })
    expect(idIn(task('TASK_STATE_WORKING'))).not.toHaveProperty('contextId')
  })

  test('is the message before, where it says the same and nothing was asked', () => {
    const history = [said('m-1', 'y'), said('m-2', 'x'), said('m-3', 'x', 'ROLE_AGENT')]
    for (const state of ['TASK_STATE_SUBMITTED', 'TASK_STATE_COMPLETED'] as const) {
      expect(idIn(task(state, history)).messageId).toBe('m-2')
    }
    for (const state of ['TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_AUTH_REQUIRED'] as const) {
      expect(idIn(task(state, history)).messageId).toBe('new')
    }
    expect(idIn(task('TASK_STATE_WORKING', [...history, said('m-4', 'z')])).messageId).toBe('new')
  })

  test('is refused in another session', () => {
    expect(idIn(task('TASK_STATE_WORKING'), { sessionId: 's' }).taskId).toBe('t')
    expect(() => idIn(task('TASK_STATE_WORKING'), { sessionId: 'other' })).toThrow(
      expect.objectContaining({ kind: 'invalid' }),
    )
  })
})

const text = (text: string) => ({ kind: 'text' as const, text })
const task03: Task03 = {
  kind: 'task',
  id: 't',
  contextId: 's',
  status: {
    state: 'auth-required',
    timestamp,
    message: { kind: 'message', messageId: 'm', role: 'agent', parts: [text('who?')] } as never,
  },
  artifacts: [
    { artifactId: 'a', name: 'A', parts: [text('1') as never], extensions: ['urn:x'] },
    { artifactId: 'b', parts: [] },
  ],
  history: [
    { kind: 'message', messageId: 'm', role: 'user', parts: [text('x') as never], metadata: {} },
  ],
  metadata: { k: 1, 'urn:switchboard:client-task-id': 'mine' },
}
const status01 = {
  state: 'input-required',
  message: { role: 'agent', parts: [{ type: 'text', text: 'who?' }] },
  timestamp,
}

test('a task has its client’s id, its session, and artifacts by their places', () => {
  expect(fromTask(task03, 'mine')).toEqual({
    id: 'mine',
    sessionId: 's',
    status: status01,
    artifacts: [
      { name: 'A', parts: [{ type: 'text', text: '1' }], index: 0 },
      { parts: [], index: 1 },
    ],
    history: [{ role: 'user', parts: [{ type: 'text', text: 'x' }], metadata: {} }],
    metadata: { k: 1 },
  })
  expect(fromTask({ ...task03, status: { state: 'rejected', timestamp } }, 'i').status.state).toBe(
    'failed',
  )
})

const events = async (items: StreamItem<Event03>[], known: Task03 = task03) => {
  async function* source() {
    yield* items
  }
  const shown: StreamItem[] = []
  for await (const item of fromStream(source(), 'mine', async () => known)) shown.push(item)
  return shown
}
const ids = { taskId: 't', contextId: 's' }
const chunk = (artifactId: string, more = {}): StreamItem<Event03> => ({
  id: '5',
  result: { kind: 'artifact-update', ...ids, artifact: { artifactId, parts: [] }, ...more },
})

describe('a stream', () => {
  const working: Task03 = { ...task03, status: { state: 'working', timestamp } }

  test('begins with the artifacts and the status of its task, and ends with a final status', async () => {
    const end: StreamItem<Event03> = {
      id: '6',
      result: {
        kind: 'status-update',
        ...ids,
        status: { state: 'rejected', timestamp },
        final: true,
      },
    }
    expect(await events([{ id: '4', result: working }, chunk('c', { append: true }), end])).toEqual(
      [
        {
          result: {
            id: 'mine',
            artifact: { name: 'A', parts: [{ type: 'text', text: '1' }], index: 0 },
          },
        },
        { result: { id: 'mine', artifact: { parts: [], index: 1 } } },
        { id: '4', result: { id: 'mine', status: { state: 'working', timestamp }, final: false } },
        { id: '5', result: { id: 'mine', artifact: { parts: [], index: 2, append: true } } },
        { id: '6', result: { id: 'mine', status: { state: 'failed', timestamp }, final: true } },
      ],
    )
  })

  test('of a task at rest has one final status and no more', async () => {
    const [last, ...more] = (await events([{ id: '4', result: task03 }])).toReversed()
    expect(last).toEqual({ id: '4', result: { id: 'mine', status: status01, final: true } })
    expect(more).toHaveLength(2)
  })

  test('that goes on in the middle still knows the places', async () => {
    const places = (await events([chunk('b'), chunk('new'), chunk('a'), chunk('new')])).map(
      ({ result }) => (result as { artifact: { index: number } }).artifact.index,
    )
    expect(places).toEqual([1, 2, 0, 2])
  })
})

test('the id of a task follows from caller, queue and the id of the client, and from each of them', () => {
  const ctx = (endpoint: string, queue: string) =>
    ({
      caller: { kind: 'endpoint', endpoint: { id: endpoint } },
      queue: { name: queue },
    }) as QueueCall
  const id = taskIdOf(ctx('e', 'q'), 'mine')
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(taskIdOf(ctx('e', 'q'), 'mine')).toBe(id)
  const others = [
    taskIdOf(ctx('f', 'q'), 'mine'),
    taskIdOf(ctx('e', 'r'), 'mine'),
    taskIdOf(ctx('e', 'q'), 'yours'),
    taskIdOf(ctx('e', 'q","mine'), ''),
    taskIdOf(ctx('e', ''), 'q","mine'),
  ]
  expect(new Set([id, ...others]).size).toBe(6)
  expect(() => taskIdOf({ ...ctx('e', 'q'), caller: { kind: 'operator' } }, 'x')).toThrow()
})
