// One contract, four dialects: A2A 1.0 and 0.3, over JSON-RPC and HTTP+JSON.
// Field cases: one task in two dialects; one meaning of history length;
// a context must match its task; task ids refer and never create; no messages into finished tasks;
// cancel is idempotent; resume after the last event seen; streams and questions;
// life of a webhook config.
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { agentClient } from '../support/clients/actors.ts'
import { ask, ODD_TEXT, rowCounts, saying, UNKNOWN_ID } from '../support/steps.ts'
import { DIALECTS, type Dialect, dialectsOf, type Followed } from './dialects.ts'
import type { FrameFacts } from './facts.ts'

const app = await startApp()

/** A queue of its own for each case, with whoever stands around it. */
const desk = async () => {
  const queue = `desk-${randomUUID().slice(0, 8)}`
  const { client, agent } = await app.queue(queue, { contexts: 'parallel' })
  const stranger = await app.vend(['send'], [queue], { name: 'stranger' })
  const spoken = (token: string | null) => dialectsOf({ url: app.url, queue, token })
  return {
    queue,
    client,
    worker: agentClient(app.url, agent.token),
    dialects: spoken(client.token),
    foreign: spoken(stranger.token),
    anonymous: spoken(null),
  }
}

interface Case {
  dialect: Dialect
  worker: ReturnType<typeof agentClient>
  /** The same dialect, spoken by another client of the queue; and by one without a token. */
  theirs: Dialect
  nobody: Dialect
}

const cases: [string, (at: Case) => Promise<void>][] = []

/** One case, to be run in each of the dialects. */
const contract = (title: string, run: (at: Case) => Promise<void>): void => {
  cases.push([title, run])
}

const submitted = async (dialect: Dialect, text = 'hello', more = {}) => {
  const { task, body } = await dialect.send(text, { wait: false, ...more })
  if (!task) throw new Error(`not taken: ${JSON.stringify(body)}`)
  return task
}

const nextOf = async (followed: Followed) => {
  const next = await followed.next()
  if (!next) throw new Error('the stream ended')
  return next
}

const restOf = async (followed: Followed): Promise<FrameFacts[]> => {
  const all: FrameFacts[] = []
  for (let next = await followed.next(); next; next = await followed.next()) all.push(next.facts)
  return all
}

const states = (frames: FrameFacts[]): string[] =>
  frames.flatMap((frame) => ('state' in frame ? [frame.state] : []))

const PARTS = [
  { text: 'a' },
  { raw: 'aGk=', filename: 'a.txt', mediaType: 'text/plain' },
  { url: 'https://f.example.org/a.png' },
  { data: { total: 12.5, list: [1, null, 'x'] } },
]

contract(
  'a send waits for the end of its task and brings all there is',
  async ({ dialect, worker }) => {
    const sent = dialect.send(ODD_TEXT)
    const todo = await worker.claim()
    expect(todo.message.parts).toEqual([{ text: ODD_TEXT }])
    await worker.call('todos.complete', {
      ...todo.held,
      message: saying(ODD_TEXT),
      artifacts: [{ artifactId: 'a', parts: PARTS }],
    })
    const { task, status } = await sent
    expect(status).toBe(200)
    expect(task).toMatchObject({
      id: todo.id,
      state: 'completed',
      said: [ODD_TEXT],
      history: [{ role: 'user', texts: [ODD_TEXT] }],
      artifacts: [
        {
          artifactId: 'a',
          parts: [
            { text: 'a' },
            { bytes: 'aGk=' },
            { uri: 'https://f.example.org/a.png' },
            { data: { total: 12.5, list: [1, null, 'x'] } },
          ],
        },
      ],
    })
    expect(task?.contextId).not.toBe('')
  },
)

contract(
  'a send that does not wait answers with the new task, which can be read at once',
  async ({ dialect }) => {
    const task = await submitted(dialect)
    expect(task.state).toBe('submitted')
    expect((await dialect.get(task.id)).task).toEqual(task)
    expect((await dialect.cancel(task.id)).task?.state).toBe('canceled')
  },
)

