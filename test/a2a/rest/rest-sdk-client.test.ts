// The protocol's own JavaScript client over HTTP+JSON: what it resolves, sends and reads.
import { randomUUID } from 'node:crypto'
import { type StreamResponse, TaskState } from '@a2a-js/sdk'
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import { agentClient } from '../../support/clients/actors.ts'
import {
  connectRest,
  message,
  request,
  stateIn,
  taskOf,
  textOf,
} from '../../support/clients/sdk.ts'
import { ask, ODD_TEXT, saying, UNKNOWN_ID } from '../../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const worker = agentClient(app.url, agent.token)

const sdk = await connectRest(client.token, `${app.url}/a2a/desk`)

test('speaks HTTP+JSON 1.0, at the URL of the queue with a slash and without', async () => {
  expect(sdk.protocolVersion).toBe('1.0')
  const slashed = await connectRest(client.token, `${app.url}/a2a/desk/`)
  const task = taskOf(await slashed.sendMessage(request('x', {}, true)))
  expect((await sdk.getTask({ tenant: '', id: task.id })).id).toBe(task.id)
  const canceled = await slashed.cancelTask({ tenant: '', id: task.id, metadata: undefined })
  expect(canceled.status?.state).toBe(TaskState.TASK_STATE_CANCELED)
})

test('a blocking send returns the completed task with artifact and words unharmed', async () => {
  const sent = sdk.sendMessage(request(ODD_TEXT))
  const todo = await worker.claim()
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
  expect(await sdk.getTask({ tenant: '', id: task.id, historyLength: 5 })).toEqual(task)
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
  const answered = sdk.sendMessage(request('this', { taskId: waiting.id }))
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
  const done = taskOf(await answered)
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
  await expect(sdk.resubscribeTask({ tenant: '', id }).next()).rejects.toMatchObject({
    name: 'UnsupportedOperationError',
  })
})

test('a list is paged and filtered', async () => {
  const contextId = randomUUID()
  const task = taskOf(await sdk.sendMessage(request('x', { contextId }, true)))
  const page = await sdk.listTasks({
    tenant: '',
    contextId,
    status: TaskState.TASK_STATE_SUBMITTED,
    pageToken: '',
    pageSize: 1,
    statusTimestampAfter: task.status.timestamp,
    includeArtifacts: true,
  })
  expect(page.tasks.map(({ id }) => id)).toEqual([task.id])
  expect(page.totalSize).toBe(1)
  await sdk.cancelTask({ tenant: '', id: task.id, metadata: undefined })
})

test('errors are the ones that they are', async () => {
  await expect(sdk.getTask({ tenant: '', id: UNKNOWN_ID })).rejects.toMatchObject({
    name: 'TaskNotFoundError',
  })
  const sent = sdk.sendMessage(request('x'))
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  const { id } = taskOf(await sent)
  await expect(sdk.cancelTask({ tenant: '', id, metadata: undefined })).rejects.toMatchObject({
    name: 'TaskNotCancelableError',
  })
  await expect(
    sdk.sendMessage({ ...request('x'), message: message('x', { parts: [] }) }),
  ).rejects.toThrow(/Invalid parameters/)
  const nobody = await connectRest('swb_nobody', `${app.url}/a2a/desk`)
  await expect(nobody.getTask({ tenant: '', id })).rejects.toThrow(/bearer token/)
})
