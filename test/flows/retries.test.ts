// Field cases: rejected is final; bounded attempt history; not every failure is retried;
// bounds of leases and attempts.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import {
  attemptsOf,
  lapseLease,
  loseClaim,
  makeDue,
  metric,
  openBoard,
  operate,
  refusalOf,
  saying,
} from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

// With a poll a minute away, what is announced is what moves things.
const app = await startApp({ pollMs: 60_000 })
const { client, agent } = await app.queue('desk', {
  contexts: 'parallel',
  maxAttempts: 5,
  backoff: { initialSeconds: 1000, factor: 2, maxSeconds: 10_000, jitter: 0 },
})
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const error = { code: 'boom', message: 'it broke' }

const submitAndClaim = async () => {
  await a2a.submit('x')
  return worker.claim()
}
const secondsToRetry = async (id: string): Promise<number> =>
  (
    await app.sql<{ left: number }>(
      'select extract(epoch from next_retry_at - now())::float8 as left from todos where id = $1',
      [id],
    )
  )[0]!.left

test('a failure is tried again after a growing pause, is submitted meanwhile, and at the cap is a dead letter', async () => {
  let todo = await submitAndClaim()
  for (const [attempt, pause] of [
    [1, 1000],
    [2, 2000],
    [3, 4000],
    [4, 8000],
  ] as const) {
    expect(todo.attempt).toBe(attempt)
    const failed = await worker.call('todos.fail', { ...todo.held, error })
    expect(failed).toMatchObject({ state: 'failed', deadLetter: false })
    const left = await secondsToRetry(todo.id)
    expect(left).toBeGreaterThan(pause - 30)
    expect(left).toBeLessThanOrEqual(pause)
    expect((await a2a.get(todo.id)).status.state).toBe('TASK_STATE_SUBMITTED')
    expect((await worker.call('todos.claim', {})).todos).toEqual([])
    await makeDue(app, todo.id)
    todo = await worker.claim({ waitMs: 0 })
    expect(todo.priorAttempts[0]).toMatchObject({ attempt, outcome: 'failed', died: false })
  }
  expect(await worker.call('todos.fail', { ...todo.held, error })).toEqual({
    state: 'failed',
    deadLetter: true,
    nextRetryAt: null,
  })
  expect((await a2a.get(todo.id)).status.state).toBe('TASK_STATE_FAILED')
  expect((await attemptsOf(app, todo.id)).map(({ disposition }) => disposition)).toEqual([
    ...Array(4).fill('retry_scheduled'),
    'dead_lettered',
  ])
})

test('a failure that is not to be retried is the end at the first attempt', async () => {
  const todo = await submitAndClaim()
  await worker.call('todos.fail', { ...todo.held, error, retryable: false })
  expect((await a2a.get(todo.id)).status.state).toBe('TASK_STATE_FAILED')
  expect(await attemptsOf(app, todo.id)).toMatchObject([{ disposition: 'dead_lettered' }])
  expect((await worker.call('todos.claim', {})).todos).toEqual([])
})

test('the agent may say when to try again', async () => {
  const todo = await submitAndClaim()
  const failed = await worker.call('todos.fail', { ...todo.held, error, retryInSeconds: 60 })
  expect(await secondsToRetry(todo.id)).toBeLessThanOrEqual(60)
  expect(failed.nextRetryAt).toMatch(/Z$/)
  await a2a.call('CancelTask', { id: todo.id })
})

test('a retry that comes due is announced as ready once, and nobody has to poll for it', async () => {
  const board = await openBoard(app, 'queue=desk')
  const todo = await submitAndClaim()
  await worker.call('todos.fail', { ...todo.held, error, retryInSeconds: 3600 })
  const waiting = worker.call('todos.claim', { waitMs: 25_000 })
  await until(async () => (await metric(app, 'switchboard_waiting_claims')) === 1)
  await a2a.get(todo.id)
  await makeDue(app, todo.id)
  const { todos } = await waiting
  expect(todos).toMatchObject([{ id: todo.id, attempt: 2 }])
  const seen = await board.until(({ json }) => json.id === todo.id && json.attempt === 2)
  board.close()
  expect(
    seen
      .filter(({ event, json }) => event === 'ready' && json.id === todo.id)
      .map(({ json }) => json.reason),
  ).toEqual(['created', 'retried'])
  await worker.call('todos.complete', { id: todo.id, fence: todos[0].fence })
})

