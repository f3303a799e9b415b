/** A wait that reaches its limit is counted under the limit's name. */
import { expect, test } from 'vitest'
import { createAgent } from '../../src/index.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { startApp } from '../support/app.ts'
import { a2aClient } from '../support/clients/actors.ts'
import { withClient } from '../support/database/database.ts'
import { attemptsOf, metric, operate } from '../support/steps.ts'
import { until } from '../support/until.ts'

const NEVER = 3_600_000
const app = await startApp({
  poolSize: 2,
  acquireMs: 200,
  statementMs: 1500,
  lockMs: 400,
  ...{ pollMs: NEVER, reapMs: NEVER, comeDueMs: NEVER, placeMs: NEVER, countMs: NEVER },
})
const count = (limit: string) => metric(app, `switchboard_limit_timeouts_total{limit="${limit}"}`)

test('waits for a lock and for a connection', async () => {
  const { client } = await app.queue('desk', { contexts: 'parallel' })
  const a2a = a2aClient(app.url, 'desk', client.token)
  const ids: string[] = []
  for (const text of ['one', 'two', 'three']) ids.push((await a2a.submit(text)).id)
  const before = [await count('lock'), await count('acquire')] as const
  expect(before).toEqual([0, 0])
  await withClient(app.databaseUrl, async (sql) => {
    await sql.query('begin')
    await sql.query('select from todos where id = any($1::uuid[]) for update', [ids])
    await Promise.all(ids.map((id) => operate(app, 'todos.cancel', { id }).catch(() => {})))
    await sql.query('rollback')
  })
  expect(await count('lock')).toBeGreaterThan(0)
  expect(await count('acquire')).toBeGreaterThan(0)
})

test('statements that take too long', async () => {
  const limits: string[] = []
  const database = openDatabase({
    connectionString: app.databaseUrl,
    statementMs: 50,
    onTimeout: (limit) => limits.push(limit),
  })
  await expect(database.query('select pg_sleep(5)', [])).rejects.toMatchObject({
    kind: 'unavailable',
  })
  await expect(
    database.transaction((session) => session.query('select pg_sleep(5)', [])),
  ).rejects.toMatchObject({ kind: 'unavailable' })
  await database.close()
  expect(limits).toEqual(['statement', 'statement'])
})

test('a tool that takes too long: the attempt says so, and it is counted', async () => {
  const { client, agent } = await app.queue('tools', { maxAttempts: 1 })
  const worker = createAgent({ url: app.url, token: agent.token }, async (ctx) => {
    await ctx.tool('fetch', 20, () => new Promise(() => {}))
    return 'never'
  })
  worker.start()
  try {
    const { id } = await a2aClient(app.url, 'tools', client.token).submit('go')
    await until(async () => (await operate(app, 'todos.show', { id })).state === 'failed')
    expect(await attemptsOf(app, id)).toMatchObject([{ cause: 'tool_timeout' }])
    expect(await count('tool')).toBe(1)
  } finally {
    await worker.stop()
  }
})
