/**
 * What one todo may hold: a number of documents and of bytes, whichever way they come (docs/limits.md).
 * Field cases: a todo that grows without end.
 */
import { afterEach, expect, test } from 'vitest'
import { createAgent } from '../../src/agent-kit/agent.ts'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, rpc, textMessage } from '../support/clients/actors.ts'
import { ask, type Claimed, operate, refusalOf, rowCounts, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const MOST_BYTES = 1_048_576
const MOST_DOCUMENTS = 100
const LONG = 'x'.repeat(MOST_BYTES)

const limit = async (bytes: number, documents: number): Promise<void> => {
  await operate(app, 'settings.set', { key: 'todo_max_bytes', value: String(bytes) })
  await operate(app, 'settings.set', { key: 'todo_max_documents', value: String(documents) })
}
await limit(MOST_BYTES, MOST_DOCUMENTS)
afterEach(() => limit(MOST_BYTES, MOST_DOCUMENTS))

const held = async (text = 'x'): Promise<Claimed> => {
  const { id } = await a2a.submit(text)
  const todo = await worker.claim()
  expect(todo.id).toBe(id)
  return todo
}

const countedIn = async (id: string) =>
  (
    await app.sql<Answer>(
      `select documents, document_bytes::int as bytes,
        (select count(*)::int from messages where todo_id = id)
          + (select count(*)::int from artifacts where todo_id = id) as rows,
        todo_document_bytes(id)::int as measured
      from todos where id = $1`,
      [id],
    )
  )[0]

/** As if it held so much already. */
const fill = (id: string, { bytes = 0, documents = 0 }): Promise<unknown> =>
  app.sql(
    `update todos set document_bytes = document_bytes + $2, documents = documents + $3 where id = $1`,
    [id, bytes, documents],
  )

const linkTo = async (id: string): Promise<string> =>
  (await operate(app, 'todos.answerLink', { id })).url

const followUp = async ({ id }: Claimed, text: string): Promise<Answer> =>
  (await a2a.send(text, { taskId: id }, { returnImmediately: true })).error

const apiError = async (call: Promise<unknown>): Promise<Answer> => (await refusalOf(call)).data

/** Ways into a todo while it is held, and what each is answered with where there is no room. */
const WAYS: Record<string, (todo: Claimed, text: string) => Promise<unknown>> = {
  'todos.say': ({ held }, text) =>
    apiError(worker.call('todos.say', { ...held, message: saying(text) })),
  'todos.artifact': ({ held }, text) =>
    apiError(
      worker.call('todos.artifact', { ...held, artifact: { artifactId: 'a', ...saying(text) } }),
    ),
  'a chunk that is appended': ({ held }, text) =>
    apiError(
      worker.call('todos.artifact', {
        ...held,
        artifact: { artifactId: 'a', ...saying(text) },
        append: true,
      }),
    ),
  'a question': (todo, text) => apiError(ask(worker, todo, text)),
  'an artifact of todos.complete': ({ held }, text) =>
    apiError(
      worker.call('todos.complete', { ...held, artifacts: [{ artifactId: 'a', ...saying(text) }] }),
    ),
  "an operator's message": ({ id }, text) =>
    apiError(operate(app, 'todos.answer', { id, message: { parts: [{ text }] } })),
  "a client's message": async (todo, text) => {
    const { code, data } = await followUp(todo, text)
    expect(code).toBe(-32000)
    const { reason, metadata } = data[0]
    expect(reason).toBe('LIMIT_REACHED')
    return { reason: 'limit', limit: Number(metadata.limit) }
  },
}

test.each(Object.entries(WAYS))(
  '%s is refused with the number beyond it, and changes nothing',
  async (_, way) => {
    const todo = await held()
    const before = await rowCounts(app)
    expect(await way(todo, LONG)).toMatchObject({ reason: 'limit', limit: MOST_BYTES })
    await fill(todo.id, { documents: MOST_DOCUMENTS - 1 })
    expect(await way(todo, 'x')).toMatchObject({ reason: 'limit', limit: MOST_DOCUMENTS })
    expect(await rowCounts(app)).toEqual(before)
    await worker.call('todos.complete', todo.held)
  },
)

test('what comes in is counted as it is stored, whichever way it came', async () => {
  const metadata = { note: 'é' }
  const sent = await a2a.call('SendMessage', {
    message: textMessage('漢字'),
    metadata,
    configuration: { returnImmediately: true },
  })
  const { id } = sent.result.task
  const todo = await worker.claim()
  const expectCounted = async () => {
    const { documents, bytes, rows, measured } = await countedIn(id)
    // The metadata is part of what the first message is counted with, and is measured once more.
    expect([documents, bytes]).toEqual([
      rows,
      measured - Buffer.byteLength(JSON.stringify(metadata)),
    ])
  }
  await followUp(todo, 'more')
  await worker.call('todos.say', { ...todo.held, message: saying('said') })
  await Promise.all(
    ['a', 'b', 'c'].map((artifactId) =>
      worker.call('todos.artifact', { ...todo.held, artifact: { artifactId, ...saying('y') } }),
    ),
  )
  await ask(worker, todo, 'Which?')
  await expectCounted()
  await a2a.send('this', { taskId: id }, { returnImmediately: true })
  await worker.call('todos.complete', {
    ...todo.held,
    acknowledge: 100,
    message: saying('done'),
    artifacts: [{ artifactId: 'd', ...saying('z') }],
    result: { total: 3 },
  })
  await expectCounted()
})

/** What is kept beside a document, in about 2000 bytes of it. */
const BESIDE: Record<string, (todo: Claimed, text: string) => Promise<unknown>> = {
  'the metadata and modes of a request': ({ id }, text) =>
    a2a
      .call('SendMessage', {
        message: textMessage('y', { taskId: id }),
        metadata: { text },
        configuration: { returnImmediately: true },
      })
      .then(({ error }) => error && Promise.reject(error.data[0])),
  'the metadata of todos.say': ({ held }, text) =>
    worker.call('todos.say', { ...held, message: saying('y'), metadata: { text } }),
  'the metadata of todos.artifact': ({ held }, text) =>
    worker.call('todos.artifact', {
      ...held,
      artifact: { artifactId: 'a', ...saying('y') },
      metadata: { text },
    }),
  'the metadata of todos.progress': ({ held }, text) =>
    worker.call('todos.progress', { ...held, metadata: { text } }),
}

test.each(Object.entries(BESIDE))(
  '%s counts, and is refused where there is no room',
  async (_, say) => {
    const todo = await held()
    const first = await countedIn(todo.id)
    await say(todo, 'z'.repeat(2000))
    const second = await countedIn(todo.id)
    expect(second.documents).toBe(first.documents + 1)
    expect(second.bytes).toBeGreaterThan(first.bytes + 2000)
    await fill(todo.id, { bytes: MOST_BYTES - second.bytes - 1000 })
    const before = await rowCounts(app)
    await expect(say(todo, 'z'.repeat(2000))).rejects.toBeDefined()
    expect(await rowCounts(app)).toEqual(before)
    await worker.call('todos.progress', { ...todo.held, note: 'a note always has room' })
    await operate(app, 'todos.cancel', { id: todo.id })
  },
)

test('the schema of a question counts', async () => {
  const schemaOf = (length: number) => ({ type: 'object', title: 'z'.repeat(length) })
  const bytesWith = async (length: number): Promise<number> => {
    const todo = await held()
    await ask(worker, todo, 'Which?', { schema: schemaOf(length) })
    const { bytes } = await countedIn(todo.id)
    await operate(app, 'todos.cancel', { id: todo.id })
    return bytes
  }
  // It is kept twice: beside the question, to check the answer, and in it, for who answers.
  expect((await bytesWith(3000)) - (await bytesWith(1000))).toBe(4000)
})

test('a full todo can be ended in every way, with a message while the reserve lasts, and without one always', async () => {
  const ends: [string, Record<string, unknown>][] = [
    ['todos.complete', {}],
    ['todos.fail', { error: { code: 'no', message: 'x'.repeat(2000) }, retryable: false }],
    ['todos.reject', {}],
    ['todos.cancel', {}],
  ]
  for (const [method, params] of ends) {
    const first = await held()
    await fill(first.id, { bytes: MOST_BYTES, documents: MOST_DOCUMENTS })
    const more = { ...params, message: saying('z'.repeat(100_000)) }
    await worker.call(method, { ...first.held, ...more })

    const second = await held()
    await fill(second.id, { bytes: MOST_BYTES + 8_388_608, documents: MOST_DOCUMENTS + 100 })
    expect(await apiError(worker.call(method, { ...second.held, ...more }))).toMatchObject({
      reason: 'limit',
    })
    await worker.call(method, { ...second.held, ...params })
  }
})

test('a question of a full todo can be answered: by its client, an operator, or by a link', async () => {
  const asking = async () => {
    const todo = await held()
    await ask(worker, todo, 'Which?')
    await fill(todo.id, { bytes: MOST_BYTES, documents: MOST_DOCUMENTS })
    return todo
  }
  const first = await asking()
  expect(await followUp(first, 'this')).toBeUndefined()
  const second = await asking()
  await operate(app, 'todos.answer', { id: second.id, message: { parts: [{ text: 'that' }] } })
  const third = await asking()
  const url = await linkTo(third.id)
  const answer = () =>
    fetch(url, {
      method: 'POST',
      headers: { Origin: app.url },
      body: new URLSearchParams({ text: 'those', by: 'Ada' }),
    })
  await fill(third.id, { bytes: 8_388_608 })
  expect((await answer()).status).toBeGreaterThanOrEqual(400)
  await fill(third.id, { bytes: -8_388_608 })
  expect((await answer()).status).toBe(200)
  for (const { id } of [first, second, third]) {
    expect((await a2a.get(id)).status.state).toBe('TASK_STATE_WORKING')
    await operate(app, 'todos.cancel', { id })
  }
})

test('a row of before is counted when it is next written to', async () => {
  const todo = await held('y'.repeat(1000))
  await worker.call('todos.say', { ...todo.held, message: saying('y'.repeat(900_000)) })
  await app.sql('update todos set documents = null, document_bytes = null where id = $1', [todo.id])
  for (const table of ['messages', 'artifacts']) {
    await app.sql(`update ${table} set bytes = null where todo_id = $1`, [todo.id])
  }
  const tooMuch = worker.call('todos.say', { ...todo.held, message: saying('y'.repeat(200_000)) })
  expect(await apiError(tooMuch)).toMatchObject({ reason: 'limit', limit: MOST_BYTES })
  expect(await countedIn(todo.id)).toMatchObject({ documents: null, bytes: null })
  await worker.call('todos.say', { ...todo.held, message: saying('z') })
  const { documents, bytes, rows, measured } = await countedIn(todo.id)
  expect([documents, bytes]).toEqual([rows, measured])
  await worker.call('todos.complete', todo.held)
})

test('messages to live tasks count in sendPerMinute', async () => {
  const sender = await app.vend(['send', 'answer'], ['desk'])
  const sending = a2aClient(app.url, 'desk', sender.token)
  await operate(app, 'endpoints.update', { id: sender.endpoint.id, sendPerMinute: 3 })
  const { id } = await sending.submit('one')
  const again = () => sending.send('two', { taskId: id }, { returnImmediately: true })
  expect((await again()).error).toBeUndefined()
  const params = { id, message: { parts: [{ text: 'three' }] } }
  const answer = () => rpc(`${app.url}/operator`, 'todos.answer', params, { token: sender.token })
  expect((await answer()).error).toBeUndefined()
  expect((await again()).error.data[0].reason).toBe('RATE_LIMITED')
  expect((await answer()).error.data.reason).toBe('rate_limited')
  await operate(app, 'todos.cancel', { id })
})

test('the settings take what is within their bounds and nothing else', async () => {
  for (const [key, values] of [
    ['todo_max_bytes', ['1048575', '268435457', 'many']],
    ['todo_max_documents', ['99', '1000001', '-1']],
  ] as const) {
    for (const value of values) {
      const refused = await refusalOf(operate(app, 'settings.set', { key, value }))
      expect(refused.code).toBe(-32602)
    }
  }
})

test('an agent whose message finds no room ends its todo without it', async () => {
  const { id } = await a2a.submit('x')
  const kit = createAgent({ url: app.url, token: agent.token }, async (ctx) => {
    await fill(id, { bytes: MOST_BYTES + 8_388_608 })
    await ctx.reject('no, because of this and that')
  })
  kit.start()
  try {
    await until(async () => (await a2a.get(id)).status.state === 'TASK_STATE_REJECTED')
  } finally {
    await kit.stop()
  }
})

test('what a claim has no room for is read page by page, and small todos behind it are claimed', async () => {
  await limit(33_554_432, 20_000)
  const { id } = await a2a.submit('x')
  const first = await worker.claim()
  const text = 'y'.repeat(3_000_000)
  for (const append of [false, true, true]) {
    const artifact = { artifactId: 'a', ...saying(text) }
    await worker.call('todos.artifact', { ...first.held, artifact, append })
  }
  await worker.call('todos.release', first.held)
  const small = (await a2a.submit('small')).id
  const { todos } = await worker.call('todos.claim', { limit: 10 })
  expect(todos.map((todo: Answer) => todo.id)).toEqual([id])
  expect(todos[0].omitted.artifactBytes).toBeGreaterThan(9_000_000)
  const held = { id, fence: todos[0].fence }
  expect(await apiError(worker.call('todos.documents', { ...held, fence: '1' }))).toMatchObject({
    reason: 'stale_fence',
  })
  expect((await worker.claim()).id).toBe(small)
  await worker.call('todos.release', held)

  let seen: number[] = []
  const kit = createAgent({ url: app.url, token: agent.token }, (ctx) => {
    seen = (ctx.todo.artifacts[0]?.parts ?? []).map((part) => part.text?.length ?? 0)
  })
  kit.start()
  try {
    await until(async () => (await a2a.get(id)).status.state === 'TASK_STATE_COMPLETED')
  } finally {
    await kit.stop()
  }
  expect(seen).toEqual([3_000_000, 3_000_000, 3_000_000])
})

test('results of children that a claim has no room for are read one by one', async () => {
  await limit(33_554_432, 20_000)
  await app.queue('below', { contexts: 'parallel' })
  const elder = await app.vend(['work', 'send'], ['desk', 'below'])
  const parents = agentClient(app.url, elder.token)
  await a2a.submit('x')
  const parent = await parents.claim({ queues: ['desk'] })
  const message = saying('child')
  const { children } = await parents.call('todos.fork', {
    ...parent.held,
    children: [1, 2, 3].map(() => ({ queue: 'below', message })),
  })
  const ids = children.map((child: Answer) => child.id)
  await parents.call('todos.join', { ...parent.held, children: ids, until: 'all' })
  const note = 'z'.repeat(1_500_000)
  for (const _ of ids) {
    const child = await parents.claim({ queues: ['below'] })
    await parents.call('todos.complete', { ...child.held, result: { note } })
  }
  const again = await parents.claim({ queues: ['desk'] })
  expect(again.children.map(({ result }: Answer) => result !== null)).toEqual([true, true, false])
  const [, , left] = again.children
  expect(left.resultBytes).toBeGreaterThan(1_500_000)
  const read = await parents.call('todos.child', { ...again.held, child: left.id })
  expect(read).toMatchObject({ id: left.id, result: { note } })
  const stranger = (await a2a.submit('x')).id
  expect(
    await apiError(parents.call('todos.child', { ...again.held, child: stranger })),
  ).toMatchObject({
    reason: 'not_found',
  })
  await parents.call('todos.release', again.held)

  let lengths: unknown[] = []
  const kit = createAgent({ url: app.url, token: agent.token }, (ctx) => {
    if (ctx.todo.id !== parent.id) return
    lengths = ctx.todo.children.map(({ result }) => String(result?.note).length)
  })
  kit.start()
  try {
    await until(async () => (await a2a.get(parent.id)).status.state === 'TASK_STATE_COMPLETED')
  } finally {
    await kit.stop()
  }
  expect(lengths).toEqual([1_500_000, 1_500_000, 1_500_000])
})
