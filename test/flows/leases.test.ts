// Field cases: one finish only; one claim per todo; a lost lease is lost; heartbeats keep a lease;
// handing back is not failing; one expiry, several reapers; bounds of leases and attempts.
import { expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import {
  attemptsOf,
  lapseLease,
  metric,
  operate,
  refusalOf,
  rowCounts,
  saying,
  statesOf,
} from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const colleague = agentClient(app.url, (await app.vend(['work'], ['desk'])).token)
const error = { code: 'boom', message: 'it broke' }

const submitAndClaim = async (params = {}) => {
  await a2a.submit('x')
  return worker.claim(params)
}
const secondsLeft = async (id: string): Promise<number> =>
  (
    await app.sql<{ left: number }>(
      'select extract(epoch from lease_expires_at - now())::float8 as left from todos where id = $1',
      [id],
    )
  )[0]!.left

test('200 todos and 50 agents on three nodes: each todo has one attempt and no claim fails', async () => {
  const queue = 'crowd'
  const line = await app.queue(queue, { contexts: 'parallel' })
  const nodes = await Promise.all([1, 2].map(() => startNode(app.databaseUrl)))
  const urls = [app.url, ...nodes.map(({ url }) => url)]
  const send = a2aClient(app.url, queue, line.client.token)
  const ids = (await Promise.all(Array.from({ length: 200 }, (_, i) => send.submit(`n${i}`)))).map(
    ({ id }) => id,
  )
  const claimed: string[] = []
  await Promise.all(
    Array.from({ length: 50 }, async (_, i) => {
      const side = agentClient(urls[i % urls.length]!, line.agent.token)
      for (;;) {
        const { todos } = await side.call('todos.claim', { claimant: `agent ${i}` })
        if (todos.length === 0) return
        for (const { id, fence } of todos) {
          claimed.push(id)
          await side.call('todos.complete', { id, fence })
        }
      }
    }),
  )
  expect(claimed.toSorted()).toEqual(ids.toSorted())
  const rows = await app.sql(
    `select count(*)::int as attempts, count(distinct a.todo_id)::int as todos,
      count(*) filter (where outcome = 'completed')::int as completed
     from attempts a join todos t on t.id = a.todo_id where t.queue = $1 and t.state = 'done'`,
    [queue],
  )
  expect(rows).toEqual([{ attempts: 200, todos: 200, completed: 200 }])
  await Promise.all(nodes.map((node) => node.stop()))
})

test('of complete and fail at the same instant exactly one is true, and one end is told', async () => {
  const runs = Array.from({ length: 60 }, async (_, i) => {
    await a2a.submit(`race ${i}`)
    const todo = await worker.claim()
    const acts = ['complete', 'fail'].map((verb) =>
      worker
        .call(`todos.${verb}`, {
          ...todo.held,
          ...(verb === 'fail' && { error, retryable: false }),
        })
        .then(
          ({ state }) => state as string,
          ({ error }: { error: Answer }) => {
            expect(error.data.reason).toBe('stale_fence')
            return null
          },
        ),
    )
    const accepted = (await Promise.all(acts)).filter((state) => state !== null)
    expect(accepted).toHaveLength(1)
    const shown = await operate(app, 'todos.show', { id: todo.id })
    expect(shown.state).toBe(accepted[0])
    const ends = shown.events.filter(({ to }: Answer) => to === 'done' || to === 'failed')
    expect(ends).toHaveLength(1)
  })
  await Promise.all(runs)
})

test('a holder whose lease another has taken can write nothing, and the other goes on unharmed', async () => {
  const todo = await submitAndClaim()
  await lapseLease(app, todo.id)
  const taken = await colleague.claim()
  expect(taken.id).toBe(todo.id)
  expect(Number(taken.fence)).toBeGreaterThan(Number(todo.fence))
  expect(taken.priorAttempts).toMatchObject([{ attempt: 1, outcome: 'lease_expired', died: true }])
  const before = await rowCounts(app)
  const completed = await metric(
    app,
    'switchboard_attempts_ended_total{queue="desk",outcome="completed"}',
  )
  for (const [verb, more] of Object.entries({
    heartbeat: {},
    say: { message: saying('x') },
    artifact: { artifact: { artifactId: 'a', parts: [{ text: 'x' }] } },
    complete: { artifacts: [{ artifactId: 'a', parts: [{ text: 'x' }] }] },
    fail: { error },
    progress: {},
    release: {},
    reject: {},
    interrupt: { state: 'input-required', message: saying('x') },
  })) {
    const refusal = await refusalOf(worker.call(`todos.${verb}`, { ...todo.held, ...more }))
    expect([verb, refusal.code, refusal.data.reason]).toEqual([verb, -32010, 'stale_fence'])
  }
  expect(await rowCounts(app)).toEqual(before)
  expect(
    await metric(app, 'switchboard_attempts_ended_total{queue="desk",outcome="completed"}'),
  ).toBe(completed)
  await colleague.call('todos.complete', taken.held)
  expect(await attemptsOf(app, todo.id)).toMatchObject([
    { attempt: 1, outcome: 'lease_expired', disposition: 'requeued' },
    { attempt: 2, outcome: 'completed', disposition: 'done' },
  ])
})

test('a lapsed holder can write nothing in the gap before anybody took over, nor after the reaper came', async () => {
  const todo = await submitAndClaim()
  await lapseLease(app, todo.id)
  expect((await refusalOf(worker.call('todos.complete', todo.held))).data.reason).toBe(
    'stale_fence',
  )
  expect((await refusalOf(worker.call('todos.heartbeat', todo.held))).data.reason).toBe(
    'stale_fence',
  )
  await app.sweep.reap()
  expect((await refusalOf(worker.call('todos.complete', todo.held))).data.reason).toBe(
    'stale_fence',
  )
  const again = await worker.claim()
  expect(again.id).toBe(todo.id)
  expect((await refusalOf(worker.call('todos.complete', todo.held))).data.reason).toBe(
    'stale_fence',
  )
  await worker.call('todos.complete', again.held)
})

test('a heartbeat moves the end of the lease to its length from now, and five do not add up', async () => {
  const todo = await submitAndClaim({ leaseSeconds: 100 })
  await app.sql(`update todos set lease_expires_at = now() + interval '1 second' where id = $1`, [
    todo.id,
  ])
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => worker.call('todos.heartbeat', todo.held)),
  )
  const left = await secondsLeft(todo.id)
  expect(left).toBeGreaterThan(90)
  expect(left).toBeLessThanOrEqual(100)
  const ends = answers.map(({ leaseExpiresAt }) => Date.parse(leaseExpiresAt))
  expect(Math.max(...ends) - Math.min(...ends)).toBeLessThan(5000)
  expect(answers[0].state).toBe('claimed')
  // Another length counts from then on, also for the heartbeats that name none.
  await worker.call('todos.heartbeat', { ...todo.held, leaseSeconds: 1000 })
  await worker.call('todos.heartbeat', todo.held)
  expect(await secondsLeft(todo.id)).toBeGreaterThan(900)
  await app.sweep.reap()
  expect((await worker.call('todos.heartbeat', todo.held)).state).toBe('claimed')
  await worker.call('todos.complete', todo.held)
})

