import { describe, expect, test } from 'vitest'
import { STATE_NAMES } from '../../../src/domain/lifecycle.ts'
import { PROJECTION } from '../../../src/protocol/json/enums.ts'
import { REQUESTS } from '../../../src/protocol/v1/schema.ts'
import {
  fromEvent,
  fromPage,
  fromSent,
  fromTodo,
  toFilter,
  toSend,
} from '../../../src/protocol/v1/translate.ts'
import { AT, event, said, view } from './build.ts'

const status = (state: string) => ({ state, timestamp: '2026-03-01T08:00:00.120Z' })

describe('a task', () => {
  test('is the todo in the words of A2A 1.0, and nothing else of it', () => {
    expect(fromTodo(view())).toEqual({
      id: 't-7',
      contextId: 'c-1',
      status: status('TASK_STATE_SUBMITTED'),
      history: [
        {
          messageId: 'm-hello',
          contextId: 'c-1',
          taskId: 't-7',
          role: 'ROLE_USER',
          parts: [{ text: 'hello' }],
        },
      ],
    })
  })

  test.each(STATE_NAMES)('has the projected state of a todo that is %s', (state) => {
    expect(fromTodo(view({ state })).status.state).toBe(PROJECTION[state])
  })

  test('has not failed while a retry is due', () => {
    const task = fromTodo(view({ state: 'failed', nextRetryAt: AT }))
    expect(task.status.state).toBe('TASK_STATE_SUBMITTED')
  })

  test('carries the agent message of its newest status in the status and not in the history', () => {
    const turns = [said('ROLE_USER', 'u1'), said('ROLE_AGENT', 'a1')]
    const task = fromTodo(
      view({ state: 'input-required', seq: 3, statusSeq: 3 }, turns, { at: [1, 3] }),
    )
    expect(task.status.message).toMatchObject({
      messageId: 'm-a1',
      taskId: 't-7',
      contextId: 'c-1',
    })
    expect(task.history?.map((message) => message.messageId)).toEqual(['m-u1'])
  })

  test('keeps an answer in the history, although the answer set the newest status', () => {
    const turns = [said('ROLE_USER', 'u1'), said('ROLE_AGENT', 'a1'), said('ROLE_USER', 'u2')]
    const task = fromTodo(
      view({ state: 'claimed', seq: 4, statusSeq: 4 }, turns, { at: [1, 3, 4] }),
    )
    expect(task.status).not.toHaveProperty('message')
    expect(task.history?.map((message) => message.messageId)).toEqual(['m-u1', 'm-a1', 'm-u2'])
  })

  test('shows its metadata, and artifacts only where there are some', () => {
    const artifact = { artifactId: 'a1', parts: [{ data: null }], name: 'A' }
    const task = fromTodo(view({}, [], { metadata: { tag: 'x' }, artifacts: [artifact] }))
    expect(task).toMatchObject({ metadata: { tag: 'x' }, artifacts: [artifact] })
    expect(fromTodo(view())).not.toHaveProperty('artifacts')
    expect(fromTodo(view({}, []))).not.toHaveProperty('history')
  })
})

describe('historyLength', () => {
  const five = ['1', '2', '3', '4', '5'].map((text) => said('ROLE_USER', text))
  test.each([
    [undefined, ['m-1', 'm-2', 'm-3', 'm-4', 'm-5']],
    [0, undefined],
    [1, ['m-5']],
    [2, ['m-4', 'm-5']],
    [5, ['m-1', 'm-2', 'm-3', 'm-4', 'm-5']],
    [100, ['m-1', 'm-2', 'm-3', 'm-4', 'm-5']],
  ])('%s of five shows %j', (length, ids) => {
    const task = fromTodo(view({ seq: 9, statusSeq: 9 }, five), length)
    expect(task.history?.map((message) => message.messageId)).toEqual(ids)
    expect('history' in task).toBe(ids !== undefined)
  })
})

describe('what SendMessage answers', () => {
  const turns = [said('ROLE_USER', 'u'), said('ROLE_AGENT', 'a')]
  const done = { state: 'done', seq: 3, statusSeq: 3 } as const

  test('is a wrapped task', () => {
    expect(fromSent(view(done, turns, { at: [1, 3] }))).toMatchObject({ task: { id: 't-7' } })
  })

  test('is the bare message where the agent asked for that', () => {
    expect(fromSent(view(done, turns, { at: [1, 3], direct: true }))).toEqual({
      message: {
        messageId: 'm-a',
        contextId: 'c-1',
        taskId: 't-7',
        role: 'ROLE_AGENT',
        parts: [{ text: 'a' }],
      },
    })
  })

  test('is the task where the agent asked for a bare message and left none', () => {
    expect(fromSent(view(done, [], { direct: true }))).toHaveProperty('task')
  })

  test('is the task while it is not done, whatever was asked for', () => {
    const asking = { state: 'input-required', seq: 3, statusSeq: 3 } as const
    const answer = fromSent(view(asking, turns, { at: [1, 3], direct: true }))
    expect(answer).toHaveProperty('task')
  })
})

