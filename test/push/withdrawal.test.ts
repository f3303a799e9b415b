// A webhook whose endpoint lost the right to its task is told nothing more.
import { expect, test } from 'vitest'
import { startReceiver } from '../support/network/receiver.ts'
import { operate } from '../support/steps.ts'
import { until } from '../support/until.ts'
import { operatorOf, peopleOf, startPushApp } from './support.ts'

const app = await startPushApp()
const operator = operatorOf(app)
const receiver = await startReceiver()

const WITHDRAWN = 'the endpoint that made the config may not see the task any more'

test.each<[string, string, (id: string) => Record<string, unknown>]>([
  ['the queue', 'lost-queue', () => ({ queues: ['elsewhere'] })],
  ['the verb', 'lost-verb', () => ({ verbs: ['work'] })],
])('once its endpoint has lost %s, a webhook hears nothing more', async (_, queue, change) => {
  await operate(app, 'queues.put', { name: 'elsewhere' })
  const { client, worker, sendWith } = await peopleOf(app, queue)
  const task = await sendWith({ url: `${receiver.url}/${queue}` })
  const { held } = await worker.claim()
  const told = await receiver.came(`/${queue}`, 1)
  await operate(app, 'endpoints.update', { id: client.endpoint.id, ...change('') })
  await worker.call('todos.complete', held)
  const [dead] = await until(async () => {
    const { deliveries } = await operator('deliveries.list', { todoId: task.id, state: 'dead' })
    return deliveries.length > 0 && deliveries
  })
  expect(dead).toMatchObject({ reason: WITHDRAWN, attempts: 0 })
  // What comes after a delivery that was given up has been decided by then.
  await until(
    async () =>
      (await app.sql(`select from deliveries where todo_id = $1 and state = 'pending'`, [task.id]))
        .length === 0,
  )
  expect(receiver.at(`/${queue}`)).toHaveLength(told.length)
})

test('whoever may answer hears of any task of its queue, until it may not', async () => {
  const { a2a, worker } = await peopleOf(app, 'answered')
  const answerer = await app.vend(['answer', 'send'], ['answered'])
  const task = await a2a.submit('x')
  const { held } = await worker.claim()
  // No method lets it make one for another's task: it stands for a config of before.
  const other = await a2a.call('CreateTaskPushNotificationConfig', {
    taskId: task.id,
    url: `${receiver.url}/answered`,
  })
  expect(other.error).toBeUndefined()
  await app.sql('update push_configs set endpoint_id = $1 where todo_id = $2', [
    answerer.endpoint.id,
    task.id,
  ])
  await worker.call('todos.progress', { ...held, note: 'begun', percent: 1 })
  await worker.call('todos.interrupt', {
    ...held,
    state: 'input-required',
    message: { parts: [{ text: '?' }] },
  })
  await receiver.came('/answered', 1)
  await operate(app, 'endpoints.update', { id: answerer.endpoint.id, verbs: ['send'] })
  const before = receiver.at('/answered').length
  await operate(app, 'todos.cancel', { id: task.id })
  const [dead] = await until(async () => {
    const { deliveries } = await operator('deliveries.list', { todoId: task.id, state: 'dead' })
    return deliveries.length > 0 && deliveries
  })
  expect(dead).toMatchObject({ reason: WITHDRAWN })
  expect(receiver.at('/answered')).toHaveLength(before)
})