test('progress says that the work moves and does not extend the lease', async () => {
  const todo = await submitAndClaim({ leaseSeconds: 1000 })
  await app.sql(`update todos set lease_expires_at = now() + interval '60 seconds' where id = $1`, [
    todo.id,
  ])
  await worker.call('todos.progress', { ...todo.held, note: 'half', percent: 50 })
  await worker.call('todos.say', { ...todo.held, message: saying('x') })
  expect(await secondsLeft(todo.id)).toBeLessThanOrEqual(60)
  await worker.call('todos.complete', todo.held)
})

test('a lease is as long as the call asks, else as its endpoint has it, and bounds are refused at the door', async () => {
  const slow = await operate(app, 'endpoints.vend', {
    name: 'slow',
    queues: ['desk'],
    verbs: ['work'],
    defaultLeaseSeconds: 7200,
  })
  const side = agentClient(app.url, slow.token)
  for (const [asked, seconds] of [
    [undefined, 7200],
    [1, 1],
    [86_400, 86_400],
  ] as const) {
    await a2a.submit('x')
    const todo = await side.claim(asked === undefined ? {} : { leaseSeconds: asked })
    const left = await secondsLeft(todo.id)
    expect(left).toBeLessThanOrEqual(seconds)
    expect(left).toBeGreaterThan(seconds - 10)
    await a2a.call('CancelTask', { id: todo.id })
  }
  for (const leaseSeconds of [0, -1, 86_401, 1.5, '60']) {
    expect((await refusalOf(side.call('todos.claim', { leaseSeconds }))).code).toBe(-32602)
  }
  for (const defaultLeaseSeconds of [59, 86_401, 0, -1]) {
    const params = { name: 'x', queues: ['desk'], verbs: ['work'], defaultLeaseSeconds }
    expect((await refusalOf(operate(app, 'endpoints.vend', params))).code).toBe(-32602)
  }
})

test('a todo handed back is claimable at once, is recorded as released and costs no attempt', async () => {
  await app.queue('patient', { maxAttempts: 3 })
  const { token } = await app.vend(['send'], ['patient'])
  const side = agentClient(app.url, (await app.vend(['work'], ['patient'])).token)
  const { id } = await a2aClient(app.url, 'patient', token).submit('x')
  for (let run = 0; run < 5; run += 1) {
    const todo = await side.claim({ waitMs: 0 })
    expect(todo).toMatchObject({ id, attempt: 1, attemptsTotal: run + 1 })
    await side.call('todos.release', { ...todo.held, summary: 'going down' })
  }
  const todo = await side.claim({ waitMs: 0 })
  await side.call('todos.complete', todo.held)
  expect((await attemptsOf(app, id)).map(({ outcome }) => outcome)).toEqual([
    ...Array(5).fill('released'),
    'completed',
  ])
})

