/**
 * What stood in the database before there was a bound, on a node with little memory: a todo of a third of
 * a gigabyte, which nobody has counted. It can be claimed, shown, listed and canceled, whoever else asks is
 * answered, and the node stays up.
 * Field cases: a large todo before small ones.
 */
import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { serveProcessWith } from '../support/process/serve-process.ts'
import { nextOf, openBoard, operate } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const { child, url, log } = await serveProcessWith(
  { NODE_OPTIONS: '--max-old-space-size=256' },
  app.databaseUrl,
)
const a2a = a2aClient(url, 'desk', client.token)
const worker = agentClient(url, agent.token)

const MESSAGES = 81
const MESSAGE_BYTES = 4_100_000

/** As 81 messages of a client left it, with a node of before. */
const makeLarge = async (): Promise<string> => {
  const { id } = await a2a.submit('the large one')
  await app.sql(
    `insert into messages (todo_id, seq, message_id, role, owed, sender, message)
    select $1, n + 1, n::text, 'user', true, $2,
      ('{"messageId":"' || n || '","role":"ROLE_USER","parts":[{"text":"'
        || repeat(md5(n::text), $4::int / 32) || '"}]}')::json
    from generate_series(1, $3::int) n`,
    [id, client.endpoint.id, MESSAGES, MESSAGE_BYTES],
  )
  await app.sql(
    `insert into events (todo_id, seq, queue, context_id, verb, to_state, attempt, fence, at)
    select $1, n + 1, 'desk', 'c', 'message', 'pending', 0, 0, now() from generate_series(1, $2::int) n`,
    [id, MESSAGES],
  )
  await app.sql(
    `update todos set seq = $2::int + 1, unread = $2, documents = null, document_bytes = null where id = $1`,
    [id, MESSAGES],
  )
  return id
}

test('a todo of a third of a gigabyte is worked, shown and canceled like any other', async () => {
  const id = await makeLarge()
  const small = (await a2a.submit('small')).id
  const { todos } = await worker.call('todos.claim', { limit: 10 })
  const [first] = todos
  expect(first.id).toBe(id)
  expect(first.omitted.messages).toBeGreaterThan(MESSAGES - 5)
  const other = await worker.claim()
  expect(other.id).toBe(small)

  // Page by page it is all there.
  const held = { id, fence: first.fence }
  let documents = 0
  for (let after: number | null = 0; after !== null; ) {
    const page: Answer = await worker.call('todos.documents', { ...held, after })
    documents += page.documents.length
    after = page.next
  }
  expect(documents).toBe(MESSAGES + 1)
  const handed = await worker.call('todos.messages', held)
  expect(handed.messages).toHaveLength(1)

  // Everybody at once, and those who have nothing to do with it beside them.
  const isSmallDone = worker.call('todos.complete', other.held)
  await Promise.all([
    a2a.get(id).then((task) => expect(task.history.length).toBeGreaterThan(1)),
    a2a.call('ListTasks', { includeArtifacts: true }).then(({ result }) => {
      expect(result.tasks.map((task: Answer) => task.id)).toContain(id)
    }),
    operate({ url }, 'todos.show', { id }).then((shown) => expect(shown.events.length).toBe(83)),
    operate({ url }, 'todos.list', {}),
    openBoard({ url }, 'queue=desk').then(async (board) => {
      const { json } = await nextOf(board)
      expect(json.lanes.held.todos.map((todo: Answer) => todo.id)).toContain(id)
      board.close()
    }),
    worker.call('todos.get', { id }),
    isSmallDone,
  ])
  const refused = (await a2a.send('more', { taskId: id }, { returnImmediately: true })).error
  expect(refused.data[0]).toMatchObject({ reason: 'LIMIT_REACHED' })

  // A reader of its stream gets all of it, a page at a time.
  const stream = await a2a.stream('SubscribeToTask', { id })
  await nextOf(stream)
  const canceled = await operate({ url }, 'todos.cancel', { id })
  expect(canceled.state).toBe('canceled')
  await stream.rest()
  expect((await a2a.get(small)).status.state).toBe('TASK_STATE_COMPLETED')
  expect(child.exitCode, log.join('\n')).toBeNull()
})

