// Field cases: typed error details; undeclared capabilities; a context must match its task;
// task ids refer and never create; no messages into finished tasks; the same send again;
// the words of the protocol in errors.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { restClient } from '../support/clients/rest.ts'
import { ask, rowCounts, saying, UNKNOWN_ID } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk')
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const submitAndClaim = async (text: string, more = {}) => {
  const task = await a2a.submit(text, more)
  const todo = await worker.claim()
  expect(todo.id).toBe(task.id)
  return todo
}

test('an unknown task is told with typed details and nothing else', async () => {
  const { error } = await a2a.call('GetTask', { id: UNKNOWN_ID })
  expect(Object.keys(error).sort()).toEqual(['code', 'data', 'message'])
  expect(error).toMatchObject({
    code: -32001,
    data: [
      {
        '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
        reason: 'TASK_NOT_FOUND',
        domain: 'a2a-protocol.org',
      },
    ],
  })
})

test('where the card says no streaming, both streams are refused as plain JSON and make no task', async () => {
  await app.services.operator.putQueue({
    name: 'plain',
    card: { capabilities: { streaming: false } },
  })
  const { token } = await app.vend(['send'], ['plain'])
  const plain = a2aClient(app.url, 'plain', token)
  const task = await plain.submit('x')
  const before = await rowCounts(app)
  for (const [method, params] of Object.entries({
    SendStreamingMessage: { message: textMessage('x') },
    SubscribeToTask: { id: task.id },
  })) {
    const stream = await plain.stream(method, params)
    expect(stream.headers.get('content-type')).toMatch(/^application\/json/)
    expect(stream.body.error.code).toBe(-32004)
  }
  expect(await rowCounts(app)).toEqual(before)
})

test('where push is not served, its four methods and an inline config are refused and store nothing', async () => {
  const card = { capabilities: { pushNotifications: false } }
  await app.services.operator.putQueue({ name: 'quiet', card })
  const { token } = await app.vend(['send'], ['quiet'])
  const a2a = a2aClient(app.url, 'quiet', token)
  const task = await a2a.submit('x')
  const before = await rowCounts(app)
  const url = 'https://example.com/hook'
  const configuration = { taskPushNotificationConfig: { url }, returnImmediately: true }
  for (const [method, params] of Object.entries({
    CreateTaskPushNotificationConfig: { taskId: task.id, url },
    GetTaskPushNotificationConfig: { taskId: task.id, id: 'c' },
    ListTaskPushNotificationConfigs: { taskId: task.id },
    DeleteTaskPushNotificationConfig: { taskId: task.id, id: 'c' },
    SendMessage: { message: textMessage('x'), configuration },
    SendStreamingMessage: { message: textMessage('x'), configuration },
  })) {
    const { error } = await a2a.call(method, params)
    expect([method, error.code]).toEqual([method, -32003])
  }
  expect(await rowCounts(app)).toEqual(before)
  await a2a.call('CancelTask', { id: task.id })
})

test('an extended card that is not declared is unsupported, one that is declared and missing is not configured', async () => {
  expect((await a2a.call('GetExtendedAgentCard', {})).error.code).toBe(-32004)
  const declared = { capabilities: { extendedAgentCard: true } }
  await app.services.operator.putQueue({ name: 'vain', card: declared })
  const { token } = await app.vend(['send'], ['vain'])
  const vain = a2aClient(app.url, 'vain', token)
  expect((await vain.call('GetExtendedAgentCard', {})).error.code).toBe(-32007)
})

test('a context that is not that of the task is refused; without one it is inferred', async () => {
  const todo = await submitAndClaim('x')
  await ask(worker, todo, 'which?')
  const before = await rowCounts(app)
  const wrong = await a2a.send('y', { taskId: todo.id, contextId: 'other' })
  expect(wrong.error.code).toBe(-32602)
  expect(await rowCounts(app)).toEqual(before)
  expect((await a2a.get(todo.id)).status.state).toBe('TASK_STATE_INPUT_REQUIRED')
  expect((await a2a.call('ListTasks', { contextId: 'other' })).result.totalSize).toBe(0)

  const task = await a2a.submit('y', { taskId: todo.id })
  expect(task).toMatchObject({ id: todo.id, contextId: todo.contextId })
  const { messages } = await worker.call('todos.messages', todo.held)
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
})

