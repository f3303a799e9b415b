import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'

const app = await startApp({ reapMs: 3_600_000, comeDueMs: 3_600_000 })
const limits = { scheduleToStart: 60, startToClose: 900, scheduleToClose: 3600, heartbeat: 600 }
const { client, agent } = await app.queue('timed', { timeouts: limits, maxAttempts: 2 })
const a2a = a2aClient(app.url, 'timed', client.token)
const worker = agentClient(app.url, agent.token)

/** Moves every moment of a todo into the past, as if so many seconds had gone by. */
const pass = (id: string, seconds: number) =>
  app.sql(
    `update todos set
      due_at = due_at - make_interval(secs => $2), progress_at = progress_at - make_interval(secs => $2),
      started_at = started_at - make_interval(secs => $2), close_at = close_at - make_interval(secs => $2),
      interrupted_at = interrupted_at - make_interval(secs => $2),
      alarm_at = alarm_at - make_interval(secs => $2)
    where id = $1`,
    [id, seconds],
  )

const shown = (id: string) => app.services.operator.show(id, { kind: 'operator' })
const stateOf = async (id: string): Promise<string> => (await shown(id)).view.todo.state
const counted = async (timeout: string): Promise<number> => {
  const { values } = await app.metrics.timeouts.get()
  return values.find(({ labels }) => labels.timeout === timeout)?.value ?? 0
}

test('a todo that is not started in time fails, and counts', async () => {
  const { id } = await a2a.submit('late')
  await pass(id, 59)
  expect(await app.sweep.timeOut()).toBe(0)
  await pass(id, 1)
  expect(await app.sweep.timeOut()).toBe(1)
  const { view } = await shown(id)
  expect(view.todo.state).toBe('failed')
  expect(view.todo.finishedAt).not.toBeNull()
  expect(view.result).toMatchObject({ error: 'schedule_to_start_timeout' })
  expect(await counted('schedule_to_start_timeout')).toBe(1)
})

test('an agent that heartbeats without progress is noticed once, exactly at its deadline', async () => {
  const { id } = await a2a.submit('wedged')
  const todo = await worker.claim()
  expect(todo.deadlines).toMatchObject({ heartbeatSeconds: 600 })
  await pass(id, 599)
  await worker.call('todos.heartbeat', todo.held)
  expect(await app.sweep.timeOut()).toBe(0)
  await pass(id, 1)
  await worker.call('todos.heartbeat', todo.held)
  expect(await app.sweep.timeOut()).toBe(1)
  expect(await app.sweep.timeOut()).toBe(0)
  expect(await stateOf(id)).toBe('pending')
  const { attempts } = await shown(id)
  expect(attempts[0]).toMatchObject({
    outcome: 'timed_out',
    disposition: 'requeued',
    cause: 'heartbeat_timeout',
  })
  await expect(worker.call('todos.heartbeat', todo.held)).rejects.toMatchObject({
    error: { data: { reason: 'stale_fence' } },
  })
  await a2a.call('CancelTask', { id })
})

test('honest long work pushes its own silence deadline out', async () => {
  const { id } = await a2a.submit('long')
  const todo = await worker.claim()
  for (const sign of ['progress', 'say', 'artifact'] as const) {
    await pass(id, 250)
    if (sign === 'progress') await worker.call('todos.progress', { ...todo.held, note: 'page 3' })
    if (sign === 'say') {
      await worker.call('todos.say', { ...todo.held, message: { parts: [{ text: 'on it' }] } })
    }
    if (sign === 'artifact') {
      const artifact = { artifactId: 'a', parts: [{ text: 'x' }] }
      await worker.call('todos.artifact', { ...todo.held, artifact })
    }
    expect(await app.sweep.timeOut()).toBe(0)
  }
  await worker.call('todos.complete', todo.held)
})

test('an attempt that works too long is taken back, the time it waited for answers left out', async () => {
  const { id } = await a2a.submit('slow')
  const todo = await worker.claim()
  await worker.call('todos.interrupt', {
    ...todo.held,
    state: 'input-required',
    message: { parts: [{ text: '?' }] },
  })
  await pass(id, 2000)
  expect(await app.sweep.timeOut()).toBe(0)
  await a2a.call('SendMessage', {
    message: textMessage('go on', { taskId: id }),
    configuration: { returnImmediately: true },
  })
  await worker.call('todos.progress', todo.held)
  expect(await app.sweep.timeOut()).toBe(0)
  await pass(id, 500)
  await worker.call('todos.progress', todo.held)
  expect(await app.sweep.timeOut()).toBe(0)
  await pass(id, 401)
  await worker.call('todos.progress', todo.held)
  expect(await app.sweep.timeOut()).toBe(1)
  const { attempts } = await shown(id)
  expect(attempts[0]).toMatchObject({ outcome: 'timed_out', cause: 'start_to_close_timeout' })
  await a2a.call('CancelTask', { id })
})

test('a todo that is not ended in time fails whatever its state, and is not retried', async () => {
  const { id } = await a2a.submit('for ever')
  const todo = await worker.claim()
  await pass(id, 500)
  await worker.call('todos.progress', todo.held)
  await worker.call('todos.interrupt', {
    ...todo.held,
    state: 'auth-required',
    message: { parts: [{ text: 'sign in' }] },
  })
  await pass(id, 3100)
  expect(await app.sweep.timeOut()).toBe(1)
  const { view, attempts } = await shown(id)
  expect(view.todo).toMatchObject({ state: 'failed', nextRetryAt: null })
  expect(view.result).toMatchObject({ error: 'schedule_to_close_timeout' })
  expect(attempts[0]).toMatchObject({ outcome: 'timed_out', disposition: 'dead_lettered' })
})

test('the last attempt allowed ends as a dead letter that names the limit', async () => {
  const { id } = await a2a.submit('twice')
  for (const expected of ['pending', 'failed']) {
    const todo = await worker.claim()
    expect(todo.id).toBe(id)
    await pass(id, 600)
    expect(await app.sweep.timeOut()).toBe(1)
    expect(await stateOf(id)).toBe(expected)
  }
  expect((await shown(id)).view.result).toMatchObject({ error: 'heartbeat_timeout' })
})

test('a send may set its own limits over those of the queue, and a wrong one stores nothing', async () => {
  const send = (timeouts: unknown) =>
    a2a.call('SendMessage', {
      message: textMessage('mine'),
      metadata: { 'urn:switchboard:timeouts': timeouts },
      configuration: { returnImmediately: true },
    })
  const { id } = (await send({ scheduleToStart: 5 })).result.task
  expect((await shown(id)).view.todo).toMatchObject({
    scheduleToStartSeconds: 5,
    startToCloseSeconds: 900,
    heartbeatSeconds: 600,
  })
  const [before] = await app.sql<{ n: string }>('select count(*) as n from todos')
  for (const wrong of [{ heartbeat: 0 }, { heartbeat: 'soon' }, { patience: 3 }, 'none']) {
    expect((await send(wrong)).error).toMatchObject({ code: -32602 })
  }
  expect(await app.sql('select count(*) as n from todos')).toEqual([before])
  await a2a.call('CancelTask', { id })
})

test('why names the limits that a todo may run into', async () => {
  const { id } = await a2a.submit('asked about')
  const why = async () => (await app.services.operator.why(id, { kind: 'operator' })).why
  expect(await why()).toMatch(/not started by .*schedule_to_start_timeout/)
  const todo = await worker.claim()
  expect(await why()).toMatch(/without progress by .*heartbeat_timeout.*start_to_close_timeout/)
  await worker.call('todos.complete', todo.held)
})
