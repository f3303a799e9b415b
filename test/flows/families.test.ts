import { expect, test } from 'vitest'
import { createAgent, textOf } from '../../src/index.ts'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { metric } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ reapMs: 3_600_000 })
const operator = { kind: 'operator' } as const
const { services } = app
const { client, agent: plain } = await app.queue('parents')
await app.queue('children')
const a2a = a2aClient(app.url, 'parents', client.token)
const boss = await app.vend(['work', 'send'], ['parents', 'children'])
const parent = agentClient(app.url, boss.token)
const hand = agentClient(app.url, (await app.vend(['work'], ['children'])).token)

const child = (text: string, more = {}) => ({
  queue: 'children',
  message: { parts: [{ text }] },
  ...more,
})
const shown = (id: string) => services.operator.show(id, operator)
const stateOf = async (id: string) => (await shown(id)).view.todo.state
const why = async (id: string) => (await services.operator.why(id, operator)).why

/** A parent at work with children of these texts. */
const forked = async (texts: string[], more = {}) => {
  const task = await a2a.submit('a job')
  const todo = await parent.claim({ queues: ['parents'] })
  expect(todo.id).toBe(task.id)
  const { children } = await parent.call('todos.fork', {
    ...todo.held,
    children: texts.map((text) => child(text, more)),
  })
  return { todo, ids: children.map(({ id }: { id: string }) => id) as string[] }
}

/** Children of one fork come due at the same moment: which is claimed first is not promised. */
const finishOne = async (ids: readonly string[]): Promise<string> => {
  const todo = await hand.claim()
  expect(ids).toContain(todo.id)
  await hand.call('todos.complete', { ...todo.held, result: { done: todo.id } })
  return todo.id
}

test('a parent parks until all its children have ended, is at work to its client meanwhile, and gets their results', async () => {
  const { todo, ids } = await forked(['one', 'two'])
  const joined = await parent.call('todos.join', { ...todo.held, children: ids, until: 'all' })
  expect(joined.state).toBe('pending')
  expect((await a2a.get(todo.id)).status.state).toBe('TASK_STATE_WORKING')
  const working = await a2a.call('ListTasks', { status: 'TASK_STATE_WORKING' })
  expect(working.result.tasks.map(({ id }: { id: string }) => id)).toContain(todo.id)
  await expect(parent.call('todos.heartbeat', todo.held)).rejects.toMatchObject({
    error: { data: { reason: 'stale_fence' } },
  })

  await finishOne(ids)
  expect((await parent.call('todos.claim', { queues: ['parents'] })).todos).toEqual([])
  expect(await why(todo.id)).toContain('1 of which have ended')
  await finishOne(ids)
  const again = await parent.claim({ queues: ['parents'] })
  expect(again).toMatchObject({ id: todo.id, attempt: 1 })
  expect(again.children).toMatchObject([
    { id: ids[0], state: 'done', result: { done: ids[0] } },
    { id: ids[1], state: 'done', result: { done: ids[1] } },
  ])
  await parent.call('todos.complete', again.held)
  const { events } = await shown(todo.id)
  expect(events.find(({ verb }) => verb === 'joined')?.ready).toBe('joined')
})

// Seen by the chaos run: a parent that had been sent a message could never join, and died of it.
test('a message that a parent has not read keeps it from nothing, and is owed to its next holder', async () => {
  const { todo, ids } = await forked(['only'])
  await a2a.send('by the way', { taskId: todo.id }, { returnImmediately: true })
  const joined = await parent.call('todos.join', { ...todo.held, children: ids, until: 'all' })
  expect(joined.state).toBe('pending')
  await finishOne(ids)
  const again = await parent.claim({ queues: ['parents'] })
  expect(again.unread).toMatchObject([{ message: { parts: [{ text: 'by the way' }] } }])
  await parent.call('todos.complete', { ...again.held, acknowledge: again.unread[0].seq })
})

test('any is satisfied by the first child; each wakes the parent at every one', async () => {
  const first = await forked(['one', 'two'])
  await parent.call('todos.join', { ...first.todo.held, children: first.ids, until: 'any' })
  await finishOne(first.ids)
  const woken = await parent.claim({ queues: ['parents'] })
  await parent.call('todos.complete', woken.held)
  await finishOne(first.ids)

  const { todo, ids } = await forked(['one', 'two', 'three'])
  let held = todo.held
  for (const _ of ids) {
    await parent.call('todos.join', { ...held, children: ids, until: 'each' })
    expect((await parent.call('todos.claim', { queues: ['parents'] })).todos).toEqual([])
    await finishOne(ids)
    held = (await parent.claim({ queues: ['parents'] })).held
  }
  // Nothing is left to be told of: the join holds at once.
  await parent.call('todos.join', { ...held, children: ids, until: 'each' })
  const last = await parent.claim({ queues: ['parents'] })
  await parent.call('todos.complete', last.held)
})

