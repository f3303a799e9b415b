// Field cases: what clients say beside a message; what agents say of an event;
// an answer that every client shows.
import { expect, test } from 'vitest'
import { createAgent } from '../../src/agent-kit/agent.ts'
import { AttemptAborted } from '../../src/agent-kit/errors.ts'
import { startApp } from '../support/app.ts'
import {
  type Answer,
  a2aClient,
  agentClient,
  type Frame,
  openStream,
  textMessage,
} from '../support/clients/actors.ts'
import { textMessage03, v03Client } from '../support/clients/old-clients.ts'
import { metric, nextOf, operate, refusalOf, resultsOf, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk')
const THEIRS = 'https://example.org/ext/tone/v1'
await operate(app, 'queues.put', {
  name: 'desk',
  card: { capabilities: { extensions: [{ uri: THEIRS }] } },
})
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const headers = { 'A2A-Extensions': `${THEIRS}, https://example.org/unknown`, traceparent: TRACE }
const acceptedOutputModes = ['text/plain', 'image/png']

const send = async (
  params: Record<string, unknown> = {},
  message = textMessage('x'),
  withHeaders: Record<string, string> = headers,
): Promise<Answer> => {
  const configuration = { returnImmediately: true, acceptedOutputModes }
  const { result, error } = await a2a.call(
    'SendMessage',
    { message, configuration, ...params },
    { headers: withHeaders },
  )
  if (error) throw new Error(JSON.stringify(error))
  return result.task
}

test('what the first send said beside its message is in the claim and in todos.show, also after a retry', async () => {
  await send({ metadata: { ticket: 7 } })
  const todo = await worker.claim()
  const said = {
    sender: client.endpoint.id,
    extensions: [THEIRS],
    configuration: { acceptedOutputModes },
    traceparent: TRACE,
  }
  expect(todo).toMatchObject({ ...said, metadata: { ticket: 7 } })
  const { messages } = await operate(app, 'todos.show', { id: todo.id })
  expect(messages[0]).toMatchObject({
    sender: client.endpoint.id,
    request: { extensions: [THEIRS], acceptedOutputModes, traceparent: TRACE },
  })
  const error = { code: 'boom', message: 'it broke' }
  await worker.call('todos.fail', { ...todo.held, error, retryable: false })
  await operate(app, 'todos.retry', { id: todo.id })
  const again = await worker.claim()
  expect(again).toMatchObject({ ...said, metadata: { ticket: 7 } })
  await worker.call('todos.complete', again.held)
})

test('a send that says nothing beside hands on nothing, and a malformed trace is as good as none', async () => {
  await send({ configuration: { returnImmediately: true } }, textMessage('x'), {
    traceparent: `${TRACE}x`,
    'A2A-Extensions': 'https://example.org/unknown',
  })
  const todo = await worker.claim()
  expect(todo).toMatchObject({ sender: client.endpoint.id, extensions: [] })
  expect(todo).not.toHaveProperty('configuration')
  expect(todo).not.toHaveProperty('traceparent')
  const { messages } = await operate(app, 'todos.show', { id: todo.id })
  expect(messages[0]).not.toHaveProperty('request')
  await worker.call('todos.complete', todo.held)
})

test('a follow-up brings its own to the holder, over any binding and version', async () => {
  await send()
  const todo = await worker.claim()
  const message = textMessage('more', { taskId: todo.id })
  await send({ metadata: { urgent: true } }, message)
  const old = v03Client(app.url, 'desk', client.token)
  await old.call(
    'message/send',
    {
      message: textMessage03('more', { taskId: todo.id }),
      configuration: { blocking: false, acceptedOutputModes },
      metadata: { urgent: false },
    },
    { headers: { 'X-A2A-Extensions': THEIRS } },
  )
  await fetch(`${app.url}/a2a/desk/message:send`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${client.token}`,
      'A2A-Version': '1.0',
      'Content-Type': 'application/json',
      traceparent: TRACE,
    },
    body: JSON.stringify({
      message: textMessage('more', { taskId: todo.id }),
      configuration: { returnImmediately: true },
    }),
  })
  const { messages } = await worker.call('todos.messages', todo.held)
  expect(messages.map(({ request }: Answer) => request)).toEqual([
    { metadata: { urgent: true }, extensions: [THEIRS], acceptedOutputModes, traceparent: TRACE },
    { metadata: { urgent: false }, extensions: [THEIRS], acceptedOutputModes },
    { traceparent: TRACE },
  ])
  expect(messages[0].sender).toBe(client.endpoint.id)
  expect((await operate(app, 'todos.show', { id: todo.id })).messages[1].request).toEqual(
    messages[0].request,
  )
  // What nobody has read is in the next claim as well.
  await worker.call('todos.release', todo.held)
  const next = await worker.claim()
  expect(next.unread.map(({ request }: Answer) => request)).toEqual(
    messages.map(({ request }: Answer) => request),
  )
  await a2a.call('CancelTask', { id: todo.id })
})

test('what came beside a credential is shown to its holder alone', async () => {
  await send()
  const todo = await worker.claim()
  await worker.call('todos.interrupt', {
    ...todo.held,
    state: 'auth-required',
    message: saying('key?'),
  })
  await send({ metadata: { key: 'hush' } }, textMessage('hush', { taskId: todo.id }))
  const { messages } = await worker.call('todos.messages', todo.held)
  expect(messages[0].request.metadata).toEqual({ key: 'hush' })
  expect(JSON.stringify(await operate(app, 'todos.show', { id: todo.id }))).not.toContain('hush')
  await a2a.call('CancelTask', { id: todo.id })
})

test('the reason of a cancel reaches the holder by its signal, and operators', async () => {
  const task = await send()
  const todo = await worker.claim()
  const signals = await openStream(`${app.url}/agent/events?ready=none`, { token: agent.token })
  const reason = 'the customer has left'
  const refused = await a2a.call('CancelTask', { id: task.id, metadata: { reason: 5 } })
  expect(refused.error).toMatchObject({ code: -32602 })
  expect(JSON.stringify(refused.error.data)).toContain('metadata.reason')
  await a2a.call('CancelTask', { id: task.id, metadata: { reason, other: 1 } })
  // What was canceled just before may be told in here, too.
  const isOurs = ({ event, json }: Frame) => event === 'canceled' && json.id === todo.id
  const [frame] = (await signals.until(isOurs)).slice(-1)
  expect(frame!.json).toEqual({ id: todo.id, fence: todo.fence, reason })
  signals.close()
  const { events } = await operate(app, 'todos.show', { id: task.id })
  expect(events.at(-1)).toMatchObject({ verb: 'cancel', detail: { text: reason } })
})

test('in the kit: the claim, a listener’s second argument, and the abort have what the client said', async () => {
  const heard: unknown[] = []
  let aborted: unknown
  const kit = createAgent({ url: app.url, token: agent.token }, async (ctx) => {
    ctx.onMessage((message, { request }) => {
      heard.push([message.parts[0]!.text, request?.metadata])
    })
    heard.push([ctx.todo.sender, ctx.todo.extensions, ctx.todo.traceparent])
    await ctx.say('working', { metadata: { step: 1 } })
    await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve))
    aborted = ctx.signal.reason
  })
  kit.start()
  // The signals are listened to before there is anything to tell.
  await until(async () => (await metric(app, 'switchboard_streams_open{kind="agent"}')) > 0)
  const task = await send()
  await until(async () => (await a2a.get(task.id)).status.message)
  await send({ metadata: { urgent: true } }, textMessage('more', { taskId: task.id }))
  await until(() => heard.length === 2)
  expect(heard).toEqual([
    [client.endpoint.id, [THEIRS], TRACE],
    ['more', { urgent: true }],
  ])
  await a2a.call('CancelTask', { id: task.id, metadata: { reason: 'enough' } })
  await until(() => aborted !== undefined)
  expect(aborted).toBeInstanceOf(AttemptAborted)
  expect(aborted).toMatchObject({ reason: 'canceled', because: 'enough' })
  await kit.stop()
})

test('an agent’s metadata of status and artifact events is in the streams of 1.0 and 0.3, and bounded', async () => {
  const task = await send()
  const todo = await worker.claim()
  const streams = [
    await a2a.stream('SubscribeToTask', { id: task.id }),
    await v03Client(app.url, 'desk', client.token).stream('tasks/resubscribe', { id: task.id }),
  ]
  for (const stream of streams) await nextOf(stream)
  const artifact = { artifactId: 'a', parts: [{ text: 'A' }], metadata: { own: true } }
  await worker.call('todos.say', { ...todo.held, message: saying('one'), metadata: { step: 1 } })
  await worker.call('todos.artifact', { ...todo.held, artifact, metadata: { step: 2 } })
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact,
    append: true,
    metadata: { step: 3 },
  })
  await worker.call('todos.progress', { ...todo.held, note: 'so', metadata: { step: 4 } })
  const beyond = { pad: 'x'.repeat(8192) }
  for (const [method, params] of [
    ['todos.say', { message: saying('x') }],
    ['todos.artifact', { artifact }],
    ['todos.progress', {}],
  ] as const) {
    const call = worker.call(method, { ...todo.held, ...params, metadata: beyond })
    const { code, data } = await refusalOf(call)
    expect([code, data.violations]).toEqual([
      -32602,
      [{ field: 'metadata', description: 'must be at most 8192 characters of JSON' }],
    ])
  }
  await worker.call('todos.complete', todo.held)
  for (const stream of streams) {
    const results = resultsOf(await stream.rest()).map(
      ({ statusUpdate, artifactUpdate, ...old }) => statusUpdate ?? artifactUpdate ?? old,
    )
    expect(results.map(({ metadata }) => metadata)).toEqual([
      { step: 1 },
      { step: 2 },
      { step: 3 },
      undefined,
    ])
    expect(results[1].artifact.metadata).toEqual({ own: true })
  }
  const { events } = await operate(app, 'todos.show', { id: task.id })
  const noted = events.find(({ verb }: Answer) => verb === 'progress')
  expect(noted.detail).toEqual({ note: 'so', metadata: { step: 4 } })
})

test('an answer of the kit is the final message and an artifact of the same parts', async () => {
  const outcomes = [
    { answer: 'forty-two' },
    {
      answer: { parts: [{ data: { n: 42 } }] },
      message: 'Here it is',
      artifacts: [{ parts: [{ text: 'log' }] }],
    },
  ]
  const kit = createAgent({ url: app.url, token: agent.token }, async () => outcomes.shift())
  kit.start()
  const ended = async () => {
    const { result } = await a2a.send('x')
    const { status, artifacts } = result.task
    return [status.message.parts, artifacts.map(({ name, parts }: Answer) => [name, parts])]
  }
  expect(await ended()).toEqual([[{ text: 'forty-two' }], [['answer', [{ text: 'forty-two' }]]]])
  expect(await ended()).toEqual([
    [{ text: 'Here it is' }],
    [
      [undefined, [{ text: 'log' }]],
      ['answer', [{ data: { n: 42 } }]],
    ],
  ])
  await kit.stop()
})
