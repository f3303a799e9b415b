/** Sends that name their priority, or when their task may begin. */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, rpc, textMessage } from '../support/clients/actors.ts'
import { ADMIN_TOKEN } from '../support/config.ts'
import { until } from '../support/until.ts'

const app = await startApp({ reapMs: 3_600_000, comeDueMs: 50 })
const operator = { kind: 'operator' } as const
const { client, agent } = await app.queue('serial')
const a2a = a2aClient(app.url, 'serial', client.token)
const worker = agentClient(app.url, agent.token)
const side = await app.queue('side', { contexts: 'parallel' })
const besides = a2aClient(app.url, 'side', side.client.token)

const KEYS = {
  priority: 'urn:switchboard:priority',
  notBefore: 'urn:switchboard:not-before',
  delay: 'urn:switchboard:delay-seconds',
}

const sendTo = (to: typeof a2a, text: string, metadata: object, message: object = {}) =>
  to.call('SendMessage', {
    message: textMessage(text, { ...message }),
    configuration: { returnImmediately: true },
    metadata,
  })
const made = async (...args: Parameters<typeof sendTo>): Promise<string> => {
  const { result, error } = await sendTo(...args)
  if (error) throw new Error(JSON.stringify(error))
  return result.task.id
}
const shown = (id: string) => app.services.operator.show(id, operator)
const why = async (id: string) => (await app.services.operator.why(id, operator)).why
/** Its time has come. */
const ripen = (id: string) =>
  app.sql(
    `update todos set not_before = now(), due_at = case when due_at > now() then now() end
    where id = $1`,
    [id],
  )
const claimable = async (by = worker) => (await by.call('todos.claim', { limit: 10 })).todos
const complete = async (todo: Answer) =>
  worker.call('todos.complete', { id: todo.id, fence: todo.fence })

test('a delayed task of a conversation is passed while it waits, and has its place once it is due', async () => {
  const late = await made(a2a, 'late', { [KEYS.delay]: 3600 }, { contextId: 'passed' })
  const { view } = await shown(late)
  expect(view.todo).toMatchObject({ state: 'pending', dueAt: null, line: null, front: false })
  expect(view.todo.notBefore!.getTime() - view.todo.createdAt.getTime()).toBeGreaterThan(3_590_000)
  expect(await why(late)).toMatch(/^waits until .*, as its sender asked; then it takes its turn/)

  // Sent later, done first.
  const one = await made(a2a, 'one', {}, { contextId: 'passed' })
  const two = await made(a2a, 'two', {}, { contextId: 'passed' })
  const first = await worker.claim()
  expect(first.id).toBe(one)

  await ripen(late)
  await until(async () => (await shown(late)).view.todo.line !== null, { what: 'it is in line' })
  expect((await shown(late)).view.waitsBehind).toBe(one)
  await complete(first)
  // It came before the second, and now its time has come.
  const next = await worker.claim()
  expect(next.id).toBe(late)
  expect(next.notBefore).toEqual(expect.any(String))
  await complete(next)
  const last = await worker.claim()
  expect(last.id).toBe(two)
  await complete(last)
  const { events } = await shown(late)
  expect(events.map(({ verb, ready }) => `${verb} ${ready}`)).toEqual([
    'send null',
    'enterLine null',
    'unblock unblocked',
    'claim null',
    'complete null',
  ])
})

test('one whose conversation is idle when its time comes is claimed at once', async () => {
  const id = await made(a2a, 'alone', { [KEYS.delay]: 1 })
  expect(await claimable()).toEqual([])
  const todo = await worker.claim()
  expect(todo.id).toBe(id)
  const [row] = await app.sql<Answer>(
    'select started_at >= not_before as timely from todos where id = $1',
    [id],
  )
  expect(row).toEqual({ timely: true })
  await complete(todo)
})

