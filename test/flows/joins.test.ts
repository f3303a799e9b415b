/**
 * Joins that end: by their children, by the time that their parent gave them, by the parent's own deadline.
 * And children that nobody may claim, and the limits on their time that a fork gives them.
 */
import { afterEach, expect, test } from 'vitest'
import { createAgent } from '../../src/index.ts'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { metric, operate, refusalOf } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ reapMs: 3_600_000, comeDueMs: 3_600_000 })
const { client } = await app.queue('parents', { contexts: 'parallel' })
await app.queue('children', { contexts: 'parallel' })
await app.services.operator.putQueue({ name: 'nobody' })
const a2a = a2aClient(app.url, 'parents', client.token)
const boss = await app.vend(['work', 'send'], ['parents', 'children'])
const parent = agentClient(app.url, boss.token)
const hand = agentClient(app.url, (await app.vend(['work'], ['children'])).token)
const claimParent = () => parent.claim({ queues: ['parents'] })
const noParent = async () =>
  expect((await parent.call('todos.claim', { queues: ['parents'] })).todos).toEqual([])

const child = (text: string, more = {}) => ({
  queue: 'children',
  message: { parts: [{ text }] },
  ...more,
})
const show = (id: string) => operate(app, 'todos.show', { id })
const stateOf = async (id: string): Promise<string> => (await show(id)).state
const why = (id: string): Promise<Answer> => operate(app, 'todos.why', { id })

const forked = async (count: number, more = {}, metadata = {}) => {
  const { result } = await a2a.call('SendMessage', {
    message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text: 'a job' }] },
    metadata,
    configuration: { returnImmediately: true },
  })
  const todo = await claimParent()
  expect(todo.id).toBe(result.task.id)
  const { children } = await parent.call('todos.fork', {
    ...todo.held,
    children: Array.from({ length: count }, (_, n) => child(`${n}`, more)),
  })
  return { todo, ids: children.map(({ id }: { id: string }) => id) as string[] }
}
/** The time that a join has been given is over. */
const timeIsUp = (...ids: string[]) =>
  app.sql(
    `update todos set join_timeout_at = now() - interval '1 second', alarm_at = now()
    where id = any($1::uuid[])`,
    [ids],
  )

afterEach(async () => {
  for (const { id } of await app.sql<{ id: string }>(
    'select id from todos where finished_at is null',
  )) {
    await operate(app, 'todos.cancel', { id }).catch(() => {})
  }
})

test('a parent goes on when its time is up, is told so, and leaves its children as they are', async () => {
  const { todo, ids } = await forked(2)
  await parent.call('todos.join', {
    ...todo.held,
    children: ids,
    until: 'all',
    timeoutSeconds: 600,
  })
  const { join } = await show(todo.id)
  expect(join).toMatchObject({ until: 'all', onTimeout: 'leave' })
  expect(Date.parse(join.timeoutAt) - Date.now()).toBeGreaterThan(500_000)
  const reason = await why(todo.id)
  expect(reason.until).toBe(join.timeoutAt)
  expect(reason.why).toContain('not by then by')
  const first = await hand.claim()
  await hand.call('todos.complete', first.held)
  expect(await app.sweep.timeOut()).toBe(0)
  await noParent()
  await timeIsUp(todo.id)
  expect(await app.sweep.timeOut()).toBe(1)
  const again = await claimParent()
  expect(again).toMatchObject({ id: todo.id, attempt: 1, joinTimedOutAt: expect.any(String) })
  expect(again.children.map(({ state }: Answer) => state).sort()).toEqual(['done', 'pending'])
  const { events } = await show(todo.id)
  const told = events.find(({ verb }: Answer) => verb === 'joinTimeOut')
  expect(told.ready).toBe('join_timeout')
  expect(await metric(app, 'switchboard_join_timeouts_total{queue="parents"}')).toBe(1)
  // It joins again, without a limit, and this time it holds.
  await parent.call('todos.join', { ...again.held, children: ids, until: 'all' })
  expect(await app.sweep.timeOut()).toBe(0)
  await hand.call('todos.complete', (await hand.claim()).held)
  const last = await claimParent()
  expect(last.joinTimedOutAt).toBeUndefined()
  await parent.call('todos.complete', last.held)
})