contract(
  'a question ends the wait, its answer goes on with the same task',
  async ({ dialect, worker }) => {
    const sent = dialect.send('first')
    const todo = await worker.claim()
    await ask(worker, todo, 'which?')
    const { task } = await sent
    expect(task).toMatchObject({ id: todo.id, state: 'input-required', said: ['which?'] })

    const answered = dialect.send('that', { taskId: todo.id })
    const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
    expect(messages.at(-1).message.parts).toEqual([{ text: 'that' }])
    await worker.call('todos.complete', {
      ...todo.held,
      acknowledge: messages.at(-1).seq,
      message: saying('done'),
    })
    expect((await answered).task).toMatchObject({
      id: todo.id,
      contextId: task?.contextId,
      state: 'completed',
      history: [{ texts: ['first'] }, { texts: ['which?'] }, { texts: ['that'] }],
    })
  },
)

contract('a request for authorisation ends the wait', async ({ dialect, worker }) => {
  const sent = dialect.send('first')
  const todo = await worker.claim()
  await ask(worker, todo, 'sign in', { state: 'auth-required' })
  expect((await sent).task).toMatchObject({ state: 'auth-required', said: ['sign in'] })
  await dialect.cancel(todo.id)
})

contract(
  'a bare message comes in place of the task where the agent wants it',
  async ({ dialect, worker }) => {
    const sent = dialect.send('hi')
    const todo = await worker.claim()
    await worker.call('todos.complete', { ...todo.held, message: saying('hello'), direct: true })
    expect(await sent).toMatchObject({ texts: ['hello'], status: 200 })
  },
)

contract(
  'a failure and a rejection are states with their words, not errors',
  async ({ dialect, worker }) => {
    const failing = dialect.send('one')
    const first = await worker.claim()
    await worker.call('todos.fail', {
      ...first.held,
      error: { code: 'broken', message: 'the disk is full' },
      retryable: false,
    })
    const failed = (await failing).task
    expect(failed?.state).toBe('failed')
    expect(failed?.said?.join()).toContain('the disk is full')
    const rejecting = dialect.send('two')
    const second = await worker.claim()
    await worker.call('todos.reject', { ...second.held, message: saying('not mine') })
    expect((await rejecting).task).toMatchObject({ state: 'rejected', said: ['not mine'] })
  },
)

contract('what is not there, or not yours, is one error', async ({ dialect, theirs }) => {
  const task = await submitted(dialect)
  const calls = (who: Dialect, id: string) => [
    who.get(id),
    who.cancel(id),
    who.send('x', { taskId: id }),
    who.createPush(id, { url: 'https://example.com/hook' }),
    who.getPush(id, 'c'),
    who.listPush(id),
    who.deletePush(id, 'c'),
  ]
  const before = await rowCounts(app)
  const foreignAnswers = await Promise.all(calls(theirs, task.id))
  const unknownAnswers = await Promise.all(calls(theirs, UNKNOWN_ID))
  expect(await rowCounts(app)).toEqual(before)
  expect(foreignAnswers.map(({ body }) => body)).toEqual(unknownAnswers.map(({ body }) => body))
  for (const { error } of foreignAnswers) expect(error?.reason).toBe('TASK_NOT_FOUND')
  expect((await theirs.subscribe(task.id)).error?.reason).toBe('TASK_NOT_FOUND')
  expect((await theirs.stream('x', { taskId: task.id })).error?.reason).toBe('TASK_NOT_FOUND')
  await dialect.cancel(task.id)
})

contract('a context that is not the one of the task is refused', async ({ dialect }) => {
  const task = await submitted(dialect)
  const before = await rowCounts(app)
  const { error } = await dialect.send('x', { taskId: task.id, contextId: 'other' })
  expect(error?.reason).toBe('INVALID_PARAMS')
  expect(await rowCounts(app)).toEqual(before)
  await dialect.cancel(task.id)
})

