/** The migration that counts what a todo holds, on a database in use by nodes of before. */
import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { databaseBefore } from '../support/database/before-migration.ts'
import { withClient } from '../support/database/database.ts'
import { saying } from '../support/steps.ts'

const LAST = '0016_todo_documents'
const { url: databaseUrl, drop } = await databaseBefore(LAST)
afterAll(drop)

const sql = async (text: string, values: unknown[] = []) =>
  withClient(databaseUrl, async (client) => (await client.query(text, values)).rows)

const message = (text: string) =>
  JSON.stringify({ messageId: text, role: 'ROLE_USER', parts: [{ text }] })

/** As a node of before makes a todo, and as it adds a message. */
const makeTodo = async (): Promise<string> => {
  const id = randomUUID()
  await sql(
    `with t as (insert into todos (id, queue, context_id, max_attempts, due_at) values ($1, 'q', 'c', 5, now())),
      e as (insert into events (todo_id, seq, queue, context_id, verb, to_state, attempt, fence, at)
        values ($1, 1, 'q', 'c', 'send', 'pending', 0, 0, now()))
    insert into messages (todo_id, seq, message_id, role, message) values ($1, 1, 'm', 'user', $2)`,
    [id, message('x')],
  )
  return id
}
const addMessage = (id: string, text: string) =>
  sql(
    `with t as (update todos set seq = seq + 1 where id = $1 returning *)
    insert into messages (todo_id, seq, message_id, role, message) select id, seq, $2, 'agent', $3 from t`,
    [id, text, message(text)],
  )
const held = async (id: string) =>
  (
    await sql(
      `select documents, document_bytes::int as bytes, todo_documents(id) as found,
        todo_document_bytes(id)::int as measured from todos where id = $1`,
      [id],
    )
  )[0]

test('what was there is counted when it is next written to, and nodes of before go on', async () => {
  await sql(
    `insert into queues (name, card, policy) values ('q', '{"name":"q","description":"","version":"1","skills":[]}',
      '{"maxAttempts":5,"backoff":{"initialSeconds":1,"factor":2,"maxSeconds":300,"jitter":0.2},"contexts":"parallel","reentry":"explicit","dedupe":"off","timeouts":{}}')`,
  )
  const before = await makeTodo()
  await addMessage(before, 'of before')
  expect((await migrate(databaseUrl)).applied).toContain(LAST)
  const meanwhile = await makeTodo()

  const node = await startNode(databaseUrl)
  try {
    const vend = (verb: 'send' | 'work') =>
      node.services.operator.vend({ name: verb, queues: ['q'], verbs: [verb] })
    const sender = await vend('send')
    await sql('update todos set client_id = $1', [sender.endpoint.id])
    const a2a = a2aClient(node.url, 'q', sender.token)
    const worker = agentClient(node.url, (await vend('work')).token)
    for (const id of [before, meanwhile]) {
      expect(await held(id)).toMatchObject({ documents: null, bytes: null })
      const todo = await worker.claim()
      expect(todo.id).toBe(id)
      await addMessage(id, 'beside it')
      await worker.call('todos.say', { ...todo.held, message: saying('counted') })
      const { documents, bytes, found, measured } = await held(id)
      expect([documents, bytes]).toEqual([found, measured])
      // What it adds from now on is not in the sum, and is read like all else.
      await addMessage(id, 'not counted')
      expect(await held(id)).toMatchObject({ documents, found: found + 1 })
      const { history } = await a2a.get(id)
      expect(history.at(-1).parts).toEqual([{ text: 'not counted' }])
      await worker.call('todos.complete', todo.held)
    }
  } finally {
    await node.stop()
  }
})