test('or has those canceled that live, with all below them; children it did not join for are left', async () => {
  const { todo, ids } = await forked(3)
  const [waited, done, other] = ids as [string, string, string]
  await app.sql(`update todos set priority = 0 where id = $1`, [done])
  await hand.call('todos.complete', (await hand.claim()).held)
  const [below] = (await operate(app, 'todos.fork', { id: waited, children: [child('below')] }))
    .children
  const join = { children: [waited, done], until: 'all', timeoutSeconds: 60, onTimeout: 'cancel' }
  await parent.call('todos.join', { ...todo.held, ...join })
  expect((await why(todo.id)).why).toContain('those that live are canceled')
  await timeIsUp(todo.id)
  await app.sweep.timeOut()
  expect(await Promise.all([waited, done, other, below.id].map(stateOf))).toEqual([
    'canceled',
    'done',
    'pending',
    'canceled',
  ])
  expect(await claimParent()).toMatchObject({ joinTimedOutAt: expect.any(String) })
})

test('what a node left undone when it died is done by the sweep, and a retried child is not canceled', async () => {
  const { todo, ids } = await forked(2, { maxAttempts: 1 })
  const join = { children: ids, until: 'all', timeoutSeconds: 60, onTimeout: 'cancel' }
  await parent.call('todos.join', { ...todo.held, ...join })
  const dead = await hand.claim()
  const error = { code: 'x', message: 'x' }
  await hand.call('todos.fail', { ...dead.held, error, retryable: false })
  // The parent was moved, and its node died before it could cancel anything.
  await app.sql(
    `update todos set join_until = null, due_at = now(), join_timeout_at = now() where id = $1`,
    [todo.id],
  )
  const { id: retried } = await operate(app, 'todos.retry', { id: dead.id })
  await app.sweep.reap()
  const other = ids.find((id) => id !== dead.id)!
  expect(await stateOf(other)).toBe('canceled')
  expect(await stateOf(retried)).toBe('pending')
})

test('a join that held all the same is told as one that held', async () => {
  const { todo, ids } = await forked(1)
  await parent.call('todos.join', { ...todo.held, children: ids, until: 'all', timeoutSeconds: 60 })
  // It ends without a word, as where the wake of its end was lost.
  await app.sql(
    `update todos set state = 'done', finished_at = now(), due_at = null, front = false where id = $1`,
    [ids[0]],
  )
  await timeIsUp(todo.id)
  const before = await metric(app, 'switchboard_join_timeouts_total{queue="parents"}')
  await app.sweep.timeOut()
  const again = await claimParent()
  expect(again.joinTimedOutAt).toBeUndefined()
  expect(again.children).toMatchObject([{ state: 'done' }])
  expect(await metric(app, 'switchboard_join_timeouts_total{queue="parents"}')).toBe(before)
})

test("the parent's own deadline goes on while it joins, and comes before a later end of the join", async () => {
  const { todo, ids } = await forked(
    1,
    {},
    { 'urn:switchboard:timeouts': { scheduleToClose: 600 } },
  )
  const join = { children: ids, until: 'all', timeoutSeconds: 6000 }
  await parent.call('todos.join', { ...todo.held, ...join })
  const { deadlines } = await show(todo.id)
  expect((await why(todo.id)).until).toBe(deadlines.scheduleToClose)
  await app.sql(`update todos set close_at = now(), alarm_at = now() where id = $1`, [todo.id])
  await app.sweep.timeOut()
  expect(await show(todo.id)).toMatchObject({
    state: 'failed',
    result: { error: 'schedule_to_close_timeout' },
  })
  expect((await show(todo.id)).joinTimedOutAt).toBeUndefined()
})

test('bad terms of a join are refused by name, and the parent keeps its todo', async () => {
  const { todo, ids } = await forked(1)
  const join = (more: object) =>
    refusalOf(parent.call('todos.join', { ...todo.held, children: ids, until: 'all', ...more }))
  for (const [field, more] of [
    ['timeoutSeconds', { timeoutSeconds: 0 }],
    ['timeoutSeconds', { timeoutSeconds: 315_360_001 }],
    ['onTimeout', { timeoutSeconds: 1, onTimeout: 'kill' }],
    ['onTimeout', { onTimeout: 'cancel' }],
    ['children', { children: Array.from({ length: 1001 }, (_, n) => `child ${n}`) }],
  ] as const) {
    const { data } = await join(more)
    expect(data.violations.map((each: Answer) => each.field)).toEqual([field])
  }
  const both = child('x', { deadlineSeconds: 5, timeouts: { scheduleToClose: 5 } })
  const { data } = await refusalOf(parent.call('todos.fork', { ...todo.held, children: [both] }))
  expect(data.violations).toMatchObject([{ field: 'children[0]' }])
  await parent.call('todos.complete', todo.held)
})

