// Field cases: one task in two dialects; text survives every path; history accumulates;
// timestamps from one clock; blocking sends; messages while working.
import { expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { ask, nextOf, ODD_TEXT, operate, resultsOf, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ pollMs: 60_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

test('an answer of 1.0 has a task in a wrapper when sent, bare when read, and no word of another version', async () => {
  const answer = await a2a.send('hello', {}, { returnImmediately: true })
  const { task } = answer.result
  expect(Object.keys(answer.result)).toEqual(['task'])
  const todo = await worker.claim()
  await worker.call('todos.complete', {
    ...todo.held,
    message: saying('bye'),
    artifacts: [{ artifactId: 'a', parts: [{ text: 'x' }] }],
  })
  const read = (await a2a.call('GetTask', { id: task.id })).result
  const { tasks } = (await a2a.call('ListTasks', { includeArtifacts: true })).result
  expect(tasks.find(({ id }: Answer) => id === task.id)).toEqual(read)
  expect(read).toMatchObject({
    id: task.id,
    contextId: task.contextId,
    status: { state: 'TASK_STATE_COMPLETED', message: { role: 'ROLE_AGENT' } },
    history: [{ role: 'ROLE_USER', taskId: task.id, contextId: task.contextId }],
  })
  expect(read.status.timestamp).toMatch(TIMESTAMP)
  expect(JSON.stringify([answer, read])).not.toMatch(/"kind"|"final"|_id"|"agent"|"user"/)
})

test('a text is the same to the character wherever it comes out, from the client and from the agent', async () => {
  const sent = a2a.send(ODD_TEXT, { metadata: { [ODD_TEXT]: ODD_TEXT } })
  const todo = await worker.claim()
  expect(todo.message.parts).toEqual([{ text: ODD_TEXT }])
  expect(todo.message.metadata).toEqual({ [ODD_TEXT]: ODD_TEXT })
  const follower = await a2a.stream('SubscribeToTask', { id: todo.id })
  expect(follower.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  const first = await nextOf(follower)
  expect(first.json.result.task.history[0].parts).toEqual([{ text: ODD_TEXT }])
  await worker.call('todos.say', { ...todo.held, message: saying(ODD_TEXT) })
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact: {
      artifactId: ODD_TEXT,
      name: ODD_TEXT,
      parts: [{ text: ODD_TEXT }, { data: { [ODD_TEXT]: [ODD_TEXT, null, 1.5] } }],
    },
  })
  await worker.call('todos.complete', { ...todo.held, message: saying(ODD_TEXT) })

  const artifact = {
    artifactId: ODD_TEXT,
    name: ODD_TEXT,
    parts: [{ text: ODD_TEXT }, { data: { [ODD_TEXT]: [ODD_TEXT, null, 1.5] } }],
  }
  const { tasks } = (await a2a.call('ListTasks', { includeArtifacts: true })).result
  const listed = tasks.find(({ id }: Answer) => id === todo.id)
  for (const task of [(await sent).result.task, await a2a.get(todo.id), listed]) {
    expect(task.history.map(({ parts }: Answer) => parts)).toEqual([
      [{ text: ODD_TEXT }],
      [{ text: ODD_TEXT }],
    ])
    expect(task.history[0].metadata).toEqual({ [ODD_TEXT]: ODD_TEXT })
    expect(task.status.message.parts).toEqual([{ text: ODD_TEXT }])
    expect(task.artifacts).toEqual([artifact])
  }
  const [said, made, done] = resultsOf(await follower.rest())
  expect(said.statusUpdate.status.message.parts).toEqual([{ text: ODD_TEXT }])
  expect(made.artifactUpdate.artifact).toEqual(artifact)
  expect(done.statusUpdate.status.message.parts).toEqual([{ text: ODD_TEXT }])
  const shown = await operate(app, 'todos.show', { id: todo.id })
  expect(shown.artifacts).toEqual([artifact])
  expect(shown.history.map(({ parts }: Answer) => parts[0].text)).toEqual([
    ODD_TEXT,
    ODD_TEXT,
    ODD_TEXT,
  ])
})

test('every kind of content comes out as it went in', async () => {
  const parts = [
    { text: '' },
    { raw: 'aGk=', filename: 'a.txt', mediaType: 'text/plain' },
    { url: 'https://f.example.org/a.png', mediaType: 'image/png' },
    { data: null },
    { data: { total: 12.5, nested: [[], {}, false, 0, ''] }, metadata: { a: null } },
    { data: 1e21 },
  ]
  const task = await a2a.submit('x', { parts })
  expect(task.history[0].parts).toEqual(parts)
  const todo = await worker.claim()
  expect(todo.message.parts).toEqual(parts)
  await worker.call('todos.complete', { ...todo.held, artifacts: [{ artifactId: 'a', parts }] })
  const done = await a2a.get(task.id)
  expect(done.history[0].parts).toEqual(parts)
  expect(done.artifacts[0].parts).toEqual(parts)
})

test('three turns leave five messages in order, each once, with the ids of the task; the last word is the status; also after a restart', async () => {
  const task = await a2a.submit('u1')
  const todo = await worker.claim()
  for (const turn of [1, 2]) {
    await ask(worker, todo, `a${turn}`)
    await a2a.submit(`u${turn + 1}`, { taskId: task.id })
  }
  const { messages } = await worker.call('todos.messages', todo.held)
  const acknowledge = messages.at(-1).seq
  await worker.call('todos.complete', { ...todo.held, message: saying('a3'), acknowledge })

  const done = await a2a.get(task.id)
  const texts = (task: Answer) => task.history.map(({ parts }: Answer) => parts[0].text)
  expect(texts(done)).toEqual(['u1', 'a1', 'u2', 'a2', 'u3'])
  expect(done.status.message.parts).toEqual([{ text: 'a3' }])
  const all = [...done.history, done.status.message]
  expect(new Set(all.map(({ messageId }: Answer) => messageId)).size).toBe(6)
  for (const message of all) {
    expect(message).toMatchObject({ taskId: task.id, contextId: task.contextId })
  }
  const other = await startNode(app.databaseUrl)
  try {
    expect(await a2aClient(other.url, 'desk', client.token).get(task.id)).toEqual(done)
  } finally {
    await other.stop()
  }
})

test('timestamps come from the database, never step back and agree over all nodes', async () => {
  const other = await startNode(app.databaseUrl)
  const now = async () => (await app.sql<{ at: Date }>('select clock_timestamp() as at'))[0]!.at
  const elsewhere = agentClient(other.url, agent.token)
  const began = await now()
  const task = await a2a.submit('x')
  const stream = await a2a.stream('SubscribeToTask', { id: task.id })
  const todo = await elsewhere.claim()
  await ask(worker, todo, 'which?')
  await a2aClient(other.url, 'desk', client.token).submit('this', { taskId: task.id })
  const { messages } = await elsewhere.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
  const stamps = resultsOf(await stream.rest()).map(
    (result) => (result.task ?? result.statusUpdate).status.timestamp,
  )
  const ended = await now()
  await other.stop()
  expect(stamps).toHaveLength(5)
  for (const stamp of stamps) expect(stamp).toMatch(TIMESTAMP)
  expect(stamps).toEqual(stamps.toSorted())
  expect(Date.parse(stamps[0])).toBeGreaterThanOrEqual(began.getTime() - 50)
  expect(Date.parse(stamps.at(-1))).toBeLessThanOrEqual(ended.getTime() + 50)
})

test('a blocking send always returns the end and the artifact, however fast the agent was', async () => {
  const RUNS = 120
  let left = RUNS
  const agents = Array.from({ length: 4 }, async () => {
    while (left > 0) {
      const { todos } = await worker.call('todos.claim', { waitMs: 200 })
      for (const { id, fence } of todos) {
        left -= 1
        const artifacts = [{ artifactId: 'a', parts: [{ text: id }] }]
        await worker.call('todos.complete', { id, fence, artifacts })
      }
    }
  })
  const senders = Array.from({ length: 8 }, async () => {
    for (let run = 0; run < RUNS / 8; run += 1) {
      const { task } = (await a2a.send(`run ${run}`)).result
      expect(task.status.state).toBe('TASK_STATE_COMPLETED')
      expect(task.artifacts).toEqual([{ artifactId: 'a', parts: [{ text: task.id }] }])
    }
  })
  await Promise.all([...senders, ...agents])
})

test('a blocking send returns at a question, and at a request for authorisation', async () => {
  for (const state of ['input-required', 'auth-required']) {
    const sent = a2a.send('x')
    const todo = await worker.claim()
    await ask(worker, todo, 'well?', { state })
    const { task } = (await sent).result
    expect(task.status).toMatchObject({
      state: state === 'input-required' ? 'TASK_STATE_INPUT_REQUIRED' : 'TASK_STATE_AUTH_REQUIRED',
      message: { parts: [{ text: 'well?' }] },
    })
    await a2a.call('CancelTask', { id: todo.id })
  }
})

test('an answer that waits is answered by what follows it, not by the question it answers', async () => {
  const task = await a2a.submit('x')
  const todo = await worker.claim()
  await ask(worker, todo, 'first?')
  const answered = a2a.send('one', { taskId: task.id })
  await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await ask(worker, todo, 'second?')
  expect((await answered).result.task.status.message.parts).toEqual([{ text: 'second?' }])
  await a2a.call('CancelTask', { id: task.id })
})

test('messages to a task at work are accepted in order, owed to its holder, and never a second run', async () => {
  const task = await a2a.submit('x')
  const todo = await worker.claim()
  await a2a.submit('also this', { taskId: task.id })
  await a2a.submit('and that', { taskId: task.id })
  expect((await worker.call('todos.heartbeat', todo.held)).unread).toBe(2)
  expect((await worker.call('todos.claim', {})).todos).toEqual([])
  const { messages } = await worker.call('todos.messages', todo.held)
  expect(messages.map(({ message }: Answer) => message.parts[0].text)).toEqual([
    'also this',
    'and that',
  ])
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[1].seq })
  expect((await a2a.get(task.id)).history).toHaveLength(3)
})

test('a client that hangs up on its blocking send leaves the task to go on', async () => {
  const hangUp = new AbortController()
  const message = textMessage('x')
  const sent = a2a.call('SendMessage', { message }, { signal: hangUp.signal })
  const todo = await worker.claim()
  hangUp.abort()
  await expect(sent).rejects.toThrow()
  await worker.call('todos.complete', { ...todo.held, message: saying('anyway') })
  expect((await a2a.get(todo.id)).status.state).toBe('TASK_STATE_COMPLETED')
})

test('the longest wait of a send is bounded: then the task is answered as it is', async () => {
  const impatient = await startNode(app.databaseUrl, { maxWaitMs: 50 })
  try {
    const { task } = (await a2aClient(impatient.url, 'desk', client.token).send('x')).result
    expect(task.status.state).toBe('TASK_STATE_SUBMITTED')
    await until(async () => (await a2a.call('CancelTask', { id: task.id })).result)
  } finally {
    await impatient.stop()
  }
})