test('where todos run side by side it is claimable at its moment, and announced then', async () => {
  const moment = new Date(Date.now() + 3_600_000).toISOString()
  const id = await made(besides, 'later', { [KEYS.notBefore]: moment })
  const sideWorker = agentClient(app.url, side.agent.token)
  expect(await claimable(sideWorker)).toEqual([])
  expect((await shown(id)).view.todo.dueAt!.toISOString()).toBe(moment)
  expect(await why(id)).toMatch(/^waits until .*, as its sender asked; then an agent of side/)
  await ripen(id)
  const todo = await sideWorker.claim()
  expect(todo.id).toBe(id)
  await until(async () => (await shown(id)).events.some(({ ready }) => ready === 'created'), {
    what: 'the ready hook',
  })
})

test('a moment that is past is now', async () => {
  const id = await made(besides, 'past', { [KEYS.notBefore]: '2020-01-01T00:00:00+02:00' })
  const todo = await agentClient(app.url, side.agent.token).claim()
  expect(todo.id).toBe(id)
  expect((await shown(id)).events[0]).toMatchObject({ verb: 'send', ready: 'created' })
})

test('its limits on time count from when it is due', async () => {
  const limits = { 'urn:switchboard:timeouts': { scheduleToStart: 60, scheduleToClose: 600 } }
  for (const to of [a2a, besides]) {
    const id = await made(to, 'limited', { ...limits, [KEYS.delay]: 3600 })
    const [row] = await app.sql<Answer>(
      `select extract(epoch from close_at - not_before)::int as close,
        extract(epoch from alarm_at - not_before)::int as alarm,
        extract(epoch from not_before - created_at)::int as delay from todos where id = $1`,
      [id],
    )
    expect(row).toEqual({ close: 600, alarm: to === a2a ? 600 : 60, delay: 3600 })
    await app.services.operator.cancel(id)
  }
})

test('a retry has the time that the task had, and not its delay as well', async () => {
  const limits = { 'urn:switchboard:timeouts': { scheduleToClose: 600 } }
  const id = await made(besides, 'limited', { ...limits, [KEYS.delay]: 3600 })
  await app.sql('update todos set due_at = now() where id = $1', [id])
  const sideWorker = agentClient(app.url, side.agent.token)
  const todo = await sideWorker.claim()
  expect(todo.id).toBe(id)
  const error = { code: 'boom', message: 'it broke' }
  await sideWorker.call('todos.fail', { ...todo.held, error, retryable: false })
  const { todo: again } = await app.services.operator.retry(id)
  expect(again.notBefore).toBeNull()
  expect(Math.round((again.closeAt!.getTime() - again.createdAt.getTime()) / 1000)).toBe(600)
  await app.services.operator.cancel(again.id)
})

test('a delayed send makes a task also where its queue would take it for an answer', async () => {
  for (const reentry of ['author', 'question']) {
    const talk = await app.queue(`talk-${reentry}`, { reentry })
    const speaker = a2aClient(app.url, `talk-${reentry}`, talk.client.token)
    const listener = agentClient(app.url, talk.agent.token)
    const first = await made(speaker, 'hello', {}, { contextId: 'c' })
    const todo = await listener.claim()
    await listener.call('todos.interrupt', {
      ...todo.held,
      state: 'input-required',
      message: { parts: [{ text: '?' }] },
    })
    const other = await made(speaker, 'remind me', { [KEYS.delay]: 3600 }, { contextId: 'c' })
    expect(other).not.toBe(first)
    expect((await shown(first)).view.todo.state).toBe('input-required')
  }
})

test('rollback cancels what waits for its time as well, and a repeat of a send makes nothing', async () => {
  const key = { 'urn:switchboard:idempotency-key': 'once', [KEYS.delay]: 3600 }
  const id = await made(a2a, 'later', key, { contextId: 'rolled' })
  expect(await made(a2a, 'later', key, { contextId: 'rolled' })).toBe(id)
  const now = await made(
    a2a,
    'now',
    { 'urn:switchboard:busy': 'rollback' },
    { contextId: 'rolled' },
  )
  expect((await shown(id)).view.todo.state).toBe('canceled')
  const todo = await worker.claim()
  expect(todo.id).toBe(now)
  await complete(todo)
})

