// What is refused before anything is stored.
// Field cases: invalid messages store nothing; one meaning of history length; the shape of a list;
// lists since a moment; limits and quoting.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, rpc, textMessage } from '../support/clients/actors.ts'
import { operate, refusalOf, rowCounts, UNKNOWN_ID } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk')
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const operator = (method: string, params: unknown) => operate(app, method, params)

const BAD_REQUEST = 'type.googleapis.com/google.rpc.BadRequest'

// biome-ignore lint/suspicious/noExplicitAny: looked into member by member
const fieldsOf = (error: any): string[] =>
  error.data
    .find((detail: Record<string, unknown>) => detail['@type'] === BAD_REQUEST)
    .fieldViolations.map(({ field }: { field: string }) => field)

const good = textMessage('hello')
const without = (member: string) => ({ ...good, [member]: undefined })

test.each<[string, unknown, string]>([
  ['no params', undefined, 'params'],
  ['params that are a list', [], 'params'],
  ['no message', {}, 'message'],
  ['no parts', { message: { ...good, parts: [] } }, 'message.parts'],
  ['parts that are no list', { message: { ...good, parts: 'hi' } }, 'message.parts'],
  ['a part with nothing in it', { message: { ...good, parts: [{}] } }, 'message.parts[0]'],
  [
    'a part with two contents',
    { message: { ...good, parts: [{ text: 'x', url: 'y' }] } },
    'message.parts[0]',
  ],
  ['no messageId', { message: without('messageId') }, 'message.messageId'],
  ['an empty messageId', { message: { ...good, messageId: '' } }, 'message.messageId'],
  ['no role', { message: without('role') }, 'message.role'],
  ['an unknown role', { message: { ...good, role: 'ROLE_WIZARD' } }, 'message.role'],
  ['a role of another version', { message: { ...good, role: 'user' } }, 'message.role'],
  ['the role of an agent', { message: { ...good, role: 'ROLE_AGENT' } }, 'message.role'],
])(
  'a send with %s is refused with the field at fault, and nothing is stored',
  async (_, params, field) => {
    const before = await rowCounts(app)
    for (const method of ['SendMessage', 'SendStreamingMessage']) {
      const { error } = await a2a.call(method, params)
      expect(error.code).toBe(-32602)
      expect(fieldsOf(error)).toContain(field)
    }
    expect(await rowCounts(app)).toEqual(before)
    expect((await a2a.call('ListTasks', {})).result.tasks).toEqual([])
    expect((await worker.call('todos.claim', {})).todos).toEqual([])
  },
)

test.each([-1, 1.5, '1.5', 'two', 2 ** 31])(
  'a historyLength of %j is refused by every method that has one',
  async (historyLength) => {
    const before = await rowCounts(app)
    const sent = { message: textMessage('x'), configuration: { historyLength } }
    for (const [method, params] of Object.entries({
      GetTask: { id: UNKNOWN_ID, historyLength },
      ListTasks: { historyLength },
      SendMessage: sent,
      SendStreamingMessage: sent,
    })) {
      const { error } = await a2a.call(method, params)
      expect([method, error.code]).toEqual([method, -32602])
    }
    expect(await rowCounts(app)).toEqual(before)
  },
)

test.each<[string, unknown]>([
  ['pageSize', 0],
  ['pageSize', 101],
  ['pageSize', -1],
  ['pageSize', 1.5],
  ['status', 'TASK_STATE_RUNNING'],
  ['status', 'working'],
  ['statusTimestampAfter', 1_700_000_000],
  ['statusTimestampAfter', 'yesterday'],
  ['statusTimestampAfter', '2026-02-30T00:00:00Z'],
  ['pageToken', 'not one of ours'],
  ['pageToken', Buffer.from('["x","y"]').toString('base64url')],
])('a list with the %s %j is refused with the field at fault', async (field, value) => {
  const { error } = await a2a.call('ListTasks', { [field]: value })
  expect(error.code).toBe(-32602)
  expect(fieldsOf(error)).toEqual([field])
})

const ODD = ["'; DROP TABLE todos;--", '%', '_', 'a b', '*', '../../etc/passwd', '$1', '\\', '😀']