describe('a page of tasks', () => {
  const read = (params: object) => REQUESTS.ListTasksRequest.parse(params)
  const page = (todos = [view()]) => ({ todos, nextPageToken: '', pageSize: 50, totalSize: 1 })

  test('always has its four members', () => {
    expect(fromPage({ ...page([]), totalSize: 0 }, read({}))).toEqual({
      tasks: [],
      nextPageToken: '',
      pageSize: 50,
      totalSize: 0,
    })
  })

  test('shows artifacts only when asked for them, and then also an empty list', () => {
    const full = view({}, [], { artifacts: [{ artifactId: 'a', parts: [{ text: '' }] }] })
    expect(fromPage(page([full]), read({})).tasks[0]).not.toHaveProperty('artifacts')
    const asked = fromPage(page([full, view()]), read({ includeArtifacts: true }))
    expect(asked.tasks[0]?.artifacts).toHaveLength(1)
    expect(asked.tasks[1]?.artifacts).toEqual([])
  })
})

describe('what ListTasks asks for', () => {
  const filter = (params: object) => toFilter(REQUESTS.ListTasksRequest.parse(params))

  test('is a page of 50 without artifacts by default', () => {
    expect(filter({})).toEqual({ pageSize: 50, includeArtifacts: false })
  })

  test.each([
    ['TASK_STATE_SUBMITTED', { states: ['pending', 'failed'], retrying: 'only', joining: 'never' }],
    ['TASK_STATE_FAILED', { states: ['failed'], retrying: 'never' }],
    ['TASK_STATE_WORKING', { states: ['claimed', 'pending'], joining: 'only' }],
    ['TASK_STATE_INPUT_REQUIRED', { states: ['input-required'] }],
    ['TASK_STATE_UNSPECIFIED', {}],
  ])('%s is %j', (state, expected) => {
    expect(filter({ status: state })).toEqual({
      pageSize: 50,
      includeArtifacts: false,
      ...expected,
    })
  })

  test('takes every filter', () => {
    const params = {
      context_id: 'c-1',
      page_size: 7,
      page_token: 'next',
      include_artifacts: true,
      status_timestamp_after: '2026-03-01T08:00:00.1209Z',
    }
    expect(filter(params)).toEqual({
      contextId: 'c-1',
      pageSize: 7,
      pageToken: 'next',
      includeArtifacts: true,
      statusAfter: AT,
    })
  })
})

describe('what a stream shows of an event', () => {
  test('is a status update for a transition, with what the agent said', () => {
    const asked = event({
      verb: 'interrupt',
      to: 'input-required',
      message: said('ROLE_AGENT', '?'),
    })
    expect(fromEvent(asked)).toEqual({
      statusUpdate: {
        taskId: 't-7',
        contextId: 'c-1',
        status: {
          ...status('TASK_STATE_INPUT_REQUIRED'),
          message: {
            messageId: 'm-?',
            contextId: 'c-1',
            taskId: 't-7',
            role: 'ROLE_AGENT',
            parts: [{ text: '?' }],
          },
        },
      },
    })
  })

  test('is no message of the client', () => {
    const answered = fromEvent(event({ verb: 'resume', message: said('ROLE_USER', 'x') }))
    expect(answered).toEqual({
      statusUpdate: { taskId: 't-7', contextId: 'c-1', status: status('TASK_STATE_WORKING') },
    })
  })

  test('is submitted for a failure with a retry, failed for a dead letter', () => {
    const failed = { verb: 'fail', to: 'failed' } as const
    expect(fromEvent(event({ ...failed, retrying: true }))).toMatchObject({
      statusUpdate: { status: { state: 'TASK_STATE_SUBMITTED' } },
    })
    expect(fromEvent(event(failed))).toMatchObject({
      statusUpdate: { status: { state: 'TASK_STATE_FAILED' } },
    })
  })

  test('is an artifact update for a chunk, flags only where they are set', () => {
    const artifact = { artifactId: 'a1', parts: [{ raw: 'aGk=', filename: 'a.txt' }] }
    const chunk = { artifact, append: true, lastChunk: false }
    expect(fromEvent(event({ verb: 'artifact', artifact: chunk }))).toEqual({
      artifactUpdate: { taskId: 't-7', contextId: 'c-1', artifact, append: true },
    })
  })

  test.each(['message', 'progress', 'comeDue', 'acknowledge', 'heartbeat', 'hold'] as const)(
    'is nothing for %s',
    (verb) => {
      expect(fromEvent(event({ verb }))).toBeNull()
    },
  )
})

describe('what SendMessage hands to the service', () => {
  test('is the message as it came, known fields only, and the metadata of the request', () => {
    const request = REQUESTS.SendMessageRequest.parse({
      metadata: { a_b: { c_d: null } },
      unknown: 1,
      message: {
        message_id: 'm-1',
        task_id: '',
        contextId: 'c-9',
        role: 'ROLE_USER',
        kind: 'message',
        parts: [{ data: null, media_type: 'application/json', kind: 'data' }, { raw: '_-8' }],
        metadata: { some_key: 1 },
        reference_task_ids: ['t-1'],
      },
    })
    expect(toSend('demo', request, '1.0')).toEqual({
      queue: 'demo',
      metadata: { a_b: { c_d: null } },
      message: {
        messageId: 'm-1',
        contextId: 'c-9',
        role: 'ROLE_USER',
        parts: [{ data: null, mediaType: 'application/json' }, { raw: '/+8=' }],
        metadata: { some_key: 1 },
        referenceTaskIds: ['t-1'],
      },
    })
  })
})