test('a dead child ends a join, and one that asks is what the parent waits for', async () => {
  const { todo, ids } = await forked(['one'], { maxAttempts: 1 })
  await parent.call('todos.join', { ...todo.held, children: ids, until: 'all' })
  const at = await hand.claim()
  await hand.call('todos.interrupt', {
    ...at.held,
    state: 'input-required',
    message: { parts: [{ text: 'which?' }] },
  })
  expect(await why(todo.id)).toContain(`${ids[0]} waits for an answer`)
  await app.sql(`update todos set interrupted_at = now() - interval '2 days' where id = $1`, [
    ids[0],
  ])
  await app.sweep.reap()
  expect(await stateOf(ids[0]!)).toBe('failed')
  const again = await parent.claim({ queues: ['parents'] })
  expect(again.children).toMatchObject([
    { state: 'failed', result: { error: 'interrupt_expired' } },
  ])
  await parent.call('todos.complete', again.held)
})

test('cancelling a parent cancels all that lives below it', async () => {
  const { todo, ids } = await forked(['one', 'two'])
  const done = await finishOne(ids)
  const other = ids.find((id) => id !== done)!
  const [below] = await services.operator.fork(other, [
    {
      queue: 'children',
      message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'deep' }] },
    },
  ])
  await a2a.call('CancelTask', { id: todo.id })
  expect(await stateOf(done)).toBe('done')
  expect(await stateOf(other)).toBe('canceled')
  expect(await stateOf(below!.id)).toBe('canceled')
})

test('a cascade that was cut short, and a parent that was not told, are found by the sweep', async () => {
  const { todo, ids } = await forked(['one'])
  await app.sql(
    `update todos set state = 'canceled', finished_at = now(), owner = null, lease_expires_at = null,
      front = false where id = $1`,
    [todo.id],
  )
  const other = await forked(['two'])
  await parent.call('todos.join', { ...other.todo.held, children: other.ids, until: 'all' })
  await app.sql(
    `update todos set state = 'done', finished_at = now(), due_at = null, front = false where id = $1`,
    [other.ids[0]],
  )
  await app.sweep.reap()
  expect(await stateOf(ids[0]!)).toBe('canceled')
  const told = await parent.claim({ queues: ['parents'] })
  expect(told.id).toBe(other.todo.id)
  await parent.call('todos.complete', told.held)
})

test('an orphan that cannot be canceled keeps no other from it, and no parent from being told', async () => {
  const orphaned = await forked(['poisoned', 'well'])
  const joined = await forked(['done'])
  await parent.call('todos.join', { ...joined.todo.held, children: joined.ids, until: 'all' })
  await app.sql(
    `update todos set state = case when id = $1 then 'canceled' else 'done' end::todo_state,
      finished_at = now(), due_at = null, owner = null, lease_expires_at = null, front = false
    where id in ($1, $2)`,
    [orphaned.todo.id, joined.ids[0]],
  )
  await app.sql(`
    create function refuse() returns trigger language plpgsql as $$
      begin raise exception 'poisoned'; end $$;
    create trigger poison before update on todos for each row
      when (old.id = '${orphaned.ids[0]}') execute function refuse()`)
  try {
    expect(await app.sweep.reap()).toBe(0)
    expect(await stateOf(orphaned.ids[0]!)).toBe('pending')
    expect(await stateOf(orphaned.ids[1]!)).toBe('canceled')
    const told = await parent.claim({ queues: ['parents'] })
    expect(told.id).toBe(joined.todo.id)
    await parent.call('todos.complete', told.held)
  } finally {
    await app.sql('drop trigger poison on todos; drop function refuse')
  }
  await app.sweep.reap()
  expect(await stateOf(orphaned.ids[0]!)).toBe('canceled')
})

