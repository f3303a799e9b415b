/**
 * Calls of a holder that are made again because their answer was lost: each is done once, and answered as
 * it was the first time.
 *
 * Field cases: a call of an agent is made again.
 */
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { attemptsOf, lapseLease, refusalOf } from '../support/steps.ts'

const app = await startApp()
const { client } = await app.queue('desk', {
  contexts: 'parallel',
  backoff: { initialSeconds: 600, factor: 1, maxSeconds: 600, jitter: 0 },
})
const { token } = await app.vend(['work', 'send'], ['desk'])
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, token)
const colleague = agentClient(app.url, (await app.vend(['work', 'send'], ['desk'])).token)

const claimed = async () => {
  await a2a.submit('x')
  return worker.claim({ leaseSeconds: 600 })
}

const rowsOf = async (id: string): Promise<Answer> =>
  (
    await app.sql(
      `select (select json_agg(json_build_array(verb, detail) order by seq) from events where todo_id = $1) as events,
        (select count(*)::int from messages where todo_id = $1) as messages,
        (select json_agg(artifact order by seq) from artifacts where todo_id = $1) as artifacts,
        (select count(*)::int from todos where parent_id = $1) as children,
        (select state from todos where id = $1) as state`,
      [id],
    )
  )[0]

const said = (text: string, role = 'ROLE_AGENT') => ({
  messageId: randomUUID(),
  role,
  parts: [{ text }],
})
const artifact = { artifactId: 'a', parts: [{ text: '.' }] }
const error = { code: 'boom', message: 'it\nbroke' }
const children = [{ queue: 'desk', message: said('child', 'ROLE_USER') }]

/** What is called, and what of it makes another call. */
const CALLS: [string, () => Answer, ((params: Answer) => Answer)?][] = [
  [
    'say',
    () => ({ message: said('x') }),
    (p) => ({ message: { ...p.message, parts: [{ text: 'y' }] } }),
  ],
  [
    'artifact',
    () => ({ artifact, append: true, key: 'k' }),
    (p) => ({ ...p, artifact: { ...artifact, name: 'n' } }),
  ],
  ['artifact', () => ({ artifact, key: 'k', lastChunk: true })],
  ['fork', () => ({ children, key: 'k' }), (p) => ({ ...p, children: [...children, ...children] })],
  [
    'interrupt',
    () => ({ state: 'input-required', message: said('?') }),
    (p) => ({ ...p, message: said('??') }),
  ],
  [
    'interrupt',
    () => ({ state: 'auth-required', message: said('?'), hold: false, schema: { type: 'object' } }),
    (p) => ({ ...p, message: said('??') }),
  ],
  ['complete', () => ({}), () => ({ message: said('other') })],
  [
    'complete',
    () => ({ message: said('done'), result: { n: 1 }, summary: 's' }),
    (p) => ({ ...p, result: { n: 2 } }),
  ],
  [
    'complete',
    () => ({ message: said('done'), artifacts: [artifact, { ...artifact, artifactId: 'b' }] }),
    (p) => ({ ...p, artifacts: [{ ...artifact, name: 'n' }] }),
  ],
  ['fail', () => ({ error }), () => ({ error: { ...error, code: 'other' } })],
  [
    'fail',
    () => ({ error, message: said('sorry'), retryable: false, summary: 's' }),
    (p) => ({ ...p, message: said('no') }),
  ],
  ['release', () => ({ summary: 's', inSeconds: 600 })],
  ['reject', () => ({ message: said('no') }), () => ({ message: said('other') })],
  ['cancel', () => ({ message: said('no') }), () => ({ message: said('other') })],
]

test.each(CALLS)(
  '%s (%#) is done once and answered as the first time, for its holder only',
  async (verb, make, other) => {
    const todo = await claimed()
    const params = make()
    const call = (by: typeof worker, more: object = {}) =>
      by.call(`todos.${verb}`, { ...todo.held, ...params, ...more })
    const first = await call(worker)
    const rows = await rowsOf(todo.id)
    expect(await call(worker)).toEqual(first)
    expect(await call(worker)).toEqual(first)
    expect((await refusalOf(call(colleague))).data.reason).toBe('stale_fence')
    expect((await refusalOf(call(worker, { fence: '0' }))).data.reason).toBe('stale_fence')
    if (other) {
      const { data } = await refusalOf(call(worker, other(params)))
      expect(['stale_fence', 'wrong_state', 'duplicate', 'idempotency_conflict']).toContain(
        data.reason,
      )
    }
    expect(await rowsOf(todo.id)).toEqual(rows)
    expect((await attemptsOf(app, todo.id)).length).toBe(1)
    // Nothing of it is left for the next, where it has not ended.
    await a2a.call('CancelTask', { id: todo.id })
  },
)

test('a join is answered again although the parent waits without a holder', async () => {
  const todo = await claimed()
  const forked = await worker.call('todos.fork', { ...todo.held, children })
  const params = { ...todo.held, children: [forked.children[0].id], until: 'all' }
  const first = await worker.call('todos.join', params)
  expect(await worker.call('todos.join', params)).toEqual(first)
  // The child is in the queue, too.
  const child = await worker.claim()
  await worker.call('todos.complete', child.held)
  const parent = await worker.claim()
  expect(parent.id).toBe(todo.id)
  await worker.call('todos.complete', parent.held)
})

test('an end is no answer to a holder of later, nor to one that only lost its lease', async () => {
  const todo = await claimed()
  await lapseLease(app, todo.id)
  const end = { ...todo.held, message: said('late') }
  expect((await refusalOf(worker.call('todos.complete', end))).data.reason).toBe('stale_fence')
  const next = await worker.claim()
  expect(next.id).toBe(todo.id)
  await worker.call('todos.complete', { ...next.held, message: end.message })
  expect((await refusalOf(worker.call('todos.complete', end))).data.reason).toBe('stale_fence')
})

test('a failure that was retried meanwhile is still answered with its retry', async () => {
  const todo = await claimed()
  const first = await worker.call('todos.fail', { ...todo.held, error, retryInSeconds: 0 })
  expect(first).toMatchObject({ state: 'failed', deadLetter: false })
  const next = await worker.claim()
  expect(next.id).toBe(todo.id)
  expect(await worker.call('todos.fail', { ...todo.held, error, retryInSeconds: 0 })).toEqual(first)
  await worker.call('todos.complete', next.held)
})

test('the same chunk twice is two chunks where it has two keys, or none', async () => {
  const todo = await claimed()
  for (const key of ['one', 'two', undefined, undefined, 'one']) {
    await worker.call('todos.artifact', {
      ...todo.held,
      artifact,
      append: true,
      ...(key && { key }),
    })
  }
  expect((await rowsOf(todo.id)).artifacts).toHaveLength(4)
  await worker.call('todos.complete', todo.held)
})

test('a fork made again is answered although its children have filled the limit', async () => {
  const todo = await claimed()
  const many = Array.from({ length: 100 }, (_, n) => ({
    queue: 'desk',
    message: said(`${n}`, 'ROLE_USER'),
  }))
  const fork = (key: string) => worker.call('todos.fork', { ...todo.held, children: many, key })
  const first = await fork('0')
  for (let n = 1; n < 10; n++) await fork(`${n}`)
  expect((await refusalOf(fork('10'))).data.reason).toBe('limit')
  expect(await fork('0')).toEqual(first)
  await worker.call('todos.cancel', todo.held)
})
