// Field case: listener cut off.
import { expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, metric, nextOf, saying } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const app = await startApp({ pollMs: 60_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })

test('with the listening sessions cut off, what happens elsewhere is noticed long before the poll, ten times over', async () => {
  const other = await startNode(app.databaseUrl, { pollMs: 60_000 })
  const here = a2aClient(app.url, 'desk', client.token)
  const there = a2aClient(other.url, 'desk', client.token)
  const waiter = agentClient(app.url, agent.token)
  const actor = agentClient(other.url, agent.token)

  const followed = await there.submit('followed')
  const speaking = await actor.claim()
  const stream = await here.stream('SubscribeToTask', { id: followed.id })
  await nextOf(stream)
  const asked = await there.submit('asked')
  const asking = await actor.claim()

  const before = await metric(app, 'switchboard_listener_reconnects_total')
  let through = 0
  for (let round = 1; round <= 10; round += 1) {
    await ask(actor, asking, `question ${round}`)
    const claim = waiter.call('todos.claim', { waitMs: 25_000 })
    const messages = waiter.call('todos.messages', {
      ...asking.held,
      after: through,
      waitMs: 25_000,
    })
    const heard = nextOf(stream)
    await until(async () => (await metric(app, 'switchboard_waiting_claims')) === 1)
    await app.sql(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'switchboard wake' and datname = current_database()`,
    )
    const sent = there.submit('new')
    await actor.call('todos.say', { ...speaking.held, message: saying(`round ${round}`) })
    await there.submit(`answer ${round}`, { taskId: asked.id })
    const started = performance.now()
    const [{ todos }, answered, frame, { id }] = await Promise.all([claim, messages, heard, sent])
    expect(performance.now() - started).toBeLessThan(scaled(10_000))
    expect(todos).toMatchObject([{ id }])
    await waiter.call('todos.complete', { id, fence: todos[0].fence })
    expect(answered.messages.at(-1).message.parts).toEqual([{ text: `answer ${round}` }])
    through = answered.messages.at(-1).seq
    expect(frame.json.result.statusUpdate.status.message.parts).toEqual([
      { text: `round ${round}` },
    ])
    await until(async () => (await fetch(`${app.url}/readyz`)).status === 200)
  }
  const reconnects = (await metric(app, 'switchboard_listener_reconnects_total')) - before
  expect(reconnects).toBeGreaterThanOrEqual(9)
  expect(reconnects).toBeLessThanOrEqual(10)
  await other.stop()
})
