// Ordinary connections through a pooler that lends them for a transaction each.
// Field cases: transaction pooler; a database with other habits.
import { afterAll, describe, expect, test } from 'vitest'
import { migrate, pendingMigrations } from '../../src/store/postgres/migrate.ts'
import { probe } from '../../src/store/postgres/probe.ts'
import { type AppOptions, startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { cloneDatabase, emptyDatabase, withClient } from '../support/database/database.ts'
import { hasPgBouncer, startPgBouncer } from '../support/database/pgbouncer.ts'
import { serveProcess } from '../support/process/serve-process.ts'
import { ask, operate, saying } from '../support/steps.ts'

/** Two nodes of one database, and people on either. */
const startPair = async (databaseUrl: string, options: AppOptions) => {
  const here = await startNode(databaseUrl, options)
  const there = await startNode(databaseUrl, options)
  const { operator } = here.services
  await operator.putQueue({ name: 'desk', policy: { contexts: 'parallel' } })
  const vend = (verb: 'send' | 'work') =>
    operator.vend({ name: verb, queues: ['desk'], verbs: [verb] })
  const [client, agent] = [await vend('send'), await vend('work')]
  return {
    here,
    there,
    a2a: a2aClient(here.url, 'desk', client.token),
    worker: agentClient(there.url, agent.token),
    stop: async () => {
      await here.stop()
      await there.stop()
    },
  }
}

describe.skipIf(!hasPgBouncer)('through a pooler in transaction mode', async () => {
  const clone = hasPgBouncer ? await cloneDatabase() : null
  const url = clone ? await startPgBouncer(clone.url) : ''
  afterAll(() => clone?.drop())

  test('the pooler is noticed, and a server without one is not taken for it', async () => {
    expect(await probe(url)).toEqual({ pooled: true })
    expect(await probe(clone!.url)).toEqual({ pooled: false })
  })

  test.each([
    ['datestyle', 'German, DMY'],
    ['intervalstyle', 'iso_8601'],
    ['bytea_output', 'escape'],
  ])(
    'where its %s cannot be read, the database is refused with what to do',
    async (name, habit) => {
      const other = await cloneDatabase()
      const database = new URL(other.url).pathname.slice(1)
      await withClient(clone!.url, (sql) =>
        sql.query(`alter database "${database}" set ${name} = '${habit}'`),
      )
      try {
        // Without the pooler each connection sets it.
        expect(await probe(other.url)).toEqual({ pooled: false })
        await expect(probe(await startPgBouncer(other.url))).rejects.toMatchObject({
          refused: true,
          message: expect.stringContaining(`alter database … set ${name} = `),
        })
      } finally {
        await other.drop()
      }
    },
  )

  test.each([
    ['without a direct address, within the poll', { pollMs: 100, direct: false }],
    ['with a direct address, long before the poll', { pollMs: 60_000, direct: true }],
  ])('%s, tasks, questions and streams go from node to node', async (_name, { direct, pollMs }) => {
    const pair = await startPair(url, {
      pooled: true,
      pollMs,
      placeMs: 50,
      ...(direct && { directUrl: clone!.url }),
    })
    const { a2a, worker } = pair
    expect((await fetch(`${pair.here.url}/readyz`)).status).toBe(200)
    // Many at once, so that every lent connection has seen every statement.
    const rounds = Array.from({ length: 12 }, async (_, n) => {
      const sent = a2a.send(`hello ${n}`)
      const todo = await worker.claim()
      await ask(worker, todo, 'which?')
      const { task } = (await sent).result
      expect(task.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
      return todo
    })
    const todos = await Promise.all(rounds)
    await Promise.all(
      todos.map(async (todo) => {
        const stream = await a2a.stream('SubscribeToTask', { id: todo.id })
        const answered = a2a.send('that', { taskId: todo.id })
        const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
        const acknowledge = messages.at(-1).seq
        await worker.call('todos.complete', { ...todo.held, acknowledge, message: saying('bye') })
        expect((await answered).result.task.status.state).toBe('TASK_STATE_COMPLETED')
        const frames = await stream.rest()
        expect(frames.at(-1)?.json.result.statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')
      }),
    )
    await pair.here.sweep.reap()
    await pair.here.sweep.timeOut()
    await pair.stop()
  })

  test('an empty database is migrated through it, also by starts that race', async () => {
    const empty = await emptyDatabase()
    const through = await startPgBouncer(empty.url)
    await Promise.all([1, 2, 3].map(() => migrate(through, { pooled: true })))
    expect(await pendingMigrations(through)).toEqual([])
    await empty.drop()
  })

  test('serve finds out by itself, says so once, and works', async () => {
    const server = await serveProcess(url)
    expect(server.log.filter((line) => line.includes('a pooler stands before'))).toHaveLength(1)
    expect(await operate(server, 'queues.list', {})).toMatchObject({ queues: [{ name: 'desk' }] })
  })
})