test("a fork gives a child each of its limits on time, none longer than its parent's", async () => {
  const limits = { scheduleToStart: 100, startToClose: 200, heartbeat: 30, scheduleToClose: 1000 }
  const longer = { scheduleToStart: 101, startToClose: 201, heartbeat: 31, scheduleToClose: 1001 }
  const shorter = { scheduleToStart: 99, startToClose: 199, heartbeat: 29, scheduleToClose: 999 }
  const { todo, ids } = await forked(0 + 1, {}, { 'urn:switchboard:timeouts': limits })
  const { children } = await parent.call('todos.fork', {
    ...todo.held,
    children: [child('longer', { timeouts: longer }), child('shorter', { timeouts: shorter })],
  })
  const rowOf = async (id: string): Promise<Answer> =>
    (
      await app.sql<Answer>(
        `select schedule_to_start_seconds as s, start_to_close_seconds as a, heartbeat_seconds as h,
          close_at from todos where id = $1`,
        [id],
      )
    )[0]
  const own = await rowOf(todo.id)
  expect(await rowOf(children[0].id)).toEqual(own)
  const short = await rowOf(children[1].id)
  expect(short).toMatchObject({ s: 99, a: 199, h: 29 })
  // What is not asked for is its queue's, as before.
  expect(await rowOf(ids[0]!)).toMatchObject({ s: null, a: null, h: null, close_at: own.close_at })
})

test('a child in a queue that nobody may claim from is named at once: by its parent, by itself, by a gauge', async () => {
  const gauge = () => metric(app, 'switchboard_queue_unserved_todos{queue="nobody"}')
  const vended = await app.vend(['work', 'send'], ['nobody'])
  const { todo, ids } = await forked(1)
  const [stuck] = (
    await operate(app, 'todos.fork', { id: todo.id, children: [child('x', { queue: 'nobody' })] })
  ).children
  await parent.call('todos.join', { ...todo.held, children: [...ids, stuck.id], until: 'all' })
  expect((await why(todo.id)).why).not.toContain('nobody may claim')
  expect(await app.services.operator.unservedQueues()).toEqual([])
  await operate(app, 'endpoints.revoke', {
    id: vended.caller.kind === 'endpoint' ? vended.caller.endpoint.id : '',
  })
  expect((await why(todo.id)).why).toContain(
    `${stuck.id} waits in nobody, and nobody may claim from it`,
  )
  expect((await why(stuck.id)).why).toContain('nobody may claim from nobody')
  expect(await app.services.operator.unservedQueues()).toEqual([
    { queue: 'nobody', todos: 1, children: 1, oldestSeconds: expect.any(Number) },
  ])
  await until(async () => (await gauge()) === 1)
  await app.vend(['work'], ['nobody'])
  expect((await why(todo.id)).why).not.toContain('nobody may claim')
  expect(await app.services.operator.unservedQueues()).toEqual([])
})

test('the kit forks with limits, joins for a time, and its handler finds that it ran out', async () => {
  const seen: unknown[] = []
  const kit = createAgent({ url: app.url, token: boss.token, queues: ['parents'] }, async (ctx) => {
    if (ctx.todo.children.length === 0) {
      const ids = await ctx.fork([
        { queue: 'children', message: 'part', timeouts: { heartbeat: 7 } },
      ])
      return ctx.join(ids, 'all', { timeoutSeconds: 600, onTimeout: 'cancel' })
    }
    seen.push(ctx.todo.joinTimedOutAt, ctx.todo.children.length)
    return 'went on'
  })
  kit.start()
  try {
    const { id } = await a2a.submit('a job')
    await until(async () => (await show(id)).join)
    await timeIsUp(id)
    await app.sweep.timeOut()
    await until(async () => (await stateOf(id)) === 'done')
    expect(seen).toEqual([expect.any(String), 1])
    const { children } = await show(id)
    await until(async () => (await stateOf(children[0].id)) === 'canceled')
    expect((await show(children[0].id)).deadlines.heartbeatSeconds).toBe(7)
  } finally {
    await kit.stop()
  }
})