test.each([
  ['1', UNKNOWN_ID],
  [5, UNKNOWN_ID],
  ['0000-01-01T00:00:00.000Z', UNKNOWN_ID],
  ['2026-02-31T00:00:00.000Z', UNKNOWN_ID],
  ['+275760-09-13T00:00:00.000Z', UNKNOWN_ID],
  [['2026-01-01T00:00:00.000Z'], UNKNOWN_ID],
  ['2026-01-01T00:00:00.000Z', '-'.repeat(36)],
  ['2026-01-01T00:00:00.000Z', [UNKNOWN_ID]],
])('a page token made up of %j and %j is refused by every list', async (at, id) => {
  const pageToken = Buffer.from(JSON.stringify([at, id])).toString('base64url')
  const { error } = await a2a.call('ListTasks', { pageToken })
  expect(error.code).toBe(-32602)
  expect(fieldsOf(error)).toEqual(['pageToken'])
  for (const call of [worker.call, operator]) {
    expect((await refusalOf(call('todos.list', { pageToken }))).code).toBe(-32602)
  }
})

test.each([...ODD, 'x'.repeat(200)])(
  'an id of %j names no task: the same answer as for one that never was',
  async (id) => {
    const never = await a2a.call('GetTask', { id: UNKNOWN_ID })
    for (const method of ['GetTask', 'CancelTask', 'SubscribeToTask']) {
      expect(await a2a.call(method, { id })).toEqual(never)
    }
    for (const method of ['SendMessage', 'SendStreamingMessage']) {
      expect(await a2a.call(method, { message: textMessage('x', { taskId: id }) })).toEqual(never)
    }
    for (const method of ['todos.get', 'todos.heartbeat', 'todos.complete', 'todos.fail']) {
      const more = {
        'todos.get': {},
        'todos.heartbeat': { fence: '1' },
        'todos.complete': { fence: '1', artifacts: [{ artifactId: 'a', parts: [{ text: 'x' }] }] },
        'todos.fail': { fence: '1', error: { code: 'x', message: 'x' } },
      }[method]
      expect((await refusalOf(worker.call(method, { id, ...more }))).code).toBe(-32012)
    }
    for (const method of ['todos.show', 'todos.cancel', 'endpoints.revoke', 'endpoints.rotate']) {
      expect((await refusalOf(operate(app, method, { id }))).code).toBe(-32012)
    }
  },
)

test('a text that cannot be an id is refused, or is nobody: never a failure of ours', async () => {
  for (const id of ['x'.repeat(10_000), 'nul\u0000', 'half \ud800', '', '\n']) {
    const { error } = await a2a.call('GetTask', { id })
    expect(error.code).toBe(-32602)
    const mine = await refusalOf(worker.call('todos.get', { id }))
    expect([-32602, -32012]).toContain(mine.code)
  }
})

test('an odd text in a filter, a context or a message id equals itself and nothing else', async () => {
  const contexts = [...ODD, 'plain', 'x'.repeat(256)]
  const ids = new Map<string, string>()
  for (const contextId of contexts) {
    const task = await a2a.submit('x', { contextId, messageId: contextId })
    expect(task.contextId).toBe(contextId)
    expect(task.history[0].messageId).toBe(contextId)
    ids.set(contextId, task.id)
  }
  for (const contextId of contexts) {
    const { result } = await a2a.call('ListTasks', { contextId })
    expect(result.tasks.map(({ id }: { id: string }) => id)).toEqual([ids.get(contextId)])
    const { todos } = await worker.call('todos.list', { contextId })
    expect(todos.map(({ id }: { id: string }) => id)).toEqual([ids.get(contextId)])
    expect((await operate(app, 'todos.list', { contextId })).todos).toHaveLength(1)
  }
  for (const queue of [...ODD, 'x'.repeat(10_000)]) {
    expect((await operate(app, 'todos.list', { queue })).todos).toEqual([])
    expect((await worker.call('todos.list', { queue })).todos).toEqual([])
    expect((await refusalOf(worker.call('todos.claim', { queues: [queue] }))).code).toBe(-32011)
  }
  const { result } = await a2a.call('ListTasks', { contextId: randomUUID() })
  expect(result.tasks).toEqual([])
})

test('a queue whose name is odd is refused as one that is not there', async () => {
  const never = await rpc(
    `${app.url}/a2a/nowhere/`,
    'ListTasks',
    {},
    {
      token: client.token,
      headers: { 'A2A-Version': '1.0' },
    },
  )
  expect(never.error.code).toBe(-32000)
  for (const name of [...ODD, 'x'.repeat(4000)]) {
    const answer = await rpc(
      `${app.url}/a2a/${encodeURIComponent(name)}/`,
      'ListTasks',
      {},
      {
        token: client.token,
        headers: { 'A2A-Version': '1.0' },
      },
    )
    expect(answer).toEqual(never)
  }
})