test('a rejection is final on the first attempt, carries its reason and is counted apart', async () => {
  const rejected = 'switchboard_todos_finished_total{queue="desk",state="rejected"}'
  const failed = 'switchboard_todos_finished_total{queue="desk",state="failed"}'
  const before = [await metric(app, rejected), await metric(app, failed)] as const
  const todo = await submitAndClaim()
  await worker.call('todos.reject', { ...todo.held, message: saying('not my trade') })
  expect((await a2a.get(todo.id)).status).toMatchObject({
    state: 'TASK_STATE_REJECTED',
    message: { parts: [{ text: 'not my trade' }] },
  })
  expect(await attemptsOf(app, todo.id)).toMatchObject([
    { outcome: 'rejected', disposition: 'rejected' },
  ])
  expect(await metric(app, rejected)).toBe(before[0] + 1)
  expect(await metric(app, failed)).toBe(before[1])
  expect((await worker.call('todos.claim', {})).todos).toEqual([])
})

test('the history tells each attempt in order, whose it was and how it ended, in bounded words', async () => {
  const { id } = await a2a.submit('x')
  const claim = (claimant: string) => worker.claim({ claimant })
  const first = await claim('one')
  const huge = 'x'.repeat(3_000_000)
  await worker.call('todos.fail', {
    ...first.held,
    error: { code: 'boom', message: huge },
    retryInSeconds: 0,
  })
  await claim('two')
  await lapseLease(app, id)
  await app.sweep.reap()
  const third = await claim('three')
  await worker.call('todos.release', { ...third.held, summary: huge })
  const fourth = await claim('four')
  expect(fourth.attemptsTotal).toBe(4)
  expect(fourth.priorAttempts.map(({ claimant }: Answer) => claimant)).toEqual([
    'three',
    'two',
    'one',
  ])
  await worker.call('todos.complete', { ...fourth.held, summary: 'all is well' })
  const attempts = await attemptsOf(app, id)
  expect(attempts).toMatchObject([
    { seq: 1, claimant: 'one', outcome: 'failed', disposition: 'retry_scheduled' },
    { seq: 2, claimant: 'two', outcome: 'reaped', disposition: 'requeued', died: true },
    { seq: 3, claimant: 'three', outcome: 'released', disposition: 'requeued' },
    { seq: 4, claimant: 'four', outcome: 'completed', disposition: 'done', summary: 'all is well' },
  ])
  for (const { claimedAt, endedAt, summary } of attempts) {
    expect(Date.parse(endedAt)).toBeGreaterThanOrEqual(Date.parse(claimedAt))
    expect((summary ?? '').length).toBeLessThanOrEqual(2000)
  }
  const [{ bytes }] = (await app.sql<{ bytes: number }>(
    `select (select sum(pg_column_size(e.*)) from events e where e.todo_id = $1)::int
      + (select sum(pg_column_size(a.*)) from attempts a where a.todo_id = $1)::int
      + (select sum(pg_column_size(d.*)) from details d where d.todo_id = $1)::int as bytes`,
    [id],
  )) as [{ bytes: number }]
  expect(bytes).toBeLessThan(30_000)
})

test('hundreds of attempts leave a todo quick to read, with the newest shown', async () => {
  const N = 300
  const { id } = await a2a.submit('x')
  await app.sql(
    `insert into attempts (todo_id, seq, attempt, endpoint_id, claimant, claimed_at, ended_at,
       outcome, disposition, summary)
     select $1, n, 1, $2, 'many', now(), now(), 'released', 'requeued', repeat('x', 2000)
     from generate_series(1, $3::int) n`,
    [id, agent.endpoint.id, N],
  )
  await app.sql('update todos set attempts_total = $2 where id = $1', [id, N])
  const shown = await operate(app, 'todos.show', { id })
  expect(shown.attempts.length).toBeLessThanOrEqual(100)
  expect(shown.attempts[0].seq).toBe(N)
  const todo = await worker.claim()
  expect(todo.id).toBe(id)
  expect(todo.priorAttempts.map(({ seq }: Answer) => seq)).toEqual([N, N - 1, N - 2, N - 3, N - 4])
  const started = performance.now()
  for (let i = 0; i < 10; i += 1) await a2a.get(id)
  expect((performance.now() - started) / 10).toBeLessThan(scaled(100))
  await worker.call('todos.complete', todo.held)
})

