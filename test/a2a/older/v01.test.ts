// The oldest clients: A2A 0.1, whose ids are the client's own.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { startApp, startNode } from '../../support/app.ts'
import { type Answer, a2aClient, agentClient, type Frame } from '../../support/clients/actors.ts'
import { v01Client, v03Client } from '../../support/clients/old-clients.ts'
import {
  ask,
  nextOf,
  ODD_TEXT,
  operate,
  rowCounts,
  saying,
  UNKNOWN_ID,
} from '../../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk')
const stranger = await app.vend(['send'], ['desk'], { name: 'stranger' })
const v01 = v01Client(app.url, 'desk', client.token)
const v03 = v03Client(app.url, 'desk', client.token)
const v1 = a2aClient(app.url, 'desk', client.token)
const theirs = v01Client(app.url, 'desk', stranger.token)
const worker = agentClient(app.url, agent.token)

const saidOf = (message: Answer): string => message?.parts[0].text
const text = (value: string) => ({ type: 'text', text: value })

test('a task that its client names is made, asks, is answered and ends, in the shapes of 0.1', async () => {
  const id = randomUUID()
  const sent = v01.send(id, ODD_TEXT, { sessionId: 's-1', metadata: { k: 1 } })
  const todo = await worker.claim()
  expect(todo).toMatchObject({ contextId: 's-1', message: { parts: [{ text: ODD_TEXT }] } })
  expect(todo.id).not.toBe(id)
  await ask(worker, todo, 'which?')
  expect((await sent).result).toEqual({
    id,
    sessionId: 's-1',
    status: {
      state: 'input-required',
      message: { role: 'agent', parts: [text('which?')] },
      timestamp: expect.any(String),
    },
    metadata: { k: 1 },
  })
  const answered = v01.send(id, 'this', { sessionId: 's-1', historyLength: 10 })
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  expect(messages.map(({ message }: Answer) => saidOf(message))).toEqual(['this'])
  await worker.call('todos.complete', {
    ...todo.held,
    acknowledge: messages[0].seq,
    message: saying('done'),
    artifacts: [
      { artifactId: 'b', name: 'B', parts: [{ text: 'x' }] },
      { artifactId: 'a', parts: [{ raw: 'aGk=', filename: 'a.txt' }] },
    ],
  })
  const done = (await answered).result
  expect(done).toMatchObject({
    id,
    sessionId: 's-1',
    status: { state: 'completed', message: { role: 'agent', parts: [text('done')] } },
    artifacts: [
      { name: 'B', index: 0, parts: [text('x')] },
      { index: 1, parts: [{ type: 'file', file: { bytes: 'aGk=', name: 'a.txt' } }] },
    ],
  })
  expect(done.history.map(saidOf)).toEqual([ODD_TEXT, 'which?', 'this'])
  // It is the same task by its own id, in the words of whoever asks.
  const read = { ...done, metadata: { k: 1 } }
  expect((await v01.call('tasks/get', { id, historyLength: 10 })).result).toEqual(read)
  expect((await v01.call('tasks/get', { id })).result).toEqual({ ...read, history: undefined })
  expect(await v03.get(todo.id)).toMatchObject({ kind: 'task', id: todo.id, contextId: 's-1' })
  expect(await v1.get(todo.id)).toMatchObject({
    id: todo.id,
    metadata: { k: 1, 'urn:switchboard:client-task-id': id },
  })
  expect((await v01.call('tasks/cancel', { id })).error.code).toBe(-32002)
  expect((await v01.send(id, 'more')).error.code).toBe(-32004)
})

test('words sent again while nothing is asked are the same message, and its answer is given again', async () => {
  const id = `retried ${randomUUID()}`
  const [first, again] = [v01.send(id, 'once'), v01.send(id, 'once')]
  const todo = await worker.claim()
  await worker.call('todos.heartbeat', todo.held)
  const third = v01.send(id, 'once')
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const answers = (await Promise.all([first, again, third])).map(({ result }) => result)
  for (const answer of answers) expect(saidOf(answer.status.message)).toBe('done')
  const late = (await v01.send(id, 'once', { historyLength: 10 })).result
  expect(late.history.map(saidOf)).toEqual(['once'])
})

test('twenty sends of one id at once make one task; what they say beyond it goes into its inbox', async () => {
  for (const session of [undefined, 's-race']) {
    const id = randomUUID()
    const before = Number((await rowCounts(app)).todos)
    const other = await startNode(app.databaseUrl)
    const sides = [v01, v01Client(other.url, 'desk', client.token)]
    const said = Array.from({ length: 20 }, (_, i) => `n${i % 2}`)
    const sends = said.map((words, i) =>
      sides[i % 2]!.send(id, words, session === undefined ? {} : { sessionId: session }),
    )
    const todo = await worker.claim()
    const owed = new Set<string>()
    let last = 0
    // All have been taken once the other words are there; any more would be the same again.
    while (owed.size === 0) {
      const { messages } = await worker.call('todos.messages', {
        ...todo.held,
        after: last,
        waitMs: 25_000,
      })
      for (const { seq, message } of messages) {
        owed.add(saidOf(message))
        last = seq
      }
    }
    await v1.call('CancelTask', { id: todo.id })
    const answers = await Promise.all(sends)
    expect(Number((await rowCounts(app)).todos)).toBe(before + 1)
    for (const { result, error } of answers) {
      if (result) expect(result.id).toBe(id)
      else expect(error.code).toBe(-32004)
    }
    await other.stop()
  }
})