test('of what waits for its time, a rollback cancels what is of its own author', async () => {
  const by = (author: string, more: object) => ({ 'switchboard/author': author, ...more })
  const shared = { contextId: 'shared' }
  const delay = { [KEYS.delay]: 3600 }
  const anns = await made(a2a, 'later', by('ann', delay), shared)
  const bobs = await made(a2a, 'later', by('bob', delay), shared)
  const now = await made(a2a, 'now', by('ann', { 'urn:switchboard:busy': 'rollback' }), shared)
  expect((await shown(anns)).view.todo.state).toBe('canceled')
  expect((await shown(bobs)).view.todo).toMatchObject({ state: 'pending', author: 'bob' })
  await app.services.operator.cancel(bobs)
  const todo = await worker.claim()
  expect(todo.id).toBe(now)
  await complete(todo)
})

test('bad moments and delays are refused, each by its name', async () => {
  const fieldOf = async (metadata: object, message: object = {}) => {
    const { error } = await sendTo(a2a, 'bad', metadata, message)
    expect(error.code).toBe(-32602)
    const violations = error.data.flatMap((one: Answer) => one.fieldViolations ?? [])
    return violations.map(({ field }: Answer) => field).join()
  }
  const member = (key: string) => `metadata.${key}`
  for (const bad of ['tomorrow', '2026-01-01T00:00:00', 5]) {
    expect(await fieldOf({ [KEYS.notBefore]: bad })).toBe(member(KEYS.notBefore))
  }
  for (const bad of [-1, 1.5, '5', 315_360_001]) {
    expect(await fieldOf({ [KEYS.delay]: bad })).toBe(member(KEYS.delay))
  }
  const both = { [KEYS.delay]: 1, [KEYS.notBefore]: '2030-01-01T00:00:00Z' }
  expect(await fieldOf(both)).toBe(member(KEYS.delay))
  const busy = { [KEYS.delay]: 1, 'urn:switchboard:busy': 'interrupt' }
  expect(await fieldOf(busy)).toBe('metadata.urn:switchboard:busy')
  const live = await made(a2a, 'live', { [KEYS.delay]: 3600 })
  expect(await fieldOf({ [KEYS.delay]: 1 }, { taskId: live })).toBe('message.taskId')
  await app.services.operator.cancel(live)
})

test('how far ahead a moment may be is a setting', async () => {
  const { setSetting, unsetSetting } = app.services.operator
  const refusal = async (metadata: object) => (await sendTo(besides, 'far', metadata)).error
  expect(await refusal({ [KEYS.delay]: 2_592_001 })).toMatchObject({
    message: expect.stringContaining('send_max_delay_seconds'),
    data: [expect.objectContaining({ metadata: { limit: '2592000' } })],
  })
  const far = new Date(Date.now() + 2_593_000_000).toISOString()
  expect((await refusal({ [KEYS.notBefore]: far })).message).toContain('2592000 seconds')
  await setSetting('send_max_delay_seconds', '5000000')
  await until(async () => (await refusal({ [KEYS.notBefore]: far })) === undefined, {
    what: 'the setting holds',
  })
  await expect(setSetting('send_max_delay_seconds', '315360001')).rejects.toMatchObject({
    kind: 'invalid',
  })
  await unsetSetting('send_max_delay_seconds')
})