test('with one attempt allowed there is one run, whether it fails or its lease is lost', async () => {
  const once = await app.queue('once', { maxAttempts: 1 })
  const send = a2aClient(app.url, 'once', once.client.token)
  const side = agentClient(app.url, once.agent.token)
  const failed = await send.submit('x')
  const todo = await side.claim()
  expect(await side.call('todos.fail', { ...todo.held, error, retryInSeconds: 0 })).toMatchObject({
    deadLetter: true,
  })
  const lost = await send.submit('x')
  await side.claim()
  await lapseLease(app, lost.id)
  expect((await side.call('todos.claim', {})).todos).toEqual([])
  await app.sweep.reap()
  for (const { id } of [failed, lost]) {
    expect((await send.get(id)).status.state).toBe('TASK_STATE_FAILED')
    expect(await attemptsOf(app, id)).toHaveLength(1)
  }
})

test.each([0, -1, 1.5, 101, '5'])(
  'maxAttempts of %j is refused at the door',
  async (maxAttempts) => {
    const params = { name: 'desk', policy: { maxAttempts } }
    expect((await refusalOf(operate(app, 'queues.put', params))).code).toBe(-32602)
  },
)

test('a todo that no agent serves stays submitted, shows its age and can be canceled', async () => {
  const line = await app.queue('deserted')
  const send = a2aClient(app.url, 'deserted', line.client.token)
  const { id } = await send.submit('x')
  await app.sql(
    `update todos set due_at = now() - interval '10 minutes',
       created_at = now() - interval '10 minutes' where id = $1`,
    [id],
  )
  await app.sweep.reap()
  expect((await send.get(id)).status.state).toBe('TASK_STATE_SUBMITTED')
  const age = await metric(app, 'switchboard_queue_oldest_pending_seconds{queue="deserted"}')
  expect(age).toBeGreaterThanOrEqual(600)
  expect((await send.call('CancelTask', { id })).result.status.state).toBe('TASK_STATE_CANCELED')
})

test.each(['takes over from a holder that went silent', 'takes over a claim that was lost'])(
  'a claim that %s tells of that attempt what the attempts themselves say from then on',
  async (kind) => {
    const lost = kind.endsWith('lost')
    const first = await submitAndClaim()
    if (!lost) await worker.call('todos.heartbeat', first.held)
    await (lost ? loseClaim : lapseLease)(app, first.id)
    const second = await worker.claim({ waitMs: 0 })
    const { attempts } = await operate(app, 'todos.show', { id: first.id })
    const [prior] = second.priorAttempts
    const shown = attempts.find(({ seq }: Answer) => seq === 1)
    expect(prior).toEqual(Object.fromEntries(Object.keys(prior).map((key) => [key, shown[key]])))
    expect(prior).toMatchObject({ seq: 1, died: true, lastHeartbeatAt: expect.any(String) })
    await worker.call('todos.complete', second.held)
  },
)

test('a task that is done keeps nothing of what its earlier attempts failed with', async () => {
  const shownResult = async (id: string) => (await operate(app, 'todos.show', { id })).result
  for (const result of [undefined, { table: 7 }]) {
    const todo = await submitAndClaim()
    await worker.call('todos.fail', { ...todo.held, error })
    expect(await shownResult(todo.id)).toMatchObject({ error: 'boom' })
    await makeDue(app, todo.id)
    const again = await worker.claim({ waitMs: 0 })
    const completion = { ...again.held, ...(result && { result }) }
    await worker.call('todos.complete', completion)
    expect((await shownResult(todo.id)) ?? null).toEqual(result ?? null)
    // And is answered alike when the call is made again.
    expect(await worker.call('todos.complete', completion)).toEqual({ state: 'done' })
  }
})
