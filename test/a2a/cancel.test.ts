// Field cases: cancel is idempotent; cancel without a worker; a running worker hears of the cancel.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, openStream } from '../support/clients/actors.ts'
import { ask, attemptsOf, makeDue, nextOf, refusalOf, saying, statesOf } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const error = { code: 'boom', message: 'it broke' }

const submitAndClaim = async () => {
  await a2a.submit('x')
  return worker.claim()
}
const cancel = (id: string) => a2a.call('CancelTask', { id })
const eventsOf = (id: string) =>
  app.sql<{ verb: string }>('select verb from events where todo_id = $1 order by seq', [id])

test('a cancel is the same again and again, and one event in all', async () => {
  const todo = await submitAndClaim()
  const stream = await a2a.stream('SubscribeToTask', { id: todo.id })
  await nextOf(stream)
  const first = (await cancel(todo.id)).result
  expect(first.status.state).toBe('TASK_STATE_CANCELED')
  expect((await cancel(todo.id)).result).toEqual(first)
  expect((await cancel(todo.id)).result).toEqual(first)
  expect(statesOf(await stream.rest())).toEqual(['TASK_STATE_CANCELED'])
  expect((await eventsOf(todo.id)).map(({ verb }) => verb)).toEqual(['send', 'claim', 'cancel'])
})

test('twenty cancels at the same moment are one', async () => {
  const todo = await submitAndClaim()
  const answers = await Promise.all(Array.from({ length: 20 }, () => cancel(todo.id)))
  for (const { result } of answers) expect(result).toEqual(answers[0].result)
  expect((await eventsOf(todo.id)).filter(({ verb }) => verb === 'cancel')).toHaveLength(1)
  expect(await attemptsOf(app, todo.id)).toMatchObject([
    { outcome: 'canceled', disposition: 'canceled' },
  ])
})

test('a task that completed, failed or was rejected cannot be canceled', async () => {
  const done = await submitAndClaim()
  await worker.call('todos.complete', done.held)
  const dead = await submitAndClaim()
  await worker.call('todos.fail', { ...dead.held, error, retryable: false })
  const rejected = await submitAndClaim()
  await worker.call('todos.reject', rejected.held)
  for (const { id } of [done, dead, rejected]) {
    const before = await a2a.get(id)
    expect((await cancel(id)).error).toMatchObject({
      code: -32002,
      data: [{ reason: 'TASK_NOT_CANCELABLE', domain: 'a2a-protocol.org' }],
    })
    expect(await a2a.get(id)).toEqual(before)
  }
})

test('a task can be canceled where nobody works on it, and is not claimable any more', async () => {
  const pending = await a2a.submit('x')
  const canceled = [pending.id]
  expect((await cancel(pending.id)).result.status.state).toBe('TASK_STATE_CANCELED')
  for (const state of ['input-required', 'auth-required']) {
    for (const hold of [true, false]) {
      const asked = await submitAndClaim()
      await ask(worker, asked, 'well?', { state, hold })
      expect((await cancel(asked.id)).result.status.state).toBe('TASK_STATE_CANCELED')
      expect((await refusalOf(worker.call('todos.heartbeat', asked.held))).data.reason).toBe(
        'stale_fence',
      )
      canceled.push(asked.id)
    }
  }
  const retrying = await submitAndClaim()
  await worker.call('todos.fail', { ...retrying.held, error, retryInSeconds: 3600 })
  expect((await cancel(retrying.id)).result.status.state).toBe('TASK_STATE_CANCELED')
  canceled.push(retrying.id)
  await makeDue(app, retrying.id)
  for (const id of canceled) {
    expect((await a2a.get(id)).status.state).toBe('TASK_STATE_CANCELED')
  }
  expect((await worker.call('todos.claim', { limit: 100 })).todos).toEqual([])
})

test('the holder of a canceled task is told at once and at its next heartbeat, and can write no more', async () => {
  const signals = await openStream(`${app.url}/agent/events`, { token: agent.token })
  const todo = await submitAndClaim()
  await worker.call('todos.heartbeat', todo.held)
  await cancel(todo.id)
  const heard = await signals.until(({ event }) => event === 'canceled')
  expect(heard.at(-1)!.json).toEqual({ id: todo.id, fence: todo.fence })
  signals.close()
  const before = await a2a.get(todo.id)
  const calls: Record<string, object> = {
    heartbeat: {},
    progress: {},
    say: { message: saying('x') },
    artifact: { artifact: { artifactId: 'a', parts: [{ text: 'x' }] } },
    interrupt: { state: 'input-required', message: saying('x') },
    messages: {},
    acknowledge: { through: 1 },
    complete: {},
    fail: { error },
    release: {},
    reject: {},
  }
  for (const [verb, more] of Object.entries(calls)) {
    const refusal = await refusalOf(worker.call(`todos.${verb}`, { ...todo.held, ...more }))
    expect([verb, refusal]).toMatchObject([
      verb,
      { code: -32010, data: { reason: 'stale_fence', state: 'canceled' } },
    ])
  }
  expect(await a2a.get(todo.id)).toEqual(before)
  const next = await submitAndClaim()
  await worker.call('todos.complete', next.held)
})

test('of a cancel and a complete at the same moment exactly one is true', async () => {
  for (let run = 0; run < 50; run += 1) {
    const todo = await submitAndClaim()
    const [canceled, completed] = await Promise.all([
      cancel(todo.id),
      worker.call('todos.complete', todo.held).then(
        () => true,
        () => false,
      ),
    ])
    const { state } = (await a2a.get(todo.id)).status
    expect(state).toBe(completed ? 'TASK_STATE_COMPLETED' : 'TASK_STATE_CANCELED')
    expect('error' in canceled).toBe(completed)
    const verbs = (await eventsOf(todo.id)).map(({ verb }) => verb)
    expect(verbs).toEqual(['send', 'claim', completed ? 'complete' : 'cancel'])
  }
})
