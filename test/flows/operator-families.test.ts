/** What an operator may do with families: the same as their agents, on any live todo. */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { withClient } from '../support/database/database.ts'
import { operate, refusalOf, UNKNOWN_ID } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ reapMs: 3_600_000 })
const { client } = await app.queue('parents', { contexts: 'parallel' })
const hands = await app.queue('children')
const boss = await app.vend(['work', 'send'], ['parents', 'children'])
const a2a = a2aClient(app.url, 'parents', client.token)
const worker = agentClient(app.url, boss.token)
const parent = {
  ...worker,
  claim: (more = {}) => worker.claim({ queues: ['parents'], ...more }),
}
const hand = agentClient(app.url, hands.agent.token)
const { operator: service } = app.services

const child = (text: string, more = {}) => ({
  queue: 'children',
  message: { parts: [{ text }] },
  ...more,
})
const fork = async (id: string, children: object[]): Promise<string[]> =>
  (await operate(app, 'todos.fork', { id, children })).children.map(
    (made: { id: string }) => made.id,
  )
const many = (count: number) => Array.from({ length: count }, (_, n) => child(`${n}`))
const shown = (id: string) => operate(app, 'todos.show', { id })
const live = async (id: string): Promise<number> =>
  (
    await app.sql<{ count: number }>(
      'select count(*)::int as count from todos where parent_id = $1 and finished_at is null',
      [id],
    )
  )[0]!.count

/** Todos of earlier tests are out of the way. */
const cancelAll = async () => {
  for (const queue of ['parents', 'children']) {
    const { todos } = await operate(app, 'todos.list', { queue, pageSize: 100 })
    for (const { id } of todos) await operate(app, 'todos.cancel', { id }).catch(() => {})
  }
}

test('an operator forks a todo that nobody holds, one that is held, and one that asks', async () => {
  const task = await a2a.submit('a job')
  const [first] = await fork(task.id, [child('one')])
  const todo = await parent.claim()
  const [second] = await fork(task.id, [child('two')])
  await parent.call('todos.interrupt', {
    ...todo.held,
    state: 'input-required',
    message: { parts: [{ text: 'which?' }] },
  })
  const [third] = await fork(task.id, [child('three')])
  const { children, events, state } = await shown(task.id)
  expect(state).toBe('input-required')
  expect(children).toMatchObject([{ id: first }, { id: second }, { id: third }])
  expect(events.filter(({ verb }: { verb: string }) => verb === 'adopt')).toHaveLength(3)
  for (const id of [first, second, third]) {
    expect(await shown(id!)).toMatchObject({
      queue: 'children',
      parentId: task.id,
      state: 'pending',
    })
  }
  await cancelAll()
})

test('widening is refused by name and beyond what is there, and nothing is made', async () => {
  const { token } = await service.vend({
    name: 'limited',
    queues: ['parents'],
    verbs: ['send'],
    effects: ['read', 'mail'],
  })
  const { id } = await a2aClient(app.url, 'parents', token).submit('a job')
  const wide = [child('fine'), child('wide', { effects: ['read', 'pay', 'delete'] })]
  expect(await refusalOf(fork(id, wide))).toMatchObject({
    code: -32011,
    data: { refused: ['pay', 'delete'] },
  })
  expect(await refusalOf(fork(id, [child('x', { queue: 'nowhere' })]))).toMatchObject({
    code: -32011,
  })
  expect((await shown(id)).children).toEqual([])
  const [narrow, same] = await fork(id, [child('narrow', { effects: ['read'] }), child('same')])
  expect((await shown(narrow!)).effects).toEqual(['read'])
  expect((await shown(same!)).effects).toEqual(['read', 'mail'])
  await cancelAll()
})

test('what has ended, or is not there, is not forked', async () => {
  const { id } = await a2a.submit('a job')
  await operate(app, 'todos.cancel', { id })
  expect(await refusalOf(fork(id, [child('late')]))).toMatchObject({
    code: -32010,
    data: { reason: 'wrong_state', state: 'canceled' },
  })
  for (const nothing of [UNKNOWN_ID, 'no id at all']) {
    expect(await refusalOf(fork(nothing, [child('x')]))).toMatchObject({ code: -32012 })
  }
})