test('a hundred leases that end at once are taken back once each, whoever reaps', async () => {
  const N = 100
  const queue = 'mortal'
  const { client, agent } = await app.queue(queue, { contexts: 'parallel' })
  const send = a2aClient(app.url, queue, client.token)
  await Promise.all(Array.from({ length: N }, () => send.submit('x')))
  const { todos } = await agentClient(app.url, agent.token).call('todos.claim', { limit: 100 })
  expect(todos).toHaveLength(N)
  const nodes = await Promise.all([1, 2].map(() => startNode(app.databaseUrl)))
  const all = [app, ...nodes]
  const series = `switchboard_todo_leases_expired_total{queue="${queue}"}`
  await lapseLease(app, ...todos.map(({ id }: Answer) => id))
  // The nodes' own reapers may be at it as well.
  await Promise.all(all.flatMap((node) => [node.sweep.reap(), node.sweep.reap()]))
  const counted = async () =>
    (await Promise.all(all.map((node) => metric(node, series)))).reduce((sum, n) => sum + n)
  await until(async () => (await counted()) >= N)
  expect(await counted()).toBe(N)
  const rows = await app.sql(
    `select t.state, t.attempt, (select count(*)::int from attempts a where a.todo_id = t.id
        and a.outcome = 'reaped' and a.disposition = 'requeued') as reaped,
      (select count(*)::int from events e where e.todo_id = t.id and e.verb = 'reapLease') as events,
      count(*)::int as todos from todos t where t.queue = $1 group by 1, 2, 3, 4`,
    [queue],
  )
  expect(rows).toEqual([{ state: 'pending', attempt: 1, reaped: 1, events: 1, todos: N }])
  await Promise.all(nodes.map((node) => node.stop()))
})

test('a claim that takes a lapsed lease over counts it: the lease, and the attempt that ended', async () => {
  // No reaper that could come first.
  const app = await startApp({ reapMs: 3_600_000 })
  // With a limit on the queue the claim goes another way, and counts the same.
  for (const policy of [{}, { concurrency: 3 }]) {
    const queue = `over-${Object.keys(policy).length}`
    const line = await app.queue(queue, { contexts: 'parallel', ...policy })
    const at = agentClient(app.url, line.agent.token)
    await a2aClient(app.url, queue, line.client.token).submit('x')
    const counts = () =>
      Promise.all([
        metric(app, `switchboard_todos_claimed_total{queue="${queue}"}`),
        metric(app, `switchboard_todo_leases_expired_total{queue="${queue}"}`),
        metric(app, `switchboard_attempts_ended_total{queue="${queue}",outcome="lease_expired"}`),
      ])
    const first = await at.claim()
    expect(await counts()).toEqual([1, 0, 0])
    await lapseLease(app, first.id)
    expect(await at.claim()).toMatchObject({ id: first.id, attempt: 2 })
    expect(await counts()).toEqual([2, 1, 1])
    expect((await attemptsOf(app, first.id)).map(({ outcome }) => outcome)).toEqual([
      'lease_expired',
      null,
    ])
  }
})

test('a stream shows a lost lease as submitted again, and the second run to its end', async () => {
  const todo = await submitAndClaim()
  const stream = await a2a.stream('SubscribeToTask', { id: todo.id })
  await lapseLease(app, todo.id)
  await app.sweep.reap()
  const again = await worker.claim()
  await worker.call('todos.complete', again.held)
  expect(statesOf(await stream.rest())).toEqual([
    'TASK_STATE_WORKING',
    'TASK_STATE_SUBMITTED',
    'TASK_STATE_WORKING',
    'TASK_STATE_COMPLETED',
  ])
})

test('an acknowledgement beyond the newest message acknowledges nothing that is still to come', async () => {
  const { client: sender, agent: holder } = await app.queue('beyond')
  const sending = a2aClient(app.url, 'beyond', sender.token)
  const at = agentClient(app.url, holder.token)
  const { id } = await sending.submit('one')
  const todo = await at.claim()
  expect(await at.call('todos.acknowledge', { ...todo.held, through: 1_000_000 })).toEqual({
    unread: 0,
  })
  await sending.submit('two', { taskId: id })
  const { messages } = await at.call('todos.messages', todo.held)
  expect(messages).toHaveLength(1)
  await expect(at.call('todos.complete', todo.held)).rejects.toMatchObject({
    error: { data: { reason: 'unread_messages', unread: messages } },
  })
  await at.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
})
