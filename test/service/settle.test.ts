// A waiter that comes after the end of its task: what was heard of a new task before anybody waited
// for it is remembered, so the wait does not last until the poll.
import { expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { scaled } from '../support/timeouts.ts'

const app = await startApp({ pollMs: 60_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const access = await app.services.client.enter(client.caller, 'desk')

test('a task that ended between its send and the wait for it is answered at once', async () => {
  const { services } = app
  const message = { messageId: 'm', role: 'ROLE_USER' as const, parts: [{ text: 'x' }] }
  const { view, after } = await services.client.send({ queue: 'desk', message }, access)
  const never = new AbortController().signal
  const [claimed] = await services.agent.claim({ limit: 1, waitMs: 25_000 }, agent.caller, never)
  const { id, fence } = claimed!.view.todo
  await services.agent.complete({ id, fence }, agent.caller)
  expect(after).toBe(1)
  const settled = await services.watch.settle(
    view.todo.id,
    after,
    AbortSignal.timeout(scaled(10_000)),
  )
  expect(settled.todo.state).toBe('done')
})

test('a stream that goes on after its first event, on a node that heard nothing, is told the rest at once', async () => {
  const { services } = app
  const message = { messageId: 'n', role: 'ROLE_USER' as const, parts: [{ text: 'x' }] }
  const { view } = await services.client.send({ queue: 'desk', message }, access)
  const never = new AbortController().signal
  const [claimed] = await services.agent.claim({ limit: 1, waitMs: 25_000 }, agent.caller, never)
  const { id, fence } = claimed!.view.todo
  await services.agent.complete({ id, fence }, agent.caller)
  const other = await startNode(app.databaseUrl, { pollMs: 60_000 })
  const verbs: string[] = []
  const followed = other.services.watch.follow(view.todo.id, 1, AbortSignal.timeout(scaled(10_000)))
  for await (const { verb } of followed) verbs.push(verb)
  await other.stop()
  expect(verbs).toEqual(['claim', 'complete'])
})