contract('a context of the client is kept', async ({ dialect }) => {
  const contextId = `c-${randomUUID()}`
  const task = await submitted(dialect, 'x', { contextId })
  expect(task.contextId).toBe(contextId)
  await dialect.cancel(task.id)
})

contract(
  'a finished task takes no message, and its cancel tells so',
  async ({ dialect, worker }) => {
    const task = await submitted(dialect)
    const todo = await worker.claim()
    await worker.call('todos.complete', todo.held)
    const before = await rowCounts(app)
    expect((await dialect.send('x', { taskId: task.id })).error?.reason).toBe(
      'UNSUPPORTED_OPERATION',
    )
    expect((await dialect.stream('x', { taskId: task.id })).error?.reason).toBe(
      'UNSUPPORTED_OPERATION',
    )
    expect((await dialect.cancel(task.id)).error?.reason).toBe('TASK_NOT_CANCELABLE')
    expect(await rowCounts(app)).toEqual(before)
  },
)

contract('cancel is idempotent', async ({ dialect }) => {
  const task = await submitted(dialect)
  const first = (await dialect.cancel(task.id)).task
  expect(first?.state).toBe('canceled')
  expect((await dialect.cancel(task.id)).task).toEqual(first)
})

contract('as much of the history as was asked for, the newest', async ({ dialect }) => {
  const task = await submitted(dialect, 'one')
  for (const text of ['two', 'three']) await dialect.send(text, { taskId: task.id, wait: false })
  const texts = async (length?: unknown) =>
    (await dialect.get(task.id, length)).task?.history.flatMap((message) => message.texts)
  expect(await texts()).toEqual(['one', 'two', 'three'])
  expect(await texts(2)).toEqual(['two', 'three'])
  expect(await texts(100)).toEqual(['one', 'two', 'three'])
  // In 0.3's proto JSON nought is no limit: that form cannot tell it from an absent one.
  const none = dialect.name === '0.3 HTTP+JSON' ? ['one', 'two', 'three'] : []
  expect(await texts(0)).toEqual(none)
  for (const bad of [-1, 1.5, 'x']) {
    expect((await dialect.get(task.id, bad)).error?.reason).toBe('INVALID_PARAMS')
  }
  await dialect.cancel(task.id)
})

contract('a message that is not whole is refused and nothing of it stored', async ({ dialect }) => {
  const before = await rowCounts(app)
  const good = {
    messageId: 'm',
    role: dialect.version === '1.0' ? 'ROLE_USER' : 'user',
    parts: [{ text: 'x' }],
  }
  const { messageId: _id, ...nameless } = good
  const { role: _role, ...roleless } = good
  for (const message of [
    {},
    nameless,
    roleless,
    { ...good, messageId: '' },
    { ...good, parts: [] },
    { ...good, parts: 'hi' },
    { ...good, parts: [{}] },
    { ...good, parts: [{ text: 'x', data: {} }] },
    { ...good, role: dialect.version === '1.0' ? 'ROLE_AGENT' : 'agent' },
    { ...good, role: 'ROLE_WIZARD' },
  ]) {
    const { error, body } = await dialect.send('', { message })
    expect([message, error?.reason], JSON.stringify(body)).toEqual([message, 'INVALID_PARAMS'])
  }
  expect(await rowCounts(app)).toEqual(before)
})

contract(
  'a stream shows the task, then what becomes of it, and ends with it',
  async ({ dialect, worker }) => {
    const followed = await dialect.stream('hello')
    const first = await nextOf(followed)
    expect(first.facts).toMatchObject({ task: { state: 'submitted' } })
    const todo = await worker.claim()
    await worker.call('todos.say', { ...todo.held, message: saying('half way') })
    await worker.call('todos.artifact', {
      ...todo.held,
      artifact: { artifactId: 'a', parts: PARTS },
    })
    await worker.call('todos.complete', { ...todo.held, message: saying('there') })
    const frames = await restOf(followed)
    expect(states(frames)).toEqual(['working', 'working', 'completed'])
    expect(frames[2]).toMatchObject({ artifactId: 'a' })
    expect(frames.at(-1)).toMatchObject({ said: ['there'] })
    const finals = frames.flatMap((frame) => ('state' in frame ? [frame.final ?? false] : []))
    // 0.3 tells which event is the last one; 1.0 does not know the word.
    expect(finals).toEqual([false, false, dialect.version === '0.3'])
  },
)

