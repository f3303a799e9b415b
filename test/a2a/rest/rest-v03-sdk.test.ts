// The SDKs' own clients of 0.3 over HTTP+JSON: that of SDK 0.3, and the one that SDK 1.x keeps for it.
import type { AgentCard as AgentCard10 } from '@a2a-js/sdk'
import { TaskState } from '@a2a-js/sdk'
import { RestTransportFactory as NewFactory } from '@a2a-js/sdk/client'
import type { Message } from 'a2a-sdk-0.3'
import { RestTransport } from 'a2a-sdk-0.3/client'
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import { agentClient } from '../../support/clients/actors.ts'
import { fetchAs, request as request10 } from '../../support/clients/sdk.ts'
import { message, taskOf } from '../../support/clients/sdk03.ts'
import { ask, ODD_TEXT, saying, UNKNOWN_ID } from '../../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const worker = agentClient(app.url, agent.token)

const fetchImpl = fetchAs(client.token)
const sdk = new RestTransport({ endpoint: `${app.url}/a2a/desk`, fetchImpl })

const wordsOf = (said: Message | undefined) =>
  said?.parts.map((part) => part.kind === 'text' && part.text)

test('a send waits for its task, words unharmed, with its artifacts', async () => {
  const sent = sdk.sendMessage({
    message: message(ODD_TEXT, {
      parts: [
        { kind: 'text', text: ODD_TEXT },
        { kind: 'file', file: { bytes: 'aGk=', mimeType: 'text/plain' } },
        { kind: 'data', data: { n: 1 } },
      ],
    }),
    configuration: { blocking: true },
  })
  const todo = await worker.claim()
  expect(todo.message.parts).toEqual([
    { text: ODD_TEXT },
    { raw: 'aGk=', mediaType: 'text/plain' },
    { data: { n: 1 } },
  ])
  await worker.call('todos.complete', {
    ...todo.held,
    message: saying(ODD_TEXT),
    artifacts: [{ artifactId: 'a', parts: todo.message.parts }],
  })
  const task = taskOf(await sent)
  expect(task).toMatchObject({ id: todo.id, status: { state: 'completed' } })
  expect(wordsOf(task.status.message)).toEqual([ODD_TEXT])
  expect(task.artifacts?.[0]?.parts).toEqual([
    { kind: 'text', text: ODD_TEXT },
    { kind: 'file', file: { bytes: 'aGk=', mimeType: 'text/plain' } },
    { kind: 'data', data: { n: 1 } },
  ])
  expect(await sdk.getTask({ id: todo.id })).toEqual(task)
})

test('a send that does not wait says so by leaving the flag out', async () => {
  const task = taskOf(
    await sdk.sendMessage({ message: message('x'), configuration: { blocking: false } }),
  )
  expect(task.status.state).toBe('submitted')
  expect((await sdk.cancelTask({ id: task.id })).status.state).toBe('canceled')
})

test('a bare message of the agent is one, and a question is answered', async () => {
  const sent = sdk.sendMessage({ message: message('x') })
  const todo = await worker.claim()
  await ask(worker, todo, 'which?')
  const waiting = taskOf(await sent)
  expect(waiting.status.state).toBe('input-required')
  const answered = sdk.sendMessage({ message: message('this', { taskId: waiting.id }) })
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await worker.call('todos.complete', {
    ...todo.held,
    acknowledge: messages[0].seq,
    direct: true,
    message: saying('bare'),
  })
  const result = await answered
  expect(result.kind === 'message' && wordsOf(result)).toEqual(['bare'])
  expect((await sdk.getTask({ id: waiting.id })).history?.map(wordsOf)).toEqual([
    ['x'],
    ['which?'],
    ['this'],
  ])
})

test('a stream shows task, work, artifact and end; a task that has ended can be looked at again', async () => {
  const stream = sdk.sendMessageStream({ message: message('x') })
  const first = await stream.next()
  expect(first.value?.kind).toBe('task')
  const todo = await worker.claim()
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId: 'a', parts: [{ text: 'A' }] },
  })
  const again = sdk.resubscribeTask({ id: todo.id })
  expect((await again.next()).value).toMatchObject({ kind: 'task', status: { state: 'working' } })
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const rest = []
  for await (const event of stream) rest.push(event)
  expect(rest).toMatchObject([
    { kind: 'status-update', status: { state: 'working' }, final: false },
    { kind: 'artifact-update', artifact: { parts: [{ kind: 'text', text: 'A' }] } },
    { kind: 'status-update', status: { state: 'completed' }, final: true },
  ])
  expect((await again.next()).value).toMatchObject({ kind: 'status-update', final: true })
  expect((await again.next()).done).toBe(true)
  const over = []
  for await (const event of sdk.resubscribeTask({ id: todo.id })) over.push(event)
  expect(over).toMatchObject([{ kind: 'task', status: { state: 'completed' } }])
})

test('errors are the ones that they are', async () => {
  await expect(sdk.getTask({ id: UNKNOWN_ID })).rejects.toMatchObject({ name: 'TaskNotFoundError' })
  await expect(sdk.resubscribeTask({ id: UNKNOWN_ID }).next()).rejects.toMatchObject({
    name: 'TaskNotFoundError',
  })
  await expect(sdk.sendMessage({ message: message('x', { parts: [] }) })).rejects.toThrow(/-32602/)
  const pushNotificationConfig = { id: 'c', url: 'https://example.com/' }
  await expect(
    sdk.setTaskPushNotificationConfig({ taskId: UNKNOWN_ID, pushNotificationConfig }),
  ).rejects.toMatchObject({ name: 'TaskNotFoundError' })
})

test('the extended card is read, its security scheme too', async () => {
  await app.services.operator.putQueue({
    name: 'famous',
    card: { capabilities: { extendedAgentCard: true }, extended: { description: 'for friends' } },
  })
  const { token } = await app.vend(['send'], ['famous'])
  const famous = new RestTransport({
    endpoint: `${app.url}/a2a/famous`,
    fetchImpl: fetchAs(token),
  })
  const card = await famous.getExtendedAgentCard()
  expect(card).toMatchObject({
    description: 'for friends',
    protocolVersion: '0.3.0',
    supportsAuthenticatedExtendedCard: true,
    securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
  })
})

test('the client that SDK 1.x keeps for 0.3 sends, reads and follows', async () => {
  const url = `${app.url}/a2a/desk/`
  const card = {
    supportedInterfaces: [
      { url, protocolBinding: 'HTTP+JSON', protocolVersion: '0.3', tenant: '' },
    ],
  } as unknown as AgentCard10
  const transport = await new NewFactory({
    fetchImpl,
    legacyCompat: { enabled: true },
  }).create(url, card)
  expect(transport.protocolVersion).toMatch(/^0\.3/)
  const sent = await transport.sendMessage(request10('x', {}, true))
  if (!('status' in sent)) throw new Error(JSON.stringify(sent))
  const todo = await worker.claim()
  expect(todo.id).toBe(sent.id)
  const events = transport.resubscribeTask({ tenant: '', id: sent.id })
  expect((await events.next()).value?.payload?.$case).toBe('task')
  await worker.call('todos.complete', todo.held)
  const last = (await events.next()).value?.payload
  expect(last?.$case === 'statusUpdate' && last.value.status?.state).toBe(
    TaskState.TASK_STATE_COMPLETED,
  )
  expect((await transport.getTask({ tenant: '', id: sent.id })).status?.state).toBe(
    TaskState.TASK_STATE_COMPLETED,
  )
})