test('a client names a priority where its endpoint, or else its queue, lets it', async () => {
  const refused = async (to: typeof a2a, priority: unknown) =>
    (await sendTo(to, 'p', { [KEYS.priority]: priority })).error
  expect(await refused(besides, 0)).toMatchObject({
    message: expect.stringContaining('only priority 1'),
    data: [expect.objectContaining({ reason: 'PERMISSION_DENIED' })],
  })
  expect((await refused(besides, 3)).code).toBe(-32602)
  expect(await refused(besides, 1)).toBeUndefined()

  await app.services.operator.putQueue({ name: 'side', policy: { lowestPriority: 2 } })
  await until(async () => (await refused(besides, 2)) === undefined, { what: 'the policy holds' })
  expect(await refused(besides, 0)).toBeDefined()
  const { id } = side.client.endpoint
  await app.services.operator.updateEndpoint(id, { highestPriority: 0, lowestPriority: 1 })
  await until(async () => (await refused(besides, 0)) === undefined, { what: 'the endpoint may' })
  expect((await refused(besides, 2)).message).toContain('priorities 0 to 1')
  await app.services.operator.updateEndpoint(id, { highestPriority: null, lowestPriority: null })
  await until(async () => (await refused(besides, 0)) !== undefined, { what: 'it may no more' })
  expect(await refused(besides, 2)).toBeUndefined()
  const rows = await app.sql<Answer>(
    `select priority, count(*)::int as n from todos where queue = 'side' and priority <> 1 group by 1 order by 1`,
  )
  expect(rows.map(({ priority }) => priority)).toEqual([0, 2])
})

test('an operator sends with the same words', async () => {
  const call = (params: object) =>
    rpc(`${app.url}/operator`, 'todos.send', params, { token: ADMIN_TOKEN })
  const message = { parts: [{ text: 'later' }] }
  const { result } = await call({ queue: 'serial', message, delaySeconds: 3600 })
  expect(result).toMatchObject({ state: 'pending', notBefore: expect.any(String) })
  const { error } = await call({
    queue: 'serial',
    message,
    delaySeconds: 1,
    notBefore: '2030-01-01T00:00:00Z',
  })
  expect(error.code).toBe(-32602)
  const shownCard = await app.services.operator.show(result.id, operator)
  expect(shownCard.view.todo.notBefore).not.toBeNull()
})

test('a repeat that names another budget, moment, priority or timeout is no repeat', async () => {
  const sent = (key: string, more: object): Promise<Answer> =>
    rpc(
      `${app.url}/operator`,
      'todos.send',
      { queue: 'side', message: { messageId: 'once', parts: [{ text: 'x' }] }, ...more },
      { token: ADMIN_TOKEN, headers: { 'Idempotency-Key': key } },
    )
  const options: object[] = [
    {},
    { budget: { tokens: 5 } },
    { delaySeconds: 60 },
    { notBefore: '2020-01-01T00:00:00Z' },
    { priority: 0 },
    { timeouts: { heartbeat: 60 } },
    { timeouts: { scheduleToClose: 600 } },
  ]
  for (const [n, first] of options.entries()) {
    const { result } = await sent(`k${n}`, first)
    for (const again of options) {
      const repeat = await sent(`k${n}`, again)
      if (again === first) expect(repeat.result.id).toBe(result.id)
      else expect(repeat.error.data).toEqual({ reason: 'idempotency_conflict' })
    }
  }
})

test('a repeat of a send that a version of before has kept is known by what its todo has', async () => {
  const message = { messageId: 'kept', parts: [{ text: 'x' }] }
  const sent = (key: string, more: object): Promise<Answer> =>
    rpc(
      `${app.url}/operator`,
      'todos.send',
      { queue: 'side', message, ...more },
      { token: ADMIN_TOKEN, headers: { 'Idempotency-Key': key } },
    )
  await sent('plain', {})
  const timeouts = { scheduleToStart: 5000, startToClose: 50, scheduleToClose: 7200, heartbeat: 40 }
  const named = { priority: 2, timeouts }
  const { result } = await sent('named', named)
  // As it was kept: by the message alone.
  await app.sql(
    `update idempotency_keys set digest = (select digest from idempotency_keys where key = 'plain')
    where key = 'named'`,
    [],
  )
  expect((await sent('named', named)).result.id).toBe(result.id)
  for (const other of [
    { ...named, priority: 0 },
    { ...named, timeouts: { ...timeouts, heartbeat: 41 } },
    { ...named, timeouts: { ...timeouts, scheduleToClose: 7201 } },
  ]) {
    expect((await sent('named', other)).error.data).toEqual({ reason: 'idempotency_conflict' })
  }
})