contract(
  'a question ends the stream of a send, and keeps a subscription of 1.0 open',
  async ({ dialect, worker }) => {
    const sent = await dialect.stream('hello')
    const todo = await worker.claim()
    const followed = await dialect.subscribe(todo.id)
    await ask(worker, todo, 'which?')
    for (const stream of dialect.version === '0.3' ? [sent, followed] : [sent]) {
      const last = (await restOf(stream)).at(-1)
      expect(last).toMatchObject({ state: 'input-required' })
      if (dialect.version === '0.3') expect(last).toMatchObject({ final: true })
    }
    await dialect.send('that', { taskId: todo.id, wait: false })
    const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
    await worker.call('todos.complete', { ...todo.held, acknowledge: messages.at(-1).seq })
    if (dialect.version === '1.0') {
      expect(states(await restOf(followed)).slice(-3)).toEqual([
        'input-required',
        'working',
        'completed',
      ])
    }
  },
)

contract(
  'a subscriber gets the task as it is, then each event once, and goes on where it was cut',
  async ({ dialect, worker }) => {
    const task = await submitted(dialect)
    const todo = await worker.claim()
    const followed = await dialect.subscribe(task.id)
    expect((await nextOf(followed)).facts).toMatchObject({ task: { state: 'working' } })
    const chunk = (name: string) =>
      worker.call('todos.artifact', {
        ...todo.held,
        artifact: { artifactId: name, parts: [{ text: name }] },
      })
    await chunk('a')
    const seen = await nextOf(followed)
    expect(seen.facts).toMatchObject({ artifactId: 'a' })
    followed.stream.close()
    await chunk('b')
    await chunk('c')
    const again = await dialect.subscribe(task.id, seen.id)
    let next = await nextOf(again)
    if ('task' in next.facts) next = await nextOf(again)
    expect(next.facts).toMatchObject({ artifactId: 'b' })
    await worker.call('todos.complete', todo.held)
    const frames = await restOf(again)
    expect(frames[0]).toMatchObject({ artifactId: 'c' })
    expect(states(frames)).toEqual(['completed'])
  },
)

contract(
  'a subscription to what has ended: refused in 1.0, the task and the end in 0.3',
  async ({ dialect }) => {
    const task = await submitted(dialect)
    await dialect.cancel(task.id)
    const followed = await dialect.subscribe(task.id)
    if (dialect.version === '1.0') {
      expect(followed.error?.reason).toBe('UNSUPPORTED_OPERATION')
    } else {
      expect(await restOf(followed)).toMatchObject([{ task: { id: task.id, state: 'canceled' } }])
    }
    expect((await dialect.subscribe(UNKNOWN_ID)).error?.reason).toBe('TASK_NOT_FOUND')
  },
)

contract('a client that hangs up ends its wait and not its task', async ({ dialect, worker }) => {
  const followed = await dialect.stream('hello')
  await nextOf(followed)
  followed.stream.close()
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  expect((await dialect.get(todo.id)).task?.state).toBe('completed')
})

contract('an extended card that is not declared is refused', async ({ dialect }) => {
  expect((await dialect.extendedCard()).error?.reason).toBe('UNSUPPORTED_OPERATION')
})

contract('nobody gets in without a token', async ({ nobody }) => {
  const { status, headers, error } = await nobody.get(UNKNOWN_ID)
  expect(status).toBe(401)
  expect(headers.get('www-authenticate')).toMatch(/^Bearer/)
  expect(error).toBeDefined()
})

