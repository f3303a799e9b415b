// The protocol's own JavaScript client of the 0.3 generation against a real server.
import { A2AClient, ClientFactory, ClientFactoryOptions } from 'a2a-sdk-0.3/client'
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import { agentClient } from '../../support/clients/actors.ts'
import { fetchAs } from '../../support/clients/sdk.ts'
import {
  card03,
  connect03,
  message,
  taskOf,
  textOf,
  transport03,
} from '../../support/clients/sdk03.ts'
import { ask, ODD_TEXT, operate, saying, UNKNOWN_ID } from '../../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const worker = agentClient(app.url, agent.token)

const card = card03(`${app.url}/a2a/desk/`)
const sdk = await connect03(client.token, card)

test('a blocking send returns the completed task with artifact and words unharmed', async () => {
  const sent = sdk.sendMessage({ message: message(ODD_TEXT) })
  const todo = await worker.claim()
  expect(todo.message.parts[0].text).toBe(ODD_TEXT)
  await worker.call('todos.complete', {
    ...todo.held,
    message: saying(ODD_TEXT),
    artifacts: [{ artifactId: 'a', parts: [{ text: ODD_TEXT }, { data: { n: 1 } }] }],
  })
  const task = taskOf(await sent)
  expect(task.status.state).toBe('completed')
  expect(textOf(task.status.message)).toBe(ODD_TEXT)
  expect(task.artifacts?.[0]?.parts).toEqual([
    { kind: 'text', text: ODD_TEXT },
    { kind: 'data', data: { n: 1 } },
  ])
  expect(await sdk.getTask({ id: task.id })).toEqual(task)
})

test('a bare message of the agent is a message', async () => {
  const sent = sdk.sendMessage({ message: message('x') })
  const todo = await worker.claim()
  await worker.call('todos.complete', { ...todo.held, direct: true, message: saying('bare') })
  const result = await sent
  expect(result.kind === 'message' && textOf(result)).toBe('bare')
})

test('a question is answered under the same task, which then goes on to its end', async () => {
  const sent = sdk.sendMessage({ message: message('x') })
  const todo = await worker.claim()
  await ask(worker, todo, 'which?')
  const waiting = taskOf(await sent)
  expect(waiting.status.state).toBe('input-required')
  expect(textOf(waiting.status.message)).toBe('which?')
  const { id: taskId, contextId } = waiting
  const answered = sdk.sendMessage({ message: message('this', { taskId, contextId }) })
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
  const done = taskOf(await answered)
  expect(done.id).toBe(waiting.id)
  expect(done.status.state).toBe('completed')
  expect(done.history?.map(textOf)).toEqual(['x', 'which?', 'this'])
})

test('a stream of a send shows task, work, artifact and end, and stops at a question', async () => {
  const stream = sdk.sendMessageStream({ message: message('x') })
  const first = await stream.next()
  expect(first.value?.kind).toBe('task')
  const todo = await worker.claim()
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId: 'a', parts: [{ text: 'A' }] },
  })
  await ask(worker, todo, 'which?')
  const asked: unknown[] = []
  for await (const event of stream) {
    asked.push(event.kind === 'status-update' ? [event.status.state, event.final] : event.kind)
  }
  expect(asked).toEqual([['working', false], 'artifact-update', ['input-required', true]])

  const answer = sdk.sendMessageStream({ message: message('this', { taskId: todo.id }) })
  await answer.next()
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
  const rest: unknown[] = []
  for await (const event of answer) rest.push(event)
  expect(rest.at(-1)).toMatchObject({
    kind: 'status-update',
    status: { state: 'completed' },
    final: true,
  })
})

test('a stream given up and resubscribed goes on with the task as it is and the events to come', async () => {
  const hangUp = new AbortController()
  const stream = sdk.sendMessageStream({ message: message('x') }, { signal: hangUp.signal })
  const first = await stream.next()
  const id = first.value?.kind === 'task' ? first.value.id : ''
  hangUp.abort()
  await stream.next().catch(() => {})
  const todo = await worker.claim()
  expect(todo.id).toBe(id)
  const again = sdk.resubscribeTask({ id })
  expect((await again.next()).value).toMatchObject({ kind: 'task', status: { state: 'working' } })
  await worker.call('todos.complete', todo.held)
  const events: unknown[] = []
  for await (const event of again) events.push(event)
  expect(events).toMatchObject([{ status: { state: 'completed' }, final: true }])
  const ended: unknown[] = []
  for await (const event of sdk.resubscribeTask({ id })) ended.push(event)
  expect(ended).toEqual([await sdk.getTask({ id })])
  await expect(sdk.resubscribeTask({ id: UNKNOWN_ID }).next()).rejects.toThrow('Task not found')
})

test('a task is canceled, and what is not there is told as the error it is', async () => {
  const sent = await sdk.sendMessage({
    message: message('x'),
    configuration: { blocking: false, acceptedOutputModes: [] },
  })
  const { id, status } = taskOf(sent)
  expect(status.state).toBe('submitted')
  const canceled = await sdk.cancelTask({ id })
  expect(canceled).toMatchObject({ id, status: { state: 'canceled' } })
  await expect(sdk.getTask({ id: UNKNOWN_ID })).rejects.toMatchObject({ name: 'TaskNotFoundError' })
  const done = sdk.sendMessage({ message: message('x') })
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  await expect(sdk.cancelTask({ id: taskOf(await done).id })).rejects.toMatchObject({
    name: 'TaskNotCancelableError',
  })
})

test('the extended card is one that this client understands', async () => {
  await operate(app, 'queues.put', {
    name: 'desk',
    card: { capabilities: { extendedAgentCard: true }, extended: { name: 'More' } },
  })
  const transport = transport03(client.token)
  const extended = await (await transport.create(card.url, card)).getExtendedAgentCard()
  expect(extended).toMatchObject({ name: 'More', url: card.url, protocolVersion: '0.3.0' })
  const next = await new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports: [transport] }),
  ).createFromAgentCard(extended)
  await expect(next.getTask({ id: UNKNOWN_ID })).rejects.toMatchObject({
    name: 'TaskNotFoundError',
  })
})

test('the client before that one sends, streams and cancels as well', async () => {
  const older = new A2AClient(card, { fetchImpl: fetchAs(client.token) })
  const sent = older.sendMessage({ message: message('x') })
  const todo = await worker.claim()
  await ask(worker, todo, 'which?')
  expect(await sent).toMatchObject({
    result: { kind: 'task', status: { state: 'input-required' } },
  })
  expect(await older.cancelTask({ id: todo.id })).toMatchObject({
    result: { status: { state: 'canceled' } },
  })
  const kinds: string[] = []
  for await (const event of older.resubscribeTask({ id: todo.id })) kinds.push(event.kind)
  expect(kinds).toEqual(['task'])
})

test('a client without a good token is turned away', async () => {
  const nobody = await connect03('swb_nobody', card)
  await expect(nobody.sendMessage({ message: message('x') })).rejects.toThrow()
})
