/** The migration that keeps what clients say beside a message, on a database that has been in use. */
import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { startNode } from '../support/app.ts'
import { a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { databaseBefore } from '../support/database/before-migration.ts'
import { withClient } from '../support/database/database.ts'

const { url: databaseUrl, drop } = await databaseBefore('0014_message_requests')
afterAll(drop)

test('a task of before is claimed as one whose client said nothing, and takes messages that say more', async () => {
  const id = randomUUID()
  const client = randomUUID()
  const add = `insert into messages (todo_id, seq, message_id, role, message) values ($1, $2, $3, 'user',
    '{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}')`
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
    await session.query(add, [id, 1, 'm'])
  })
  expect((await migrate(databaseUrl)).applied).toContain('0014_message_requests')

  const node = await startNode(databaseUrl)
  try {
    const vend = (verb: 'send' | 'work') =>
      node.services.operator.vend({ name: verb, queues: ['q'], verbs: [verb] })
    const sender = await vend('send')
    await withClient(databaseUrl, async (session) => {
      await session.query('update todos set client_id = $1', [sender.endpoint.id])
      // A node of before, beside this one, writes messages as it did.
      await session.query(add, [id, 0, 'old'])
    })
    const worker = agentClient(node.url, (await vend('work')).token)
    const todo = await worker.claim()
    expect(todo).toMatchObject({ id, sender: sender.endpoint.id, extensions: [] })
    expect(todo).not.toHaveProperty('configuration')
    await a2aClient(node.url, 'q', sender.token).call('SendMessage', {
      message: textMessage('more', { taskId: id }),
      metadata: { urgent: true },
      configuration: { returnImmediately: true },
    })
    const { messages } = await worker.call('todos.messages', todo.held)
    expect(messages[0].request).toEqual({ metadata: { urgent: true } })
  } finally {
    await node.stop()
  }
})