test('one id of two clients is two tasks, and neither reaches the other', async () => {
  const id = 'invoice-7'
  const sent = [
    v01.send(id, 'mine', { sessionId: 's' }),
    theirs.send(id, 'theirs', { sessionId: 's' }),
  ]
  const todos = [await worker.claim(), await worker.claim()]
  for (const todo of todos) {
    await worker.call('todos.complete', { ...todo.held, message: saying(saidOf(todo.message)) })
  }
  const states = (await Promise.all(sent)).map(({ result }) => saidOf(result.status.message))
  expect(states).toEqual(['mine', 'theirs'])
  for (const [side, words] of [
    [v01, 'mine'],
    [theirs, 'theirs'],
  ] as const) {
    const { result } = await side.call('tasks/get', { id })
    expect([result.id, saidOf(result.status.message)]).toEqual([id, words])
  }
  // Nor by the id that the server gave it: a send makes a task of one's own then.
  const mine = todos.find(({ message }) => saidOf(message) === 'mine')!.id
  expect((await theirs.call('tasks/get', { id: mine })).error).toEqual(
    (await theirs.call('tasks/get', { id: UNKNOWN_ID })).error,
  )
  const own = theirs.send(mine, 'of my own')
  const todo = await worker.claim()
  expect(todo.id).not.toBe(mine)
  await worker.call('todos.complete', todo.held)
  expect((await own).result).toMatchObject({ id: mine, status: { state: 'completed' } })
  expect((await v1.get(mine)).history.map(saidOf)).toEqual(['mine'])
  // Another queue is another agent.
  const elsewhere = await app.queue('elsewhere')
  const side = v01Client(app.url, 'elsewhere', elsewhere.client.token)
  expect((await side.call('tasks/get', { id })).error.code).toBe(-32001)
})

test('a task of another version is read by its id, and goes on by tasks/send', async () => {
  const { id, contextId } = await v03.submit('x')
  const sent = v01.send(id, 'and this')
  const todo = await worker.claim()
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  expect(saidOf(messages[0].message)).toBe('and this')
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
  expect((await sent).result).toMatchObject({ id, sessionId: contextId })
  expect((await v01.call('tasks/get', { id })).result.kind).toBe('task')
})

test('an agent that answers with a message answers with a completed task', async () => {
  const sent = v01.send('bare', 'x')
  const todo = await worker.claim()
  await worker.call('todos.complete', { ...todo.held, direct: true, message: saying('bare') })
  expect((await sent).result).toMatchObject({
    id: 'bare',
    status: { state: 'completed', message: { parts: [text('bare')] } },
  })
})

const wordOf = ({ json: { result } }: Frame): string => {
  if (result.artifact) return `${result.artifact.index} ${saidOf(result.artifact)}`
  const words = result.status.message ? ` ${saidOf(result.status.message)}` : ''
  return `${result.status.state}${words}${result.final ? ' final' : ''}`
}

test('a stream has the events of 0.1, ends at a question, and goes on where it was cut', async () => {
  const id = 'streamed'
  const stream = await v01.sendSubscribe(id, 'x')
  expect(wordOf(await nextOf(stream))).toBe('submitted')
  const todo = await worker.claim()
  const chunk = (artifactId: string, words: string, more = {}) =>
    worker.call('todos.artifact', {
      ...todo.held,
      artifact: { artifactId, parts: [{ text: words }] },
      ...more,
    })
  await chunk('a', 'A')
  await chunk('b', 'B')
  await chunk('a', 'A2', { append: true, lastChunk: true })
  const frames = await stream.until((frame) => wordOf(frame) === '0 A2')
  expect(frames.map(wordOf)).toEqual(['working', '0 A', '1 B', '0 A2'])
  expect(frames.at(-1)!.json.result).toEqual({
    id,
    artifact: { index: 0, parts: [text('A2')], append: true, lastChunk: true },
  })
  await ask(worker, todo, 'well?', { state: 'auth-required' })
  const end = (await stream.rest()).map(({ json }) => json.result)
  expect(end).toEqual([
    { id, status: expect.objectContaining({ state: 'input-required' }), final: true },
  ])

  // From an event on: the places are those that the artifacts had.
  const again = await v01.stream(
    'tasks/resubscribe',
    { id },
    { headers: { 'Last-Event-ID': frames[1]!.id! } },
  )
  expect((await again.rest()).map(wordOf)).toEqual(['1 B', '0 A2', 'input-required well? final'])
  // From nothing on: all that there is.
  const whole = await v01.stream('tasks/resubscribe', { id })
  expect((await whole.rest()).map(wordOf)).toEqual(['0 A', '1 B', 'input-required well? final'])

  const answer = await v01.sendSubscribe(id, 'ok')
  await answer.until((frame) => wordOf(frame) === 'working')
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await worker.call('todos.acknowledge', { ...todo.held, through: messages[0].seq })
  await worker.call('todos.reject', { ...todo.held, message: saying('no') })
  expect((await answer.rest()).map(wordOf)).toEqual(['failed no final'])
  const after = await v01.stream('tasks/resubscribe', { id })
  expect((await after.rest()).map(wordOf).at(-1)).toBe('failed no final')
})