test('97 MB of artifacts that were handed back hold up none of the small todos behind them', async () => {
  const { client, agent } = await app.queue('copies', { contexts: 'parallel' })
  const sender = a2aClient(url, 'copies', client.token)
  const taker = agentClient(url, agent.token)
  const { id } = await sender.submit('the large one')
  await taker.call('todos.release', (await taker.claim()).held)
  await app.sql(
    `insert into artifacts (todo_id, artifact_id, seq, append, last_chunk, artifact)
    select $1, 'a', n + 10, n > 1, false, ('{"artifactId":"a","parts":[{"text":"'
      || repeat(md5(n::text), 31250) || '"}]}')::json
    from generate_series(1, 97) n`,
    [id],
  )
  await app.sql(
    `insert into events (todo_id, seq, queue, context_id, verb, artifact_id, from_state, to_state, attempt,
      fence, at)
    select $1, n + 10, 'copies', 'c', 'artifact', 'a', 'claimed', 'claimed', 1, 1, now()
    from generate_series(1, 97) n`,
    [id],
  )
  await app.sql(
    'update todos set seq = 107, documents = null, document_bytes = null where id = $1',
    [id],
  )
  const small: string[] = []
  for (const text of ['one', 'two', 'three']) small.push((await sender.submit(text)).id)

  const { todos } = await taker.call('todos.claim', { limit: 10 })
  expect(todos.map((todo: Answer) => todo.id)).toEqual([id])
  expect(todos[0].omitted.artifactBytes).toBeGreaterThan(97_000_000)
  const behind = (await taker.call('todos.claim', { limit: 10 })).todos
  expect(behind.map((todo: Answer) => todo.id)).toEqual(small)
  for (const todo of behind) {
    await taker.call('todos.complete', { id: todo.id, fence: todo.fence })
  }
  const shown = await operate({ url }, 'todos.show', { id })
  expect(shown.omitted.artifactBytes).toBeGreaterThan(97_000_000)
  const { error } = await sender.call('GetTask', { id })
  expect(error.data[0]).toMatchObject({ reason: 'LIMIT_REACHED' })

  const held = { id, fence: todos[0].fence }
  let chunks = 0
  for (let after: number | null = 0; after !== null; ) {
    const page: Answer = await taker.call('todos.documents', { ...held, after })
    chunks += page.documents.filter((document: Answer) => document.artifact).length
    after = page.next
  }
  expect(chunks).toBe(97)
  const failure = { code: 'too_much', message: 'no' }
  await taker.call('todos.fail', { ...held, error: failure, retryable: false })
  expect((await operate({ url }, 'todos.show', { id })).state).toBe('failed')
  expect((await operate({ url }, 'todos.retry', { id })).message.parts[0].text).toBe(
    'the large one',
  )
  expect(child.exitCode, log.join('\n')).toBeNull()
})

test('a revocation ends what its endpoint has sent, however large', async () => {
  const id = await makeLarge()
  await operate({ url }, 'endpoints.revoke', { id: client.endpoint.id, cancelTasks: true })
  await until(async () => {
    const [todo] = await app.sql<{ state: string }>('select state from todos where id = $1', [id])
    return todo?.state === 'canceled'
  })
  expect(child.exitCode, log.join('\n')).toBeNull()
})

test('a value that is longer than a string can be fails the call that reads it, and nothing else', async () => {
  const database = openDatabase({
    connectionString: app.databaseUrl,
    poolSize: 2,
    statementMs: scaled(60_000),
  })
  afterAll(() => database.close())
  const beside = database.query<{ one: number }>('select 1 as one, pg_sleep(1)', [])
  await expect(
    database.query(`select repeat('x', 540000000) as text, $1::text as id`, [randomUUID()]),
  ).rejects.toMatchObject({ kind: 'limit' })
  expect(await beside).toMatchObject([{ one: 1 }])
  expect(await database.query('select 2 as two', [])).toEqual([{ two: 2 }])
  await expect(
    database.transaction(async (session) => {
      await session.query(`select repeat('x', 540000000) as text`, [])
    }),
  ).rejects.toMatchObject({ kind: 'limit' })
  expect(await database.query('select 3 as three', [])).toEqual([{ three: 3 }])
})
