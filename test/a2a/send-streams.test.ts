// Field cases: a send’s stream ends at the question; reconnecting posts go on.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import {
  a2aClient,
  agentClient,
  openStream,
  resumeAfter,
  textMessage,
} from '../support/clients/actors.ts'
import { textMessage03, v01Client, v03Client } from '../support/clients/old-clients.ts'
import { ask, nextOf, resultsOf, rowCounts, saying, statesOf } from '../support/steps.ts'

const app = await startApp({ pollMs: 60_000 })
const { client, agent } = await app.queue('desk')
const other = await app.vend(['send'], ['desk'])
const a2a = a2aClient(app.url, 'desk', client.token)
const v03 = v03Client(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

type Message = ReturnType<typeof textMessage> & { taskId?: string }

const send = (message: Message, lastEventId?: string, side = a2a) =>
  side.stream(
    'SendStreamingMessage',
    { message },
    lastEventId === undefined ? {} : { headers: { 'Last-Event-ID': lastEventId } },
  )
const answered = async (held: object) =>
  (await worker.call('todos.messages', { ...held, waitMs: 25_000 })).messages.at(-1).seq

test('a stream of a send ends after the event that asks for input; the answer’s own goes on to the end', async () => {
  const stream = await send(textMessage('x'))
  const todo = await worker.claim()
  const follower = await a2a.stream('SubscribeToTask', { id: todo.id })
  await ask(worker, todo, 'which?')
  const frames = await stream.rest()
  expect(statesOf(frames)).toEqual([
    'TASK_STATE_SUBMITTED',
    'TASK_STATE_WORKING',
    'TASK_STATE_INPUT_REQUIRED',
  ])
  expect(resultsOf(frames).at(-1).statusUpdate.status.message.parts).toEqual([{ text: 'which?' }])

  const answer = await send(textMessage('this', { taskId: todo.id }))
  await nextOf(answer)
  const acknowledge = await answered(todo.held)
  await worker.call('todos.complete', { ...todo.held, acknowledge })
  expect(statesOf(await answer.rest()).at(-1)).toBe('TASK_STATE_COMPLETED')
  expect(statesOf(await follower.rest()).slice(-3)).toEqual([
    'TASK_STATE_INPUT_REQUIRED',
    'TASK_STATE_WORKING',
    'TASK_STATE_COMPLETED',
  ])
})

test('a stream of a send stays open while authorization is required', async () => {
  const stream = await send(textMessage('x'))
  const todo = await worker.claim()
  await ask(worker, todo, 'may I?', { state: 'auth-required' })
  await stream.until(
    ({ json }) => json.result.statusUpdate?.status.state === 'TASK_STATE_AUTH_REQUIRED',
  )
  await a2a.submit('yes', { taskId: todo.id })
  const acknowledge = await answered(todo.held)
  await worker.call('todos.complete', { ...todo.held, acknowledge })
  expect(statesOf(await stream.rest())).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'])
})

test('a follow-up whose answer waits its turn opens with the question and goes on', async () => {
  await a2a.submit('x', { contextId: 'busy' })
  const first = await worker.claim()
  await ask(worker, first, 'which?')
  await a2a.submit('second', { contextId: 'busy' })
  const second = await worker.claim()
  const stream = await send(textMessage('this', { taskId: first.id }))
  const { task } = (await nextOf(stream)).json.result
  expect(task.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
  expect(task.metadata['urn:switchboard:receipt'].outcome).toBe('deferred')
  await worker.call('todos.complete', second.held)
  const acknowledge = await answered(first.held)
  await worker.call('todos.complete', { ...first.held, acknowledge })
  expect(statesOf(await stream.rest())).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'])
})

test('a send that repeats one whose task asks meanwhile shows the question and ends', async () => {
  const message = textMessage('x')
  const headers = { 'Idempotency-Key': 'once' }
  await a2a.call(
    'SendMessage',
    { message, configuration: { returnImmediately: true } },
    { headers },
  )
  const todo = await worker.claim()
  await ask(worker, todo, 'which?')
  const again = await a2a.stream('SendStreamingMessage', { message }, { headers })
  expect(statesOf(await again.rest())).toEqual(['TASK_STATE_INPUT_REQUIRED'])
  await a2a.call('CancelTask', { id: todo.id })
})

test('the same send with the id of its stream’s event goes on after it and makes no task', async () => {
  const message = textMessage('x')
  const stream = await send(message)
  const todo = await worker.claim()
  await stream.until(({ json }) => json.result.statusUpdate !== undefined)
  for (const text of ['n1', 'n2'])
    await worker.call('todos.say', { ...todo.held, message: saying(text) })
  const { id, json } = await nextOf(stream)
  expect(json.result.statusUpdate.status.message.parts).toEqual([{ text: 'n1' }])
  stream.close()

  const before = await rowCounts(app)
  const again = await send(message, id)
  expect((await nextOf(again)).json.result.statusUpdate.status.message.parts).toEqual([
    { text: 'n2' },
  ])
  // The id fits a subscription, too, and a number does as before.
  for (const lastEventId of [id!, id!.split(':')[1]!]) {
    const headers = resumeAfter(lastEventId)
    const follower = await a2a.stream('SubscribeToTask', { id: todo.id }, { headers })
    expect((await nextOf(follower)).json.result.statusUpdate.status.message.parts).toEqual([
      { text: 'n2' },
    ])
    follower.close()
  }
  expect(await rowCounts(app)).toEqual(before)
  await ask(worker, todo, 'which?')
  const last = (await again.rest()).at(-1)!
  expect(statesOf([last])).toEqual(['TASK_STATE_INPUT_REQUIRED'])
  // Who saw the question and reconnects hears nothing new, and is not kept waiting.
  expect(await (await send(message, last.id)).rest()).toEqual([])
  await a2a.call('CancelTask', { id: todo.id })
  expect(statesOf(await (await send(message, last.id)).rest())).toEqual(['TASK_STATE_CANCELED'])
})

test('a follow-up’s stream goes on by either id', async () => {
  const task = await a2a.submit('x')
  const todo = await worker.claim()
  const message = textMessage('and this', { taskId: task.id })
  const stream = await send(message)
  const { id } = await nextOf(stream)
  stream.close()
  const resumed = await Promise.all([id!, id!.split(':')[1]!].map((each) => send(message, each)))
  const acknowledge = await answered(todo.held)
  await worker.call('todos.complete', { ...todo.held, acknowledge })
  for (const each of resumed) expect(statesOf(await each.rest())).toEqual(['TASK_STATE_COMPLETED'])
})

test('an id that is unknown, foreign or of another message is refused by name and makes nothing', async () => {
  const message = textMessage('x')
  const stream = await send(message)
  const { id } = await nextOf(stream)
  stream.close()
  const [taskId] = id!.split(':')
  const before = await rowCounts(app)
  const refused = [
    await send(message, '3'),
    await send(message, 'never'),
    await send(message, `${taskId}:99`),
    await send(message, '11111111-1111-4111-8111-111111111111:1'),
    await send(textMessage('x'), id),
    await send({ ...message, parts: [{ text: 'y' }] }, id),
    await send({ ...message, taskId: '11111111-1111-4111-8111-111111111111' }, id),
    await send(message, id, a2aClient(app.url, 'desk', other.token)),
  ]
  for (const { headers, body } of refused) {
    expect(headers.get('content-type')).toMatch(/^application\/json/)
    expect(body.error.code).toBe(-32602)
    expect(JSON.stringify(body.error.data)).toContain('Last-Event-ID')
  }
  expect(await rowCounts(app)).toEqual(before)
  await a2a.call('CancelTask', { id: taskId })
})

test('over HTTP+JSON, in 0.3 and in 0.1 the same send goes on as well', async () => {
  const message = textMessage('x')
  const post = (headers = {}) =>
    openStream(`${app.url}/a2a/desk/message:stream`, {
      method: 'POST',
      body: JSON.stringify({ message }),
      token: client.token,
      headers: { 'A2A-Version': '1.0', 'Content-Type': 'application/json', ...headers },
    })
  const old = textMessage03('x')
  const v01 = v01Client(app.url, 'desk', client.token)
  const open = {
    rest: post,
    '0.3': (headers = {}) => v03.stream('message/stream', { message: old }, { headers }),
    '0.1': (headers = {}) =>
      v01.stream('tasks/sendSubscribe', v01.params('mine', 'x'), { headers }),
  }
  for (const stream of Object.values(open)) {
    const first = await stream()
    const { id } = await nextOf(first)
    first.close()
    const before = await rowCounts(app)
    const again = await stream({ 'Last-Event-ID': id! })
    expect((await stream({ 'Last-Event-ID': '3' })).body).toMatchObject({ error: {} })
    expect(await rowCounts(app)).toEqual(before)
    const todo = await worker.claim()
    await worker.call('todos.complete', todo.held)
    const words = (await again.rest()).map(({ json }) => JSON.stringify(json))
    expect(words).toHaveLength(2)
    expect(words[1]).toMatch(/COMPLETED|completed/)
  }
})