contract(
  'push configs are made, replaced, read, listed and deleted, over and over',
  async ({ dialect }) => {
    const task = await submitted(dialect)
    const url = 'https://example.com/hook'
    const made = await dialect.createPush(task.id, { url, token: 't' })
    expect(made.ids).toHaveLength(1)
    await dialect.createPush(task.id, { url, id: 'c1' })
    const replaced = await dialect.createPush(task.id, { url: `${url}?b`, id: 'c1' })
    expect(replaced.ids).toEqual(['c1'])
    expect(JSON.stringify((await dialect.getPush(task.id, 'c1')).body)).toContain(`${url}?b`)
    expect((await dialect.listPush(task.id)).ids.toSorted()).toEqual([...made.ids, 'c1'].toSorted())
    for (let round = 0; round < 2; round += 1) {
      expect((await dialect.deletePush(task.id, 'c1')).error).toBeUndefined()
    }
    expect((await dialect.getPush(task.id, 'c1')).error?.reason).toBe('TASK_NOT_FOUND')
    expect((await dialect.listPush(task.id)).ids).toEqual(made.ids)
    for (const bad of ['http://127.0.0.1:9/h', 'https://[::1]/h', 'ftp://example.com', 'x']) {
      expect((await dialect.createPush(task.id, { url: bad })).error?.reason).toBe('INVALID_PARAMS')
      const before = await rowCounts(app)
      expect((await dialect.send('x', { pushUrl: bad, wait: false })).error?.reason).toBe(
        'INVALID_PARAMS',
      )
      expect(await rowCounts(app)).toEqual(before)
    }
    const inline = await submitted(dialect, 'x', { pushUrl: url })
    expect((await dialect.listPush(inline.id)).ids).toHaveLength(1)
    for (const { id } of [task, inline]) await dialect.cancel(id)
  },
)

describe.each(DIALECTS)('%s', (name) => {
  test.each(cases)('%s', async (_title, run) => {
    const { worker, dialects, foreign, anonymous } = await desk()
    const named = (all: Dialect[]): Dialect => all.find((dialect) => dialect.name === name)!
    await run({
      dialect: named(dialects),
      worker,
      theirs: named(foreign),
      nobody: named(anonymous),
    })
  })
})

test('one task is the same facts in every dialect, whoever made it', async () => {
  const { worker, dialects } = await desk()
  for (const maker of dialects) {
    const task = await submitted(maker, ODD_TEXT)
    const follower = await dialects[0]!.subscribe(task.id)
    const others = await Promise.all(dialects.slice(1).map(({ subscribe }) => subscribe(task.id)))
    const todo = await worker.claim()
    await worker.call('todos.say', { ...todo.held, message: saying(ODD_TEXT) })
    await worker.call('todos.artifact', {
      ...todo.held,
      artifact: { artifactId: 'a', parts: PARTS },
    })
    await worker.call('todos.complete', { ...todo.held, message: saying('end') })
    const read = await Promise.all(dialects.map(({ get }) => get(task.id)))
    for (const { task: facts } of read) expect(facts).toEqual(read[0]?.task)
    const withoutFinal = (frames: FrameFacts[]) =>
      frames.map((frame) => ('state' in frame ? { ...frame, final: undefined } : frame))
    const expected = withoutFinal(await restOf(follower))
    for (const other of others) expect(withoutFinal(await restOf(other))).toEqual(expected)
  }
})

test('a version of another name is refused before anything happens, on both bindings', async () => {
  const { queue, client } = await desk()
  const before = await rowCounts(app)
  for (const [path, body] of [
    ['/', { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: {} }],
    ['/message:send', {}],
  ] as const) {
    const response = await fetch(`${app.url}/a2a/${queue}${path}`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Authorization: `Bearer ${client.token}`,
        'A2A-Version': '0.5',
      },
      body: JSON.stringify(body),
    })
    expect(JSON.stringify(await response.json())).toContain('VERSION_NOT_SUPPORTED')
  }
  expect(await rowCounts(app)).toEqual(before)
})
