// The limits on waiting for a connection and for a statement (docs/lifecycle.md, "Waits of a
// node").
// Field case: alive and ready.
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { a2aClient, agentClient, post } from '../support/clients/actors.ts'
import { withClient } from '../support/database/database.ts'
import { metric } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

// Sweeps far apart: the two connections are for the calls of the test.
const app = await startApp({
  poolSize: 2,
  acquireMs: 300,
  lockMs: 10_000,
  pollMs: 60_000,
  reapMs: 60_000,
  comeDueMs: 60_000,
  placeMs: 60_000,
  countMs: 60_000,
})
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const V1 = { 'A2A-Version': '1.0' }
const ask = (path: string, method: string, params: unknown, token: string) =>
  post(app.url + path, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), {
    token,
    headers: V1,
  })

/** Runs `work` while nothing may touch the rows, so that whoever wants one of them keeps waiting. */
const withLocked = (ids: string[], work: () => Promise<void>): Promise<void> =>
  withClient(app.databaseUrl, async (sql) => {
    await sql.query('begin')
    await sql.query('select from todos where id = any($1::uuid[]) for update', [ids])
    try {
      await work()
    } finally {
      await sql.query('rollback')
    }
  })

const readiness = async () => {
  const response = await fetch(`${app.url}/readyz`)
  const { reasons } = (await response.json()) as { reasons: string[] }
  return { status: response.status, reasons }
}

test('with every connection in use a call is refused in time, each surface in its own words, and all is well after', async () => {
  const ids = [(await a2a.submit('one')).id, (await a2a.submit('two')).id]
  const other = (await a2a.submit('three')).id
  // Known to the node, so that the calls below want nothing but their own connection.
  await worker.call('todos.list', {})
  await withLocked(ids, async () => {
    const stuck = ids.map((id) => a2a.call('CancelTask', { id }))
    const stuckIn = () =>
      app.sql(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
    await until(async () => (await stuckIn()).length === 2, { what: 'both connections wait' })

    const started = performance.now()
    const answers = await Promise.all([
      ask('/a2a/desk/', 'GetTask', { id: other }, client.token),
      ask('/agent', 'todos.get', { id: other }, agent.token),
      ask('/operator', 'todos.show', { id: other }, ADMIN_TOKEN),
    ])
    expect(performance.now() - started).toBeLessThan(scaled(5000))
    for (const { status, headers } of answers) {
      expect(status).toBe(503)
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    }
    expect(answers.map(({ body }) => body.error.code)).toEqual([-32603, -32014, -32014])
    expect(answers[0]!.body.error.data[0]).toMatchObject({ reason: 'UNAVAILABLE' })
    expect(answers[1]!.body.error.data).toMatchObject({ reason: 'unavailable' })

    let seen = false
    const asking = (async () => {
      while (!seen) await a2a.call('GetTask', { id: other })
    })()
    await until(async () => (await metric(app, 'switchboard_pool_waiting')) > 0).finally(() => {
      seen = true
    })
    await asking

    expect(await readiness()).toEqual({
      status: 503,
      reasons: ['every database connection is in use'],
    })
    expect((await fetch(`${app.url}/healthz`)).status).toBe(200)
    void stuck.map((call) => call.catch(() => {}))
  })
  // Those who had a connection were never in danger.
  for (const id of ids) {
    await until(async () => (await a2a.get(id)).status.state === 'TASK_STATE_CANCELED')
  }
  await until(async () => (await readiness()).status === 200)
  expect(await metric(app, 'switchboard_pool_waiting')).toBe(0)
})

test('a statement that waits too long for a lock is given up, and the call is told to come again', async () => {
  const impatient = await startApp({ lockMs: 200 })
  const line = await impatient.queue('desk')
  const here = a2aClient(impatient.url, 'desk', line.client.token)
  const { id } = await here.submit('x')
  await withClient(impatient.databaseUrl, async (sql) => {
    await sql.query('begin')
    await sql.query('select from todos where id = $1 for update', [id])
    const { status, headers, body } = await post(
      here.endpoint,
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'CancelTask', params: { id } }),
      { token: line.client.token, headers: V1 },
    )
    expect([status, body.error.code]).toEqual([503, -32603])
    expect(headers.get('retry-after')).not.toBeNull()
    await sql.query('rollback')
  })
  expect((await here.call('CancelTask', { id })).result.status.state).toBe('TASK_STATE_CANCELED')
})

test('a statement that runs too long is given up, too, and its connection is used again', async () => {
  const impatient = await startApp({ statementMs: 200, lockMs: 60_000 })
  const line = await impatient.queue('desk')
  const here = a2aClient(impatient.url, 'desk', line.client.token)
  const { id } = await here.submit('x')
  await withClient(impatient.databaseUrl, async (sql) => {
    await sql.query('begin')
    await sql.query('select from todos where id = $1 for update', [id])
    expect((await here.call('CancelTask', { id })).error.code).toBe(-32603)
    await sql.query('rollback')
  })
  expect((await here.call('CancelTask', { id })).result.status.state).toBe('TASK_STATE_CANCELED')
})