test('a task is canceled by the id of its client', async () => {
  const stream = await v01.sendSubscribe('given up', 'x')
  await nextOf(stream)
  expect((await v01.call('tasks/cancel', { id: 'given up' })).result).toMatchObject({
    id: 'given up',
    status: { state: 'canceled' },
  })
  expect((await stream.rest()).map(wordOf)).toEqual(['canceled final'])
  expect((await v01.call('tasks/cancel', { id: 'never' })).error.code).toBe(-32001)
})

test('what is wrong is refused by the name it has in 0.1, and nothing is stored', async () => {
  const before = await rowCounts(app)
  const good = v01.params('bad', 'x')
  const bad: [unknown, string][] = [
    [undefined, 'params'],
    [{ ...good, id: '' }, 'id'],
    [{ ...good, id: 'x'.repeat(257) }, 'id'],
    [{ ...good, id: 7 }, 'id'],
    [{ ...good, message: { role: 'agent', parts: [text('x')] } }, 'message.role'],
    [{ ...good, message: { role: 'user', parts: [{ type: 'text' }] } }, 'message.parts[0]'],
    [{ ...good, historyLength: -1 }, 'historyLength'],
    [{ ...good, metadata: { 'urn:switchboard:busy': 'odd' } }, 'metadata.urn:switchboard:busy'],
  ]
  for (const method of ['tasks/send', 'tasks/sendSubscribe']) {
    for (const [params, field] of bad) {
      const { error } = await v01.call(method, params)
      expect(error.code).toBe(-32602)
      expect(error.data[1].fieldViolations.map((each: Answer) => each.field)).toContain(field)
    }
    const push = { ...good, pushNotification: { url: 'http://127.0.0.1/h' } }
    // Refused as the webhooks of 1.0 are: for what they are, or for there being none.
    expect([-32003, -32602]).toContain((await v01.call(method, push)).error.code)
  }
  expect(await rowCounts(app)).toEqual(before)
  const stream = await v01.sendSubscribe('session', 'x', { sessionId: 's-a' })
  stream.close()
  const { error } = await v01.send('session', 'y', { sessionId: 's-b' })
  expect(error.data[1].fieldViolations).toEqual([expect.objectContaining({ field: 'sessionId' })])
  await v01.call('tasks/cancel', { id: 'session' })
})

test('a new id is a new task, also where a message of a conversation goes to the one at work', async () => {
  await operate(app, 'queues.put', { name: 'author', policy: { reentry: 'author' } })
  const token = (await app.vend(['send'], ['author'])).token
  const side = v01Client(app.url, 'author', token)
  const first = await side.sendSubscribe('one', 'x', { sessionId: 's' })
  const second = await side.sendSubscribe('two', 'y', { sessionId: 's' })
  for (const stream of [first, second]) await nextOf(stream)
  for (const id of ['one', 'two']) {
    expect((await side.call('tasks/cancel', { id })).result).toMatchObject({ id, sessionId: 's' })
  }
  for (const stream of [first, second]) await stream.rest()
})

test('a wish to make room is not carried out for a task that is there already', async () => {
  const wish = { sessionId: 's-room', metadata: { 'urn:switchboard:busy': 'rollback' } }
  const stream = await v01.sendSubscribe('room', 'x', wish)
  await nextOf(stream)
  const again = await v01.sendSubscribe('room', 'x', wish)
  expect(wordOf(await nextOf(again))).toBe('submitted')
  await v01.call('tasks/cancel', { id: 'room' })
})

test('a send under a key is one send, the first one of its task as well as those that follow', async () => {
  const keyed = (words: string, key: string) =>
    v01.call('tasks/send', v01.params('keyed', words, { sessionId: 's-key' }), {
      headers: { 'Idempotency-Key': key },
    })
  const sends = Array.from({ length: 8 }, () => keyed('go', 'k-1'))
  const todo = await worker.claim()
  await ask(worker, todo, 'which?')
  for (const { result } of await Promise.all(sends)) {
    expect(result).toMatchObject({ id: 'keyed', status: { state: 'input-required' } })
  }
  expect((await keyed('other', 'k-1')).error.data[0].reason).toBe('IDEMPOTENCY_CONFLICT')
  const answers = [keyed('this', 'k-2'), keyed('this', 'k-2')]
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
  for (const { result } of await Promise.all(answers)) {
    expect(result.status.state).toBe('completed')
  }
  for (const [words, key] of [
    ['go', 'k-1'],
    ['this', 'k-2'],
  ] as const) {
    expect((await keyed(words, key)).result.status.state).toBe('completed')
  }
  expect((await v1.get(todo.id)).history.map(saidOf)).toEqual(['go', 'which?', 'this'])
})
