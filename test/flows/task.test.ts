import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient, openStream, textMessage } from '../support/clients/actors.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk')
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const agentMessage = (text: string) => ({ parts: [{ text }] })

test('a task is sent, claimed, asked about, answered and completed, and everybody sees each step', async () => {
  const board = await openStream(`${app.url}/board/events?after=0&queue=desk`, {
    token: ADMIN_TOKEN,
  })
  const sent = a2a.send('a table, please')
  const todo = await worker.claim()
  expect(todo.message.parts).toEqual([{ text: 'a table, please' }])

  const follower = await a2a.stream('SubscribeToTask', { id: todo.id })
  const asked = await worker.call('todos.interrupt', {
    ...todo.held,
    state: 'input-required',
    message: agentMessage('For when?'),
  })
  expect(asked).toMatchObject({ state: 'input-required', fence: todo.fence })
  expect(Date.parse(asked.deadline) - Date.parse(asked.interruptedAt)).toBe(86_400_000)

  const waiting = (await sent).result.task
  expect(waiting.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
  expect(waiting.status.message.parts).toEqual([{ text: 'For when?' }])

  const answered = a2a.send('Friday', { taskId: todo.id })
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  expect(messages.map((owed: { message: { parts: unknown } }) => owed.message.parts)).toEqual([
    [{ text: 'Friday' }],
  ])
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId: 'booking', parts: [{ text: 'Booked' }] },
    lastChunk: true,
  })
  await worker.call('todos.complete', {
    ...todo.held,
    message: agentMessage('See you on Friday'),
    acknowledge: messages[0].seq,
  })

  const done = (await answered).result.task
  expect(done.status).toMatchObject({
    state: 'TASK_STATE_COMPLETED',
    message: { parts: [{ text: 'See you on Friday' }] },
  })
  expect(done.metadata).toEqual({
    'urn:switchboard:receipt': {
      messageId: messages[0].message.messageId,
      seq: messages[0].seq,
      outcome: 'resumed',
      answers: 3,
    },
  })
  expect(done.artifacts).toEqual([{ artifactId: 'booking', parts: [{ text: 'Booked' }] }])
  expect(done.history.map((m: { parts: unknown }) => m.parts)).toEqual([
    [{ text: 'a table, please' }],
    [{ text: 'For when?' }],
    [{ text: 'Friday' }],
  ])

  const frames = (await follower.rest()).map(({ json }) => json.result)
  expect(frames.map((result) => Object.keys(result)[0])).toEqual([
    'task',
    'statusUpdate',
    'statusUpdate',
    'artifactUpdate',
    'statusUpdate',
  ])
  expect(frames.flatMap((result) => result.statusUpdate?.status.state ?? [])).toEqual([
    'TASK_STATE_INPUT_REQUIRED',
    'TASK_STATE_WORKING',
    'TASK_STATE_COMPLETED',
  ])

  const seen = await board.until(({ json }) => json.to === 'done')
  board.close()
  expect(
    seen.map(({ event, json }) => (event === 'ready' ? `ready ${json.reason}` : json.verb)),
  ).toEqual(['send', 'ready created', 'claim', 'interrupt', 'resume', 'complete'])
})

test('a blocking send returns on one node when the agent finished on another', async () => {
  const other = await startNode(app.databaseUrl)
  try {
    const sent = a2a.send('across nodes')
    const elsewhere = agentClient(other.url, agent.token)
    const todo = await elsewhere.claim()
    await elsewhere.call('todos.complete', { ...todo.held, message: agentMessage('done') })
    expect((await sent).result.task.status.state).toBe('TASK_STATE_COMPLETED')
  } finally {
    await other.stop()
  }
})

test('a send that does not want to wait returns the new task, which can be read at once', async () => {
  const task = await a2a.submit('later')
  expect(task.status.state).toBe('TASK_STATE_SUBMITTED')
  expect((await a2a.get(task.id)).id).toBe(task.id)
  const todo = await worker.claim()
  await worker.call('todos.complete', { ...todo.held, direct: true, message: agentMessage('bare') })
})

test('a blocking send is answered with the bare message when the agent asks for that', async () => {
  const sent = a2a.call('SendMessage', { message: textMessage('direct') })
  const todo = await worker.claim()
  await worker.call('todos.complete', { ...todo.held, direct: true, message: agentMessage('bare') })
  expect((await sent).result.message).toMatchObject({
    role: 'ROLE_AGENT',
    taskId: todo.id,
    contextId: todo.contextId,
    parts: [{ text: 'bare' }],
  })
})