test('an operator parks a held todo until its children have ended, and fences its holder out', async () => {
  const { id } = await a2a.submit('a job')
  const join = (children: string[]) => operate(app, 'todos.join', { id, children, until: 'all' })
  const children = await fork(id, [child('one'), child('two')])
  // Nobody holds it: there is nobody to park it for.
  expect(await refusalOf(join(children))).toMatchObject({ data: { reason: 'wrong_state' } })
  const todo = await parent.claim()
  expect(await refusalOf(join([id]))).toMatchObject({
    code: -32602,
    data: { violations: [{ field: 'children[0]' }] },
  })
  expect(await join(children)).toMatchObject({ state: 'pending' })
  expect(await refusalOf(parent.call('todos.heartbeat', todo.held))).toMatchObject({
    data: { reason: 'stale_fence' },
  })
  expect((await parent.call('todos.claim', { queues: ['parents'] })).todos).toEqual([])
  for (const _ of children) {
    const { held } = await hand.claim()
    await hand.call('todos.complete', held)
  }
  const again = await parent.claim()
  expect(again.id).toBe(id)
  expect(again.children).toMatchObject([{ state: 'done' }, { state: 'done' }])
  // All of them have ended before: the join holds at once.
  await join(children)
  await parent.call('todos.complete', (await parent.claim()).held)
})

test('a cancel that comes while an operator forks leaves no orphan', async () => {
  const { id } = await a2a.submit('a job')
  const locks = async (): Promise<number> =>
    (
      await app.sql<{ count: number }>(
        `select count(*)::int as count from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`,
      )
    )[0]!.count
  const [forked, canceled] = await withClient(app.databaseUrl, async (client) => {
    // Holds the fork up between its look at the parent and its children.
    await client.query('begin')
    await client.query('lock table queues in access exclusive mode')
    const forking = fork(id, [child('one')])
    await until(async () => (await locks()) === 1, { what: 'the fork is held up' })
    let over = false
    const canceling = service.cancel(id).finally(() => {
      over = true
    })
    await until(async () => over || (await locks()) === 2, { what: 'the cancel waits' })
    await client.query('commit')
    return Promise.all([forking, canceling])
  })
  expect(canceled.todo.state).toBe('canceled')
  expect((await shown(forked[0]!)).state).toBe('canceled')

  for (let round = 0; round < 10; round += 1) {
    const task = await a2a.submit('a job')
    const forks = Array.from({ length: 4 }, () => fork(task.id, many(3)))
    const answers = await Promise.allSettled([...forks, service.cancel(task.id), ...forks])
    for (const answer of answers) {
      if (answer.status === 'fulfilled') continue
      expect(answer.reason).toMatchObject({ error: { data: { reason: 'wrong_state' } } })
    }
    expect(await live(task.id)).toBe(0)
  }
})

/** A dead child of a parent at work, both with a deadline. */
const bereaved = async () => {
  const { result } = await a2a.call('SendMessage', {
    message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text: 'a job' }] },
    metadata: {
      'urn:switchboard:timeouts': { scheduleToClose: 600 },
      'urn:switchboard:effects': ['read', 'mail'],
    },
    configuration: { returnImmediately: true },
  })
  const { held } = await parent.claim()
  expect(held.id).toBe(result.task.id)
  const [dead] = await fork(held.id, [
    child('a step', { effects: ['read'], deadlineSeconds: 300, maxAttempts: 3 }),
  ])
  const todo = await hand.claim()
  const error = { code: 'x', message: 'x' }
  const die = () => hand.call('todos.fail', { ...todo.held, error, retryable: false })
  return { held, dead: dead!, die }
}
const retry = async (id: string) => (await operate(app, 'todos.retry', { id })).id as string
const rowOf = async (id: string) => (await service.show(id, { kind: 'operator' })).view.todo

