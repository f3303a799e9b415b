// Moves of holders that come together share statements: each is as it would have been alone.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { rule } from '../../src/domain/lifecycle.ts'
import { BATCHED } from '../../src/store/move/verbs.ts'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, refusalOf, saying } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk')
const other = await app.vend(['work'], ['desk'], { name: 'other' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const claimMany = async (count: number): Promise<Answer[]> => {
  await Promise.all(Array.from({ length: count }, (_, n) => a2a.submit(`text ${10 + n}`)))
  const found: Answer[] = []
  while (found.length < count) {
    const { todos } = await worker.call('todos.claim', { limit: count, waitMs: 25_000 })
    found.push(...todos)
  }
  return found.map((todo) => ({ ...todo, held: { id: todo.id, fence: todo.fence } }))
}

/** What is stored of a todo, moments and ids left out. */
const storedOf = async (id: string): Promise<unknown> => {
  const [row] = await app.sql<{ all: Answer }>(
    `select json_build_object('todo', (select to_json(t) from todos t where t.id = $1),
      'events', (select json_agg(e order by e.seq) from events e where e.todo_id = $1),
      'messages', (select json_agg(m order by m.seq) from messages m where m.todo_id = $1),
      'artifacts', (select json_agg(a order by a.seq) from artifacts a where a.todo_id = $1),
      'attempts', (select json_agg(a order by a.seq) from attempts a where a.todo_id = $1),
      'details', (select to_json(d) from details d where d.todo_id = $1)) as all`,
    [id],
  )
  const same = (value: Answer, name = ''): unknown => {
    if (typeof value === 'string') {
      if (/_at$|^at$/.test(name)) return 'a moment'
      if (/_id$|^id$|^line$|Id$/.test(name)) return 'an id'
      return value.replace(/text \d+/g, 'text')
    }
    if (name === 'position' || name === 'id') return 'a number'
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((each) => same(each))
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, same(each, key)]))
  }
  return same(row!.all)
}

test('a crowd of holders writes what each of them would have written alone', async () => {
  const todos = await claimMany(25)
  const steps: ((todo: Answer) => Promise<unknown>)[] = [
    ({ held }) => worker.call('todos.heartbeat', { ...held, leaseSeconds: 600 }),
    ({ held }) => worker.call('todos.progress', { ...held, percent: 5, note: 'begun' }),
    ({ held }) =>
      worker.call('todos.say', { ...held, message: { ...saying('half'), messageId: 's' } }),
    ({ held }) =>
      worker.call('todos.artifact', {
        ...held,
        artifact: { artifactId: 'a', name: 'n', parts: [{ data: { x: [1, null] } }] },
        lastChunk: true,
      }),
    ({ held }) =>
      worker.call('todos.complete', {
        ...held,
        message: { ...saying('end'), messageId: 'e' },
        result: { ok: true },
        summary: 'done it',
      }),
  ]
  const [first, ...crowd] = todos
  for (const step of steps) await step(first)
  for (const step of steps) await Promise.all(crowd.map(step))
  const alone = await storedOf(first.id)
  for (const { id } of crowd) expect(await storedOf(id)).toEqual(alone)
})

test('each of a crowd hears its own refusal, and harms none of the others', async () => {
  const todos = await claimMany(8)
  const [asking, owed, done] = todos
  await ask(worker, asking, 'which?')
  await a2a.submit('more', { taskId: owed.id })
  await worker.call('todos.complete', done.held)
  const stranger = agentClient(app.url, other.token)
  const answers = await Promise.all([
    worker.call('todos.complete', todos[3].held),
    refusalOf(worker.call('todos.complete', asking.held)),
    refusalOf(worker.call('todos.complete', owed.held)),
    refusalOf(worker.call('todos.complete', { ...done.held, message: saying('another answer') })),
    refusalOf(worker.call('todos.complete', { id: randomUUID(), fence: '1' })),
    refusalOf(worker.call('todos.complete', { id: 'no uuid', fence: '1' })),
    refusalOf(worker.call('todos.complete', { ...todos[4].held, fence: '999' })),
    refusalOf(stranger.call('todos.complete', todos[5].held)),
    worker.call('todos.complete', todos[6].held),
    worker.call('todos.complete', todos[7].held),
  ])
  expect(answers.map((answer) => answer.state ?? answer.data.reason)).toEqual([
    'done',
    'wrong_state',
    'unread_messages',
    'stale_fence',
    'not_found',
    'not_found',
    'stale_fence',
    'stale_fence',
    'done',
    'done',
  ])
  expect(answers[2].data.unread).toHaveLength(1)
})

test('the same completion twenty times at once counts once, and each is answered as the first', async () => {
  const todos = await claimMany(3)
  const calls = todos.flatMap(({ held }) =>
    Array.from({ length: 20 }, () =>
      worker.call('todos.complete', held).then(
        () => 'done',
        (thrown) => thrown.error.data.reason,
      ),
    ),
  )
  const outcomes = await Promise.all(calls)
  expect(outcomes).toEqual(calls.map(() => 'done'))
  for (const { id } of todos) {
    const ends = await app.sql(`select from events where todo_id = $1 and verb = 'complete'`, [id])
    expect(ends).toHaveLength(1)
  }
})

test('a message id that is there already refuses its own move, not those that came with it', async () => {
  const todos = await claimMany(6)
  const say = ({ held }: Answer, text: string) =>
    worker.call('todos.say', { ...held, message: { ...saying(text), messageId: 'twice' } })
  await say(todos[0], 'what was said before')
  const outcomes = await Promise.all(
    todos.map((todo) =>
      say(todo, 'something else').then(
        () => 'said',
        (thrown) => thrown.error.data.reason,
      ),
    ),
  )
  expect(outcomes).toEqual(['duplicate', 'said', 'said', 'said', 'said', 'said'])
})

test('what is gathered moves nobody to the front of a line', () => {
  // Several of one line could not all come to its front in one statement.
  for (const verb of BATCHED) expect(['done', 'same']).toContain(rule(verb).to)
})
