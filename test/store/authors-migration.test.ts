/** The migration that gives todos and events an author, on a database that has been in use. */
import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { startNode } from '../support/app.ts'
import { a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { databaseBefore } from '../support/database/before-migration.ts'
import { withClient } from '../support/database/database.ts'

const { url: databaseUrl, drop } = await databaseBefore('0018_authors')
afterAll(drop)

/** As a node of before writes it, which knows no author. */
const addTask = (id: string, client: string) =>
  withClient(databaseUrl, async (session) => {
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

test('tasks of before, and of nodes of before, are from nobody named; a person’s message is not theirs', async () => {
  const [before, meanwhile, client] = [randomUUID(), randomUUID(), randomUUID()]
  await withClient(databaseUrl, (session) =>
    session.query(
      `insert into queues (name, card, policy) values ('q', '{"name":"q","description":"","version":"1","skills":[]}',
        '{"maxAttempts":5,"backoff":{"initialSeconds":1,"factor":2,"maxSeconds":300,"jitter":0.2},"contexts":"parallel","reentry":"question","dedupe":"off","timeouts":{}}')`,
    ),
  )
  await addTask(before, client)
  expect((await migrate(databaseUrl)).applied).toContain('0018_authors')
  const node = await startNode(databaseUrl)
  try {
    const vend = (verb: 'send' | 'work') =>
      node.services.operator.vend({ name: verb, queues: ['q'], verbs: [verb] })
    const sender = await vend('send')
    await addTask(meanwhile, client)
    await withClient(databaseUrl, (session) =>
      session.query('update todos set client_id = $1', [sender.endpoint.id]),
    )
    const worker = agentClient(node.url, (await vend('work')).token)
    const todo = await worker.claim()
    expect(todo).not.toHaveProperty('author')
    await worker.call('todos.interrupt', {
      ...todo.held,
      state: 'input-required',
      message: { parts: [{ text: '?' }] },
    })
    const send = async (metadata: object) => {
      const { result } = await a2aClient(node.url, 'q', sender.token).call('SendMessage', {
        message: textMessage('more', { contextId: 'c' }),
        metadata,
        configuration: { returnImmediately: true },
      })
      return result.task.id
    }
    expect([before, meanwhile]).not.toContain(await send({ 'switchboard/author': 'ann' }))
    expect(await send({})).toBe(todo.id)
  } finally {
    await node.stop()
  }
})
