/**
 * A todo of the largest size that is allowed, with small ones beside it: it is claimed, shown, listed,
 * canceled, retried and deleted as they are, and they are done while it is under way.
 * Field cases: a large todo before small ones.
 */
import { afterAll, expect, test } from 'vitest'
import { createAgent } from '../../src/agent-kit/agent.ts'
import type { Context } from '../../src/agent-kit/context.ts'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { openBoard, operate, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ tidyMs: 50, placeMs: 50 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel', retentionDays: 1 })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const MIB = 1_048_576
/** The default bound, less what the first message and the JSON around the texts take. */
const CHUNKS = 10
const CHUNK = 'x'.repeat(3 * MIB)
const MESSAGE = 'y'.repeat(Math.floor(1.9 * MIB))

interface Large {
  id: string
  artifacts: number
}

/** A todo that is full but for a few bytes, handed back. */
const makeLarge = async (): Promise<Large> => {
  const { id } = await a2a.submit('the large one')
  const { held } = await worker.claim()
  const chunk = (n: number) => ({
    ...held,
    artifact: { artifactId: 'report', parts: [{ text: CHUNK }], metadata: { n } },
    append: n > 0,
  })
  for (let n = 0; n < CHUNKS; n += 1) await worker.call('todos.artifact', chunk(n))
  await a2a.submit(MESSAGE, { taskId: id })
  await expect(worker.call('todos.artifact', chunk(CHUNKS))).rejects.toMatchObject({
    error: { data: { reason: 'limit', limit: 32 * MIB } },
  })
  await worker.call('todos.release', held)
  return { id, artifacts: CHUNKS }
}

const large = await makeLarge()
const small: string[] = []
for (const text of ['one', 'two', 'three']) small.push((await a2a.submit(text)).id)

/** How long each takes of the large one and of a small one, for whoever reads the test's output. */
const times = new Map<string, number[]>()
const timed = async <T>(what: string, call: () => Promise<T>): Promise<T> => {
  const start = performance.now()
  try {
    return await call()
  } finally {
    times.set(what, [...(times.get(what) ?? []), performance.now() - start])
  }
}
afterAll(() => {
  for (const [what, [ofLarge, ofSmall]] of times) {
    const beside = ofSmall === undefined ? '' : `, of a small one ${ofSmall.toFixed(0)} ms`
    process.stdout.write(`${what}: ${ofLarge?.toFixed(0)} ms${beside}\n`)
  }
})

/** All pages of `todos.documents`, the largest of them in bytes. */
const readAll = async (call: (after: number) => Promise<Answer>) => {
  const documents: Answer[] = []
  let largest = 0
  for (let after: number | null = 0; after !== null; ) {
    const page: Answer = await call(after)
    largest = Math.max(largest, JSON.stringify(page).length)
    documents.push(...page.documents)
    after = page.next
  }
  return { documents, largest }
}

test('it is claimed by itself, and the small ones behind it are claimed by the next', async () => {
  const claim = () => timed('claim', () => worker.call('todos.claim', { limit: 10 }))
  const { todos } = await claim()
  const [first] = todos
  expect(todos.map(({ id }: Answer) => id)).toEqual([large.id])
  expect(first.message.parts).toEqual([{ text: 'the large one' }])
  expect(first.omitted).toEqual({ messages: 0, artifactBytes: expect.any(Number) })
  expect(first.omitted.artifactBytes).toBeGreaterThan(30 * MIB)
  expect(first.artifacts).toEqual([])
  const rest = await claim()
  expect(rest.todos.map(({ id }: Answer) => id)).toEqual(small)

  const held = { id: first.id, fence: first.fence }
  const { documents, largest } = await readAll((after) =>
    worker.call('todos.documents', { ...held, after }),
  )
  // No page has more than a page's worth, or one document that is larger by itself.
  expect(largest).toBeLessThan(4_100_000)
  expect(documents.map(({ seq }) => seq)).toEqual(
    documents.map(({ seq }) => seq).sort((a, b) => a - b),
  )
  expect(documents.filter(({ artifact }) => artifact)).toHaveLength(CHUNKS)
  expect(
    documents.filter(({ unread }) => unread).map(({ message }) => message.parts[0].text),
  ).toEqual([MESSAGE])
  for (const todo of [first, ...rest.todos]) {
    await worker.call('todos.release', { id: todo.id, fence: todo.fence })
  }
})

test('a claim of several takes as many as fit, and the next takes the others', async () => {
  const { client: sender, agent: taker } = await app.queue('fits', { contexts: 'parallel' })
  const sending = a2aClient(app.url, 'fits', sender.token)
  const taking = agentClient(app.url, taker.token)
  const ids: string[] = []
  for (let n = 0; n < 6; n += 1) ids.push((await sending.submit('z'.repeat(3_000_000))).id)
  const claimed: string[] = []
  for (const expected of [2, 2, 2]) {
    const { todos } = await taking.call('todos.claim', { limit: 6 })
    expect(todos).toHaveLength(expected)
    for (const todo of todos) {
      expect(todo.omitted).toBeUndefined()
      expect(todo.message.parts[0].text).toHaveLength(3_000_000)
      claimed.push(todo.id)
      await taking.call('todos.complete', { id: todo.id, fence: todo.fence })
    }
  }
  expect(claimed).toEqual(ids)
})

test('a handler of the kit sees all of it, while the small ones are done beside it', async () => {
  const done: string[] = []
  let seen: Context['todo'] | undefined
  const kit = createAgent({ url: app.url, token: agent.token, concurrency: 2 }, async (ctx) => {
    if (ctx.todo.id !== large.id) {
      done.push(ctx.todo.id)
      return
    }
    seen = structuredClone(ctx.todo)
    await until(() => done.length === small.length)
    const messages = await ctx.messages()
    expect(messages.map(({ parts }) => parts[0]?.text)).toEqual([MESSAGE])
    await ctx.fail(new Error('not today'), { retryable: false })
  })
  kit.start()
  try {
    const stateOf = async (id: string) => (await operate(app, 'todos.why', { id })).why
    await until(async () => /failed|dead/.test(await stateOf(large.id)))
  } finally {
    await kit.stop()
  }
  expect(done.sort()).toEqual([...small].sort())
  expect(seen?.omitted).toBeUndefined()
  const [report, ...others] = seen?.artifacts ?? []
  expect(others).toEqual([])
  expect(report?.parts).toHaveLength(CHUNKS)
  expect(report?.metadata).toEqual({ n: CHUNKS - 1 })
  expect(seen?.history.at(-1)?.parts[0]?.text).toBe(MESSAGE)
})

test('its client, its operator and the board see it, as much of it as an answer shows', async () => {
  const task = await timed('GetTask', () => a2a.get(large.id))
  await timed('GetTask', () => a2a.get(small[0]!))
  expect(task.artifacts[0].parts).toHaveLength(CHUNKS)
  expect(task.metadata?.['urn:switchboard:omitted']).toBeUndefined()
  const { tasks } = await timed('ListTasks with artifacts', async () => {
    const params = { pageSize: 10, includeArtifacts: true }
    return (await a2a.call('ListTasks', params)).result
  })
  expect(tasks.map(({ id }: Answer) => id)).toContain(large.id)
  const shown = await timed('todos.show', () => operate(app, 'todos.show', { id: large.id }))
  await timed('todos.show', () => operate(app, 'todos.show', { id: small[0] }))
  expect(shown.events.length).toBeGreaterThan(CHUNKS)
  const { documents } = await timed('all of todos.documents', () =>
    readAll((after) => operate(app, 'todos.documents', { id: large.id, after })),
  )
  expect(documents.length).toBe(CHUNKS + 2)
  expect((await operate(app, 'todos.list', {})).todos.map(({ id }: Answer) => id)).toContain(
    large.id,
  )
  const board = await openBoard(app, 'queue=desk')
  const { json } = (await board.next())!
  board.close()
  expect(json.lanes.ended.todos.map(({ id }: Answer) => id)).toContain(large.id)
})

test('beyond what an answer holds GetTask says so, and all else goes on', async () => {
  // As if its bound had been higher once.
  await app.sql(
    `insert into artifacts (todo_id, artifact_id, seq, append, last_chunk, artifact)
    select todo_id, 'more', seq, append, last_chunk, artifact from artifacts where todo_id = $1 and seq > 2`,
    [large.id],
  )
  await app.sql('update todos set document_bytes = null, documents = null where id = $1', [
    large.id,
  ])
  const { error } = await a2a.call('GetTask', { id: large.id })
  expect(error.data[0]).toMatchObject({
    reason: 'LIMIT_REACHED',
    metadata: { limit: String(32 * MIB) },
  })
  const { tasks } = (await a2a.call('ListTasks', { includeArtifacts: true })).result
  const listed = tasks.find(({ id }: Answer) => id === large.id)
  expect(listed.metadata['urn:switchboard:omitted'].artifactBytes).toBeGreaterThan(32 * MIB)
  expect(listed.artifacts).toEqual([])
  const shown = await operate(app, 'todos.show', { id: large.id })
  expect(shown.omitted.artifactBytes).toBeGreaterThan(32 * MIB)
})

test('it is retried, the new one is canceled, and both are deleted', async () => {
  const again = await timed('todos.retry', () => operate(app, 'todos.retry', { id: large.id }))
  expect(again.message.parts).toEqual([{ text: 'the large one' }])
  const todo = await worker.claim()
  expect(todo.id).toBe(again.id)
  for (let n = 0; n < 4; n += 1) {
    const artifact = { artifactId: String(n), ...saying(CHUNK) }
    await worker.call('todos.artifact', { ...todo.held, artifact })
  }
  const other = (await a2a.submit('a small one')).id
  for (const id of [again.id, other]) {
    const { result } = await timed('CancelTask', () => a2a.call('CancelTask', { id }))
    expect(result.status.state).toBe('TASK_STATE_CANCELED')
  }
  const rowsOf = async (id: string): Promise<number> => {
    const [found] = await app.sql<{ rows: number }>(
      `select (select count(*)::int from todos where id = $1)
        + (select count(*)::int from artifacts where todo_id = $1) as rows`,
      [id],
    )
    return found!.rows
  }
  for (const id of [large.id, small[0]!, again.id, other]) {
    const old = `update todos set finished_at = now() - interval '3 days' where id = $1`
    await app.sql(old, [id])
    await timed('deleted', () => until(async () => (await rowsOf(id)) === 0))
  }
})