test('the retry of a child is a child: its parent waits for it, within the same budget', async () => {
  const { held, dead, die } = await bereaved()
  const [other] = await fork(held.id, [child('another step')])
  await parent.call('todos.join', { ...held, children: [dead, other], until: 'all' })
  await die()
  // The parent has four minutes left: less than its child had.
  await app.sql(
    `update todos set close_at = now() + interval '240 seconds', alarm_at = now() + interval '240 seconds'
    where id = $1`,
    [held.id],
  )
  const again = await retry(dead)
  const [was, is, above] = await Promise.all([rowOf(dead), rowOf(again), rowOf(held.id)])
  expect(is).toMatchObject({
    parentId: held.id,
    depth: 1,
    effects: ['read'],
    maxAttempts: 3,
    retryOf: dead,
    contextId: was.contextId,
    closeAt: above.closeAt,
    state: 'pending',
  })
  expect(was.state).toBe('failed')
  expect(above.join?.children).toEqual([again, other])
  expect(await refusalOf(retry(dead))).toMatchObject({ data: { reason: 'duplicate' } })
  expect((await shown(held.id)).children).toHaveLength(3)

  const told = async () => (await parent.call('todos.claim', { queues: ['parents'] })).todos
  await hand.call('todos.complete', (await hand.claim()).held)
  expect(await told()).toEqual([])
  await hand.call('todos.complete', (await hand.claim()).held)
  const woken = await parent.claim()
  expect(woken.children.map(({ state }: { state: string }) => state)).toEqual([
    'failed',
    'done',
    'done',
  ])
  await parent.call('todos.complete', woken.held)
})

test('the retry of a child ends with its parent', async () => {
  const { held, dead, die } = await bereaved()
  await die()
  const again = await retry(dead)
  await operate(app, 'todos.cancel', { id: held.id })
  expect(await rowOf(again)).toMatchObject({ state: 'canceled' })
})

test('the retry of a child whose parent has ended is nobody’s, and no wider or deeper for it', async () => {
  const { held, dead, die } = await bereaved()
  await die()
  await parent.call('todos.complete', held)
  const again = await retry(dead)
  const [was, is] = await Promise.all([rowOf(dead), rowOf(again)])
  expect(is).toMatchObject({ parentId: null, depth: 1, effects: ['read'], retryOf: dead })
  // As long as the dead one had, counted anew.
  const spanOf = ({ closeAt, createdAt }: typeof is) => closeAt!.getTime() - createdAt.getTime()
  expect(Math.abs(spanOf(is) - spanOf(was))).toBeLessThan(1000)
  await app.sweep.reap()
  const todo = await hand.claim()
  expect(todo.id).toBe(again)
  await hand.call('todos.fail', {
    ...todo.held,
    error: { code: 'x', message: 'x' },
    retryable: false,
  })
  expect(await rowOf(await retry(again))).toMatchObject({ parentId: null, depth: 1 })
  await cancelAll()
})

test('a thousand live children are accepted and not one more, however many fork at once', async () => {
  const { id } = await a2a.submit('a job')
  for (let made = 0; made < 900; made += 100) await fork(id, many(100))
  await fork(id, many(90))
  expect(await refusalOf(fork(id, many(11)))).toMatchObject({
    code: -32010,
    data: { reason: 'limit', limit: 1000 },
  })
  const { held } = await parent.claim()
  const asked = Array.from({ length: 20 }, () => fork(id, [child('one more')]))
  const answers = await Promise.allSettled(asked)
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(10)
  for (const answer of answers) {
    if (answer.status === 'fulfilled') continue
    expect(answer.reason).toMatchObject({ error: { code: -32010, data: { reason: 'limit' } } })
  }
  expect(await live(id)).toBe(1000)
  // Its holder is bound by the same.
  expect(
    await refusalOf(parent.call('todos.fork', { ...held, children: [child('one more')] })),
  ).toMatchObject({ data: { reason: 'limit', limit: 1000 } })
  // It is those that live which count.
  const { held: one } = await hand.claim()
  await hand.call('todos.fail', {
    ...one,
    error: { code: 'x', message: 'x' },
    retryable: false,
  })
  await fork(id, [child('in its place')])
  expect(await refusalOf(fork(id, [child('too many')]))).toMatchObject({
    data: { reason: 'limit' },
  })
  expect(await refusalOf(retry(one.id))).toMatchObject({ data: { reason: 'limit' } })
  expect(await live(id)).toBe(1000)
  await operate(app, 'todos.cancel', { id })
  expect(await live(id)).toBe(0)
})