test('a budget only shrinks: widening is refused by name, and nothing is made', async () => {
  const limited = await services.operator.vend({
    name: 'limited',
    queues: ['parents'],
    verbs: ['send'],
    effects: ['read', 'mail'],
  })
  const theirs = a2aClient(app.url, 'parents', limited.token)
  const send = (effects: string[]) =>
    theirs.call('SendMessage', {
      message: { messageId: effects.join(), role: 'ROLE_USER', parts: [{ text: 'x' }] },
      metadata: { 'urn:switchboard:effects': effects },
      configuration: { returnImmediately: true },
    })
  const wide = await send(['read', 'pay'])
  expect(JSON.stringify(wide.error)).toContain('pay')
  const { task } = (await send(['read'])).result
  const todo = await parent.claim({ queues: ['parents'] })
  expect(todo).toMatchObject({ id: task.id, effects: ['read'] })
  await expect(
    parent.call('todos.fork', {
      ...todo.held,
      children: [child('fine'), child('not fine', { effects: ['read', 'pay'] })],
    }),
  ).rejects.toMatchObject({ error: { code: -32011, data: { refused: ['pay'] } } })
  expect((await shown(todo.id)).children).toEqual([])
  const { children } = await parent.call('todos.fork', {
    ...todo.held,
    children: [child('inherits'), child('none', { effects: [] })],
  })
  const effects = await Promise.all(
    children.map(async ({ id }: { id: string }) => (await shown(id)).view.todo.effects),
  )
  expect(effects).toEqual([['read'], []])
  await a2a.call('CancelTask', { id: todo.id })
  await services.operator.cancel(todo.id)
})

test('an agent gives by a fork no more than it may give by a send, whatever its todo may do', async () => {
  const { token } = await services.operator.vend({
    name: 'narrow agent',
    queues: ['parents', 'children'],
    verbs: ['work', 'send'],
    effects: ['read', 'mail'],
  })
  const narrow = agentClient(app.url, token)
  await a2a.submit('a job')
  const todo = await narrow.claim({ queues: ['parents'] })
  expect(todo.effects).toBeNull()
  const fork = (more: object) =>
    narrow.call('todos.fork', { ...todo.held, children: [child('x', more)] })
  await expect(fork({ effects: ['read', 'pay'] })).rejects.toMatchObject({
    error: { code: -32011, data: { refused: ['pay'] } },
  })
  const sent = await metric(app, 'switchboard_todos_sent_total{queue="children"}')
  for (const [asked, given] of [
    [{ effects: ['mail'] }, ['mail']],
    [{}, ['read', 'mail']],
  ] as const) {
    const [made] = (await fork(asked)).children
    expect((await shown(made.id)).view.todo.effects).toEqual(given)
  }
  expect(await metric(app, 'switchboard_todos_sent_total{queue="children"}')).toBe(sent + 2)
  await services.operator.cancel(todo.id)
})

test('a join does not hang on children that are not kept any more', async () => {
  for (const until of ['all', 'any', 'each']) {
    const { todo, ids } = await forked(['one'])
    await parent.call('todos.join', { ...todo.held, children: ids, until })
    await app.sql('delete from todos where id = $1', [ids[0]])
    await app.sweep.reap()
    const again = await parent.claim({ queues: ['parents'] })
    expect(again.id).toBe(todo.id)
    await parent.call('todos.complete', again.held)
  }
})

test('a retry may do no more than what it retries', async () => {
  const { token } = await services.operator.vend({
    name: 'narrow',
    queues: ['parents'],
    verbs: ['send'],
    effects: ['read'],
  })
  const task = await a2aClient(app.url, 'parents', token).submit('a job')
  const todo = await parent.claim({ queues: ['parents'] })
  expect(todo).toMatchObject({ id: task.id, effects: ['read'] })
  await parent.call('todos.fail', {
    ...todo.held,
    error: { code: 'x', message: 'x' },
    retryable: false,
  })
  const again = await services.operator.retry(task.id)
  expect(again.todo.effects).toEqual(['read'])
  await services.operator.cancel(again.todo.id)
})

test("a child's deadline is never later than its parent's, and depth is bounded", async () => {
  const task = (
    await a2a.call('SendMessage', {
      message: { messageId: 'deadline', role: 'ROLE_USER', parts: [{ text: 'x' }] },
      metadata: { 'urn:switchboard:timeouts': { scheduleToClose: 600 } },
      configuration: { returnImmediately: true },
    })
  ).result.task
  const todo = await parent.claim({ queues: ['parents'] })
  const { children } = await parent.call('todos.fork', {
    ...todo.held,
    children: [
      child('sooner', { deadlineSeconds: 60 }),
      child('later', { deadlineSeconds: 86_400 }),
    ],
  })
  const closes = async (id: string) => (await shown(id)).view.todo.closeAt!.getTime()
  const own = await closes(task.id)
  expect(await closes(children[0].id)).toBeLessThan(own)
  expect(await closes(children[1].id)).toBe(own)

  let deepest = children[0].id
  const deeper = () =>
    services.operator.fork(deepest, [
      { queue: 'children', message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] } },
    ])
  for (let depth = 2; depth <= 8; depth += 1) deepest = (await deeper())[0]!.id
  await expect(deeper()).rejects.toMatchObject({ kind: 'limit' })
  await services.operator.cancel(task.id)
  expect(await stateOf(deepest)).toBe('canceled')
})

