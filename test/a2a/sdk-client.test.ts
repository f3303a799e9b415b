// The protocol's own JavaScript client against a real server: what it resolves, sends and reads.
import { randomUUID } from 'node:crypto'
import { type StreamResponse, TaskState } from '@a2a-js/sdk'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { connectRpc, request, stateIn, taskOf, textOf } from '../support/clients/sdk.ts'
import { ask, ODD_TEXT, saying, UNKNOWN_ID } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const worker = agentClient(app.url, agent.token)

const sdk = await connectRpc(client.token, `${app.url}/a2a/desk/`)

test('the card resolves against the URL of the queue and chooses JSON-RPC 1.0', async () => {
  expect(sdk.protocolVersion).toBe('1.0')
  const card = await sdk.getAgentCard()
  expect(card.supportedInterfaces[0]).toMatchObject({
    url: `${app.url}/a2a/desk/`,
    protocolBinding: 'JSONRPC',
    protocolVersion: '1.0',
  })
  expect(card.capabilities?.streaming).toBe(true)
})

test('a blocking send returns the completed task with artifact and words unharmed', async () => {
  const sent = sdk.sendMessage(request(ODD_TEXT))
  const todo = await worker.claim()
  expect(todo.message.parts[0].text).toBe(ODD_TEXT)
  await worker.call('todos.complete', {
    ...todo.held,
    message: saying(ODD_TEXT),
    artifacts: [{ artifactId: 'a', parts: [{ text: ODD_TEXT }, { data: { n: 1 } }] }],
  })
  const task = taskOf(await sent)
  expect(task.status.state).toBe(TaskState.TASK_STATE_COMPLETED)
  expect(textOf(task.status.message)).toBe(ODD_TEXT)
  expect(task.artifacts[0]!.parts.map(({ content }) => content)).toEqual([
    { $case: 'text', value: ODD_TEXT },
    { $case: 'data', value: { n: 1 } },
  ])
  expect(await sdk.getTask({ tenant: '', id: task.id })).toEqual(task)
})

test('a bare message of the agent is a message', async () => {
  const sent = sdk.sendMessage(request('x'))
  const todo = await worker.claim()
  await worker.call('todos.complete', { ...todo.held, direct: true, message: saying('bare') })
  const result = await sent
  expect('messageId' in result && textOf(result)).toBe('bare')
})

test('a question is answered under the same task, which then goes on to its end', async () => {
  const sent = sdk.sendMessage(request('x'))
  const todo = await worker.claim()
  await ask(worker, todo, 'which?')
  const waiting = taskOf(await sent)
  expect(waiting.status.state).toBe(TaskState.TASK_STATE_INPUT_REQUIRED)
  expect(textOf(waiting.status.message)).toBe('which?')
  const answered = sdk.sendMessage(
    request('this', { taskId: waiting.id, contextId: waiting.contextId }),
  )
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
  const done = taskOf(await answered)
  expect(done.id).toBe(waiting.id)
  expect(done.status.state).toBe(TaskState.TASK_STATE_COMPLETED)
  expect(done.history.map(textOf)).toEqual(['x', 'which?', 'this'])
})

test('a stream of a send shows task, work, artifact and end', async () => {
  const stream = sdk.sendMessageStream(request('x'))
  const first = await stream.next()
  expect(first.value?.payload?.$case).toBe('task')
  const todo = await worker.claim()
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId: 'a', parts: [{ text: 'A' }] },
  })
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const rest: StreamResponse[] = []
  for await (const response of stream) rest.push(response)
  expect(rest.map(({ payload }) => payload?.$case)).toEqual([
    'statusUpdate',
    'artifactUpdate',
    'statusUpdate',
  ])
  expect(rest.map(stateIn)).toEqual([
    TaskState.TASK_STATE_WORKING,
    undefined,
    TaskState.TASK_STATE_COMPLETED,
  ])
})

test('a stream given up and resubscribed goes on with the task as it is and the events to come', async () => {
  const hangUp = new AbortController()
  const stream = sdk.sendMessageStream(request('x'), { signal: hangUp.signal })
  const first = await stream.next()
  const id = first.value?.payload?.$case === 'task' ? first.value.payload.value.id : ''
  hangUp.abort()
  await stream.next().catch(() => {})
  const todo = await worker.claim()
  expect(todo.id).toBe(id)
  const again = sdk.resubscribeTask({ tenant: '', id })
  expect(stateIn((await again.next()).value!)).toBe(TaskState.TASK_STATE_WORKING)
  await worker.call('todos.complete', todo.held)
  const states: unknown[] = []
  for await (const response of again) states.push(stateIn(response))
  expect(states).toEqual([TaskState.TASK_STATE_COMPLETED])
  await expect(sdk.resubscribeTask({ tenant: '', id }).next()).rejects.toThrow()
})

test('a task is canceled, listed, and what is not there is told as the error it is', async () => {
  const contextId = randomUUID()
  const task = taskOf(await sdk.sendMessage(request('x', { contextId }, true)))
  const canceled = await sdk.cancelTask({ tenant: '', id: task.id, metadata: undefined })
  expect(canceled.status?.state).toBe(TaskState.TASK_STATE_CANCELED)
  const page = await sdk.listTasks({
    tenant: '',
    contextId,
    status: TaskState.TASK_STATE_UNSPECIFIED,
    pageToken: '',
    statusTimestampAfter: undefined,
  })
  expect(page.tasks.map(({ id }) => id)).toEqual([task.id])
  expect(page.totalSize).toBe(1)
  await expect(sdk.getTask({ tenant: '', id: UNKNOWN_ID })).rejects.toMatchObject({
    name: 'TaskNotFoundError',
  })
  const done = sdk.sendMessage(request('x'))
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  const { id } = taskOf(await done)
  await expect(sdk.cancelTask({ tenant: '', id, metadata: undefined })).rejects.toMatchObject({
    name: 'TaskNotCancelableError',
  })
})

test('a client without a good token is turned away', async () => {
  const nobody = await connectRpc('swb_nobody', `${app.url}/a2a/desk/`)
  await expect(nobody.sendMessage(request('x'))).rejects.toThrow()
  const { result } = await a2aClient(app.url, 'desk', client.token).call('ListTasks', {
    status: 'TASK_STATE_SUBMITTED',
  })
  expect(result.tasks).toEqual([])
})
