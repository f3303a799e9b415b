/** What examples/conformance-agent.ts does by the id of the message, as the kits see it. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startApp } from './support/app.ts'
import { type Answer, a2aClient } from './support/clients/actors.ts'
import { type AgentProcess, startAgentProcess } from './support/process/agent-process.ts'
import { nextOf, resultsOf, saying, statesOf } from './support/steps.ts'
import { until } from './support/until.ts'

const app = await startApp({ maxWaitMs: 20_000 })
const { client, agent } = await app.queue('kit')
const a2a = a2aClient(app.url, 'kit', client.token)
let running: AgentProcess

beforeAll(async () => {
  running = await startAgentProcess('conformance-agent.ts', { url: app.url, token: agent.token })
})
afterAll(() => running.stop())

const idOf = (prefix: string): string => `${prefix}-${randomUUID()}`

const sent = async (prefix: string, more: object = {}): Promise<Answer> => {
  const answer = await a2a.send('x', { messageId: idOf(prefix), ...more })
  if (!answer.result) throw new Error(JSON.stringify(answer))
  return answer.result
}
const stateAfter = async (prefix: string, more: object = {}): Promise<string> =>
  (await sent(prefix, more)).task.status.state

test.each([
  ['tck-complete-task', 'TASK_STATE_COMPLETED'],
  ['tck-jsonrpc-anything', 'TASK_STATE_COMPLETED'],
  ['tck-delayed-complete', 'TASK_STATE_COMPLETED'],
  ['tck-input-required', 'TASK_STATE_INPUT_REQUIRED'],
  ['tck-auth-required', 'TASK_STATE_AUTH_REQUIRED'],
  ['tck-reject-task', 'TASK_STATE_REJECTED'],
  ['tck-fail-task', 'TASK_STATE_FAILED'],
  ['of-the-kit-for-0.3', 'TASK_STATE_INPUT_REQUIRED'],
])('%s leads to %s', async (prefix, state) => {
  const { task } = await sent(prefix)
  expect(task.status).toMatchObject({ state, message: { role: 'ROLE_AGENT' } })
})

test('a bare message comes in place of the task', async () => {
  const { message, task } = await sent('tck-message-response')
  expect(task).toBeUndefined()
  expect(message).toMatchObject(saying('Direct message response'))
})

const FILE = { filename: 'output.txt', mediaType: 'text/plain' }
const RAW = { ...FILE, raw: expect.stringMatching(/^[A-Za-z0-9+/]+=*$/) }

test.each([
  ['tck-artifact-text', { text: 'Generated text content' }],
  ['tck-artifact-file', RAW],
  ['tck-artifact-file-url', { ...FILE, url: 'https://example.com/output.txt' }],
  ['tck-artifact-data', { data: { key: 'value', count: 42 } }],
])('%s hands over its one part', async (prefix, part) => {
  const { task } = await sent(prefix)
  expect(task.status.state).toBe('TASK_STATE_COMPLETED')
  expect(task.artifacts.map(({ parts }: Answer) => parts)).toEqual([[part]])
})

/** Of a streaming send: its states, and the parts of its artifact updates. */
const streamed = async (prefix: string) => {
  const message = { messageId: idOf(prefix), role: 'ROLE_USER', parts: [{ text: 'x' }] }
  const frames = await (await a2a.stream('SendStreamingMessage', { message })).rest()
  const updates = resultsOf(frames).flatMap(({ artifactUpdate }) => artifactUpdate ?? [])
  return { states: statesOf(frames), updates }
}

test.each([
  ['tck-stream-001', [[{ text: 'Stream hello from TCK' }]]],
  ['tck-stream-002', []],
  ['tck-stream-003', [[{ text: 'Stream task lifecycle' }]]],
  ['tck-stream-ordering-001', [[{ text: 'Ordered output' }]]],
  ['tck-stream-artifact-text', [[{ text: 'Streamed text content' }]]],
  ['tck-stream-artifact-file', [[RAW]]],
  ['tck-stream-artifact-chunked', [[{ text: 'chunk-1 ' }], [{ text: 'chunk-2' }]]],
])('%s works, streams and completes', async (prefix, parts) => {
  const { states, updates } = await streamed(prefix)
  expect(states.slice(-2)).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'])
  expect(updates.map(({ artifact }) => artifact.parts)).toEqual(parts)
  expect(updates.at(-1)?.lastChunk).toBe(parts.length > 0 ? true : undefined)
})

test('several artifacts are streamed one after the other', async () => {
  const { updates } = await streamed('tck-stream-artifact-several')
  expect(
    updates.map(({ artifact, append, lastChunk }) => [artifact.artifactId, append, lastChunk]),
  ).toEqual([
    ['output-1', undefined, undefined],
    ['output-1', true, true],
    ['output-2', undefined, true],
    ['output-3', undefined, true],
  ])
})

test('the message of a follow-up decides, not the first one, again and again', async () => {
  const { task } = await sent('tck-input-required')
  const more = { taskId: task.id }
  expect(await stateAfter('tck-input-required', more)).toBe('TASK_STATE_INPUT_REQUIRED')
  expect(await stateAfter('tck-auth-required', more)).toBe('TASK_STATE_AUTH_REQUIRED')
  expect(await stateAfter('of-the-kit-for-0.3', more)).toBe('TASK_STATE_INPUT_REQUIRED')
  const done = (await sent('tck-artifact-text', more)).task
  expect(done.status.state).toBe('TASK_STATE_COMPLETED')
  expect(done.artifacts).toHaveLength(1)
})

test('tasks left open take no slot, and a cancel of one answers at once', async () => {
  const open = await Promise.all(Array.from({ length: 40 }, () => sent('tck-input-required')))
  expect(await stateAfter('tck-complete-task')).toBe('TASK_STATE_COMPLETED')
  const { result } = await a2a.call('CancelTask', { id: open[0].task.id })
  expect(result.status.state).toBe('TASK_STATE_CANCELED')
})

test('it works until it is canceled', async () => {
  const task = await a2a.submit('x', { messageId: idOf('tck-work-until-canceled') })
  const state = async () => (await a2a.get(task.id)).status.state
  await until(async () => (await state()) === 'TASK_STATE_WORKING')
  await a2a.call('CancelTask', { id: task.id })
  expect(await state()).toBe('TASK_STATE_CANCELED')
  expect(await stateAfter('tck-complete-task')).toBe('TASK_STATE_COMPLETED')
})

test('whoever comes back to the task of the resubscription finds it at work, and sees its end', async () => {
  const task = await a2a.submit('x', { messageId: idOf('test-resubscribe-message-id') })
  await until(async () => (await a2a.get(task.id)).status.state === 'TASK_STATE_WORKING')
  const stream = await a2a.stream('SubscribeToTask', { id: task.id })
  expect((await nextOf(stream)).json.result.task.status.state).toBe('TASK_STATE_WORKING')
  expect(statesOf(await stream.rest())).toEqual(['TASK_STATE_COMPLETED'])
})