test('who may not send to a queue cannot fork into it, and nobody joins what is not theirs', async () => {
  const task = await a2a.submit('x')
  const lone = agentClient(app.url, plain.token)
  const todo = await lone.claim()
  expect(todo.id).toBe(task.id)
  await expect(
    lone.call('todos.fork', { ...todo.held, children: [child('x')] }),
  ).rejects.toMatchObject({ error: { code: -32011, data: { refused: ['children'] } } })
  for (const stranger of [task.id, 'no id at all']) {
    await expect(
      lone.call('todos.join', { ...todo.held, children: [stranger], until: 'all' }),
    ).rejects.toMatchObject({
      error: { code: -32602, data: { violations: [{ field: 'children[0]' }] } },
    })
  }
  await lone.call('todos.complete', todo.held)
})

test('a queue with a limit has no more at work, with many claimers, and says why the next one waits', async () => {
  const { agent, client: sender } = await app.queue('narrow', {
    concurrency: 3,
    contexts: 'parallel',
  })
  const sending = a2aClient(app.url, 'narrow', sender.token)
  for (let n = 0; n < 12; n += 1) await sending.submit(`${n}`)
  const at = agentClient(app.url, agent.token)
  const claimed = (
    await Promise.all(Array.from({ length: 8 }, () => at.call('todos.claim', { limit: 2 })))
  ).flatMap(({ todos }) => todos)
  expect(claimed).toHaveLength(3)
  const waiting = (
    await services.operator.list(
      { queue: 'narrow', states: ['pending'], pageSize: 1, includeArtifacts: false },
      operator,
    )
  ).todos[0]!
  expect(await why(waiting.todo.id)).toContain('3 of 3 running for queue narrow')

  const next = at.call('todos.claim', { waitMs: 25_000 })
  await until(async () => (await app.metrics.waitingClaims.get()).values[0]!.value > 0, {
    what: 'a claim waits',
  })
  const { id, fence } = claimed[0]
  await at.call('todos.complete', { id, fence })
  expect((await next).todos).toHaveLength(1)
})

test('an endpoint with a limit holds no more than it', async () => {
  const { client: sender } = await app.queue('wide', { contexts: 'parallel' })
  const sending = a2aClient(app.url, 'wide', sender.token)
  for (let n = 0; n < 5; n += 1) await sending.submit(`${n}`)
  const { token } = await services.operator.vend({
    name: 'small',
    queues: ['wide'],
    verbs: ['work'],
    concurrency: 2,
  })
  expect((await agentClient(app.url, token).call('todos.claim', { limit: 5 })).todos).toHaveLength(
    2,
  )
  const other = await app.vend(['work'], ['wide'])
  expect(
    (await agentClient(app.url, other.token).call('todos.claim', { limit: 5 })).todos,
  ).toHaveLength(3)
})

test('an endpoint that sends more than its rate is told when it may go on, and nothing is stored', async () => {
  const { token } = await services.operator.vend({
    name: 'hasty',
    queues: ['wide'],
    verbs: ['send'],
    sendPerMinute: 2,
  })
  const hasty = a2aClient(app.url, 'wide', token)
  await hasty.submit('one')
  await hasty.submit('two')
  const third = await hasty.send('three', {}, { returnImmediately: true })
  expect(JSON.stringify(third.error)).toContain('RATE_LIMITED')
  expect((await hasty.call('ListTasks', {})).result.totalSize).toBe(2)
})

test('an agent on the kit forks, joins, and goes on with what its children brought', async () => {
  const kitParents = await app.queue('kit-parents')
  await app.queue('kit-children')
  const { token } = await app.vend(['work', 'send'], ['kit-parents', 'kit-children'])
  const worker = createAgent({ url: app.url, token, concurrency: 3 }, async (ctx) => {
    if (ctx.todo.queue === 'kit-children') return { result: { text: textOf(ctx.todo.message) } }
    if (ctx.todo.children.length > 0) {
      return ctx.todo.children.map(({ result }) => String(result?.text)).join(' and ')
    }
    const ids = await ctx.fork(
      ['one', 'two'].map((message) => ({ queue: 'kit-children', message })),
    )
    await ctx.join(ids)
  })
  worker.start()
  try {
    const sent = await a2aClient(app.url, 'kit-parents', kitParents.client.token).send('both')
    expect(sent.result.task.status).toMatchObject({
      state: 'TASK_STATE_COMPLETED',
      message: { parts: [{ text: 'one and two' }] },
    })
  } finally {
    await worker.stop()
  }
})
