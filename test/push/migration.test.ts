/** The migration that brings webhooks, on a database that has been in use. */
import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { databaseBefore } from '../support/database/before-migration.ts'
import { withClient } from '../support/database/database.ts'
import { startReceiver } from '../support/network/receiver.ts'
import { FAST, LOCAL } from './support.ts'

const { url: databaseUrl, drop } = await databaseBefore('0008_push')
afterAll(drop)

test('tasks of before take webhooks, and tell them what happens from then on', async () => {
  const id = randomUUID()
  const client = randomUUID()
  await withClient(databaseUrl, async (session) => {
    await session.query(
      `insert into queues (name, card, policy) values ('q', '{"name":"q","description":"","version":"1","skills":[]}',
        '{"maxAttempts":5,"backoff":{"initialSeconds":1,"factor":2,"maxSeconds":300,"jitter":0.2},"contexts":"parallel","reentry":"explicit","dedupe":"off","timeouts":{}}')`,
    )
    await session.query(
      `insert into todos (id, queue, context_id, client_id, max_attempts, due_at)
      values ($1, 'q', 'c', $2, 5, now())`,
      [id, client],
    )
    await session.query(
      `insert into events (todo_id, seq, queue, context_id, verb, to_state, attempt, fence, at)
      values ($1, 1, 'q', 'c', 'send', 'pending', 0, 0, now())`,
      [id],
    )
    await session.query(
      `insert into messages (todo_id, seq, message_id, role, message) values ($1, 1, 'm', 'user',
        '{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}')`,
      [id],
    )
  })
  expect((await migrate(databaseUrl)).applied).toContain('0008_push')

  const receiver = await startReceiver()
  const node = await startNode(databaseUrl, { config: LOCAL, push: FAST })
  try {
    const vend = (verb: 'send' | 'work') =>
      node.services.operator.vend({ name: verb, queues: ['q'], verbs: [verb] })
    const sender = await vend('send')
    await withClient(databaseUrl, (session) =>
      session.query('update todos set client_id = $1', [sender.endpoint.id]),
    )
    const a2a = a2aClient(node.url, 'q', sender.token)
    await a2a.call('CreateTaskPushNotificationConfig', { taskId: id, url: `${receiver.url}/h` })
    const worker = agentClient(node.url, (await vend('work')).token)
    const todo = await worker.claim()
    await worker.call('todos.complete', todo.held)
    await receiver.came('/h', 2)
  } finally {
    await node.stop()
  }
})