test('a task id in a message refers to a task and never makes one', async () => {
  const before = await rowCounts(app)
  const lost = await a2a.send('x', { taskId: '22222222-2222-4222-8222-222222222222' })
  expect(lost.error.code).toBe(-32001)
  expect(await rowCounts(app)).toEqual(before)

  const todo = await submitAndClaim('turn 0', { contextId: 'turns' })
  for (const turn of [1, 2, 3]) {
    await ask(worker, todo, `question ${turn}`)
    expect((await a2a.submit(`turn ${turn}`, { taskId: todo.id })).id).toBe(todo.id)
    const { messages } = await worker.call('todos.messages', todo.held)
    await worker.call('todos.acknowledge', { ...todo.held, through: messages.at(-1).seq })
  }
  const { tasks } = (await a2a.call('ListTasks', { contextId: 'turns' })).result
  expect(tasks.map(({ id }: { id: string }) => id)).toEqual([todo.id])
  await worker.call('todos.complete', todo.held)
})

test('a follow-up sent twice is one message, one after the other and both at once', async () => {
  const todo = await submitAndClaim('x')
  await ask(worker, todo, 'which?')
  const once = { taskId: todo.id, messageId: randomUUID() }
  const tasks = await Promise.all([1, 2, 3, 4].map(() => a2a.submit('this one', once)))
  tasks.push(await a2a.submit('this one', once))
  expect(new Set(tasks.map(({ id }) => id))).toEqual(new Set([todo.id]))
  const { messages } = await worker.call('todos.messages', todo.held)
  expect(messages).toHaveLength(1)
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
  const again = await a2a.send('this one', once)
  expect(again.result.task.status.state).toBe('TASK_STATE_COMPLETED')
  const history = (await a2a.get(todo.id)).history
  expect(history.filter((m: { messageId: string }) => m.messageId === once.messageId)).toHaveLength(
    1,
  )
})

const ENDS: Record<string, (todo: Awaited<ReturnType<typeof submitAndClaim>>) => Promise<unknown>> =
  {
    COMPLETED: (todo) => worker.call('todos.complete', { ...todo.held, message: saying('done') }),
    FAILED: (todo) =>
      worker.call('todos.fail', {
        ...todo.held,
        error: { code: 'boom', message: 'it broke' },
        retryable: false,
      }),
    CANCELED: (todo) => a2a.call('CancelTask', { id: todo.id }),
    REJECTED: (todo) => worker.call('todos.reject', { ...todo.held, message: saying('no') }),
  }

test.each(Object.keys(ENDS))(
  'a task that is %s takes no further message and stays as it is',
  async (name) => {
    const todo = await submitAndClaim('x')
    await ENDS[name]!(todo)
    const task = await a2a.get(todo.id)
    expect(task.status.state).toBe(`TASK_STATE_${name}`)
    const before = await rowCounts(app)
    const params = { message: textMessage('more', { taskId: todo.id }) }
    for (const method of ['SendMessage', 'SendStreamingMessage']) {
      const answer = await a2a.stream(method, params)
      expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
      expect(answer.body.error.code).toBe(-32004)
    }
    expect(await rowCounts(app)).toEqual(before)
    expect(await a2a.get(todo.id)).toEqual(task)
    expect((await worker.call('todos.claim', {})).todos).toEqual([])
  },
)

test('what may not be done to a task that has ended is told in the words of each version', async () => {
  const wire = restClient(app.url, 'desk', client.token)
  const wire03 = restClient(app.url, 'desk', client.token, null)
  const todo = await submitAndClaim('x')
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const { id } = todo
  const message = textMessage('more', { taskId: id })
  const old = { messageId: message.messageId, role: 'user', parts: message.parts, taskId: id }
  const slash = (method: string, params: unknown) =>
    a2a.call(method, params, { headers: { 'A2A-Version': '0.3' } })
  const told: [string, Answer][] = [
    ['TASK_STATE_COMPLETED', (await a2a.call('SendMessage', { message })).error],
    ['TASK_STATE_COMPLETED', (await a2a.call('CancelTask', { id })).error],
    ['completed', (await slash('message/send', { message: old })).error],
    ['completed', (await slash('tasks/cancel', { id })).error],
    [
      'TASK_STATE_COMPLETED',
      (await wire.call('POST', '/message:send', { body: { message } })).body,
    ],
    ['TASK_STATE_COMPLETED', (await wire.call('POST', `/tasks/${id}:cancel`)).body],
    ['TASK_STATE_COMPLETED', (await wire03.call('POST', `/v1/tasks/${id}:cancel`)).body],
  ]
  for (const [state, error] of told) {
    expect(JSON.stringify(error)).toContain(`"state":"${state}"`)
    expect(JSON.stringify(error)).not.toMatch(/todo|"done"/i)
  }
})
