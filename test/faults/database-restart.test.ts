// Guarantee 1 of docs/design/lifecycle-layer.md, section 9.
// Field cases: internal errors say nothing of the inside; database restart; alive and ready.
import { afterAll, expect, test } from 'vitest'
import { createLog } from '../../src/base/log.ts'
import { ADMIN_TOKEN, startNode } from '../support/app.ts'
import {
  type Answer,
  a2aClient,
  agentClient,
  post,
  resumeAfter,
  rpc,
  textMessage,
} from '../support/clients/actors.ts'
import { withClient } from '../support/database/database.ts'
import { startOwnPostgres } from '../support/database/own-postgres.ts'
import { nextOf, operate, saying, statesOf } from '../support/steps.ts'
import { until } from '../support/until.ts'

const postgres = await startOwnPostgres()
const logged: string[] = []
const node = await startNode(postgres.url, {
  pollMs: 1000,
  acquireMs: 1000,
  log: createLog('info', { write: (line: string) => void logged.push(line) }),
})
afterAll(() => node.stop())

await operate(node, 'queues.put', { name: 'desk', policy: { contexts: 'parallel' } })
const vend = (verb: string) =>
  operate(node, 'endpoints.vend', { name: verb, queues: ['desk'], verbs: [verb] })
const client = (await vend('send')) as { token: string }
const agent = (await vend('work')) as { token: string }
const a2a = a2aClient(node.url, 'desk', client.token)
const worker = agentClient(node.url, agent.token)

const ready = async () => (await fetch(`${node.url}/readyz`)).status === 200
const LEAK =
  /select |insert |todos t|relation|ECONN|ENOENT|EPIPE|\/tmp|\.s\.PGSQL|postgres|\.ts\b|\.js\b|terminat|127\.0\.0\.1/i

/** What every call must look like while the database is away. */
const expectAway = async (url: string, method: string, params: unknown, token: string) => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 'away', method, params })
  const headers = { 'A2A-Version': '1.0' }
  const { status, headers: answered, body: answer } = await post(url, body, { token, headers })
  expect([method, status]).toEqual([method, 503])
  expect(Number(answered.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(answer.id === 'away' || answer.id === null).toBe(true)
  expect(JSON.stringify(answer)).not.toMatch(LEAK)
  const id = answered.get('x-request-id')!
  expect(JSON.stringify(answer.error.data)).toContain(id)
  // A line about an outage stands for all calls of its second.
  await until(() => logged.some((line) => line.includes(id)), { what: 'the id in the log' })
  return answer.error
}

/** Loops that a failed test must not leave running. */
let sending = true
let working = true
afterAll(() => {
  sending = false
  working = false
})

test('while the database is away every call says so, with an id that the log has and nothing of why; after it all goes on, and nothing that was accepted is lost', async () => {
  const accepted = new Set<string>()
  const ended = new Map<string, number>()
  const senders = Array.from({ length: 8 }, async () => {
    while (sending) {
      const answer = await a2a
        .call('SendMessage', {
          message: textMessage('x'),
          configuration: { returnImmediately: true },
        })
        .catch((error: unknown) => ({ error }))
      if (answer.result) accepted.add(answer.result.task.id)
      else if (answer.error?.code !== -32603) throw new Error(JSON.stringify(answer))
      else await new Promise((resolve) => setTimeout(resolve, 20))
    }
  })
  const agents = Array.from({ length: 4 }, async () => {
    while (working) {
      try {
        const { todos } = await worker.call('todos.claim', {
          waitMs: 500,
          limit: 5,
          leaseSeconds: 1,
        })
        for (const { id, fence } of todos) {
          await worker.call('todos.complete', { id, fence })
          ended.set(id, (ended.get(id) ?? 0) + 1)
        }
      } catch (error) {
        // A complete whose answer was lost may have been done: then the fence is stale.
        const { code } = (error as { error?: Answer }).error ?? {}
        if (code !== -32014 && code !== -32010) throw error
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
  })
  await until(() => ended.size > 50)
  const known = [...accepted][0]!
  const streamed = await operate(node, 'queues.put', { name: 'slow' }).then(async () => {
    const { token } = (await operate(node, 'endpoints.vend', {
      name: 'slow',
      queues: ['slow'],
      verbs: ['send', 'work'],
    })) as { token: string }
    const slow = a2aClient(node.url, 'slow', token)
    const task = await slow.submit('x')
    const stream = await slow.stream('SubscribeToTask', { id: task.id })
    await nextOf(stream)
    return { slow, task, stream, agent: agentClient(node.url, token) }
  })
  const board = await fetch(`${node.url}/board/events`, {
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
  })
  expect(board.status).toBe(200)

  await postgres.stop()
  await until(async () => !(await ready()))
  const notReady = await (await fetch(`${node.url}/readyz`)).json()
  expect(JSON.stringify(notReady)).not.toMatch(/\/tmp|PGSQL|ECONN|ENOENT|postgresql:/)
  expect((notReady as { reasons: string[] }).reasons.length).toBeGreaterThan(0)
  expect((await fetch(`${node.url}/healthz`)).status).toBe(200)
  expect((await fetch(`${node.url}/metrics`)).status).toBe(200)
  // Longer than anything the node remembers: credentials and queues have to be asked for again.
  const error = await expectAway(a2a.endpoint, 'GetTask', { id: known }, client.token)
  expect(error.code).toBe(-32603)
  await expectAway(a2a.endpoint, 'SendMessage', { message: textMessage('x') }, client.token)
  await expectAway(
    a2a.endpoint,
    'SendStreamingMessage',
    { message: textMessage('x') },
    client.token,
  )
  await expectAway(a2a.endpoint, 'ListTasks', {}, client.token)
  await expectAway(a2a.endpoint, 'CancelTask', { id: known }, client.token)
  const own = await expectAway(`${node.url}/agent`, 'todos.claim', {}, agent.token)
  expect(own.code).toBe(-32014)
  expect(own.data).toMatchObject({ reason: 'unavailable' })
  await expectAway(`${node.url}/operator`, 'queues.list', {}, ADMIN_TOKEN)

  await postgres.start()
  await until(ready)
  const before = accepted.size
  await until(() => accepted.size > before + 20)
  sending = false
  await Promise.all(senders)
  // Leases of agents that lost the answer to their claim run out by themselves.
  const open = () =>
    withClient(postgres.url, async (sql) => {
      const { rows } = await sql.query(
        `select count(*)::int as n from todos where queue = 'desk' and finished_at is null`,
      )
      return rows[0].n as number
    })
  await until(async () => (await open()) === 0)
  working = false
  await Promise.all(agents)
  const rows = await withClient(postgres.url, async (sql) => {
    const { rows } = await sql.query<{ id: string; done: number }>(
      `select t.id, (select count(*)::int from events e where e.todo_id = t.id and e.to_state = 'done')
         as done from todos t where t.queue = 'desk' and t.state = 'done'`,
    )
    return new Map(rows.map(({ id, done }) => [id, done]))
  })
  for (const id of accepted) expect([id, rows.get(id)]).toEqual([id, 1])
  for (const times of ended.values()) expect(times).toBe(1)

  // A stream that was open lives on, or ended with an error and can be resumed.
  const { slow, task, stream, agent: side } = streamed
  const todo = await side.claim()
  await side.call('todos.complete', { ...todo.held, message: saying('after all') })
  const rest = await stream.rest()
  if (!statesOf(rest).includes('TASK_STATE_COMPLETED')) {
    const answer = await slow.stream(
      'SubscribeToTask',
      { id: task.id },
      {
        headers: resumeAfter('1'),
      },
    )
    expect(statesOf(await answer.rest()).at(-1)).toBe('TASK_STATE_COMPLETED')
  }
  await board.body?.cancel()
})

test('sessions terminated under load are replaced: calls go on or say unavailable, and the next ones work', async () => {
  const kill = () =>
    withClient(postgres.url, (sql) =>
      sql.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'switchboard%'`,
      ),
    )
  // Once while nothing runs, then while a hundred calls do.
  await kill()
  const first = await a2a.call('ListTasks', { pageSize: 1 })
  expect(first.error?.code ?? -32603).toBe(-32603)
  const calls = Promise.all(
    Array.from({ length: 100 }, () =>
      a2a.call('SendMessage', {
        message: textMessage('x'),
        configuration: { returnImmediately: true },
      }),
    ),
  )
  await kill()
  const answers = await calls
  for (const { error } of answers) expect(error?.code ?? -32603).toBe(-32603)
  await until(ready)
  const task = await a2a.submit('x')
  expect((await a2a.get(task.id)).id).toBe(task.id)
  const sent = answers.flatMap(({ result }) => result?.task.id ?? [])
  for (const id of sent) expect((await a2a.get(id)).id).toBe(id)
  const { error } = await rpc(`${node.url}/agent`, 'todos.claim', {}, { token: agent.token })
  expect(error).toBeUndefined()
})

test('a pool that is full makes the node not ready and its calls unavailable, alive all the while, and it comes back by itself', async () => {
  // Nothing of the background may come to want one of the two connections.
  const hour = 3_600_000
  const sweeps = { reapMs: hour, comeDueMs: hour, placeMs: hour, countMs: hour, tidyMs: hour }
  const rarely = { ...sweeps, pollMs: 60_000 }
  const narrow = await startNode(postgres.url, { poolSize: 2, acquireMs: 300, ...rarely })
  await until(
    async () => {
      const { values } = await narrow.metrics.sweepSeconds.get()
      const done = values.filter(({ metricName }) => metricName?.endsWith('_count'))
      return done.length >= 6
    },
    { what: 'the first tick of each worker is over' },
  )
  const side = a2aClient(narrow.url, 'desk', client.token)
  await side.call('ListTasks', {})
  await withClient(postgres.url, async (other) => {
    await other.query('begin')
    await other.query('lock table todos in access exclusive mode')
    const stuck = [1, 2].map(() => side.submit('x'))
    await until(async () => {
      const { rows } = await other.query(
        `select from pg_locks where relation = 'todos'::regclass and not granted`,
      )
      return rows.length >= 2
    })
    const response = await fetch(`${narrow.url}/readyz`)
    expect(response.status).toBe(503)
    expect((await fetch(`${narrow.url}/healthz`)).status).toBe(200)
    await expectFull(side.endpoint)
    await other.query('commit')
    for (const task of await Promise.all(stuck)) expect(task.id).toBeTruthy()
  })
  await until(async () => (await fetch(`${narrow.url}/readyz`)).status === 200)
  await narrow.stop()
})

const expectFull = async (url: string) => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ListTasks', params: {} })
  const { status, body: answer } = await post(url, body, {
    token: client.token,
    headers: { 'A2A-Version': '1.0' },
  })
  expect(status).toBe(503)
  expect(answer.error.code).toBe(-32603)
  expect(JSON.stringify(answer)).not.toMatch(/pool|timeout|connection/i)
}

test('a node whose schema is behind is alive and not ready, until it is brought up to date', async () => {
  const names = await withClient(postgres.url, async (sql) => {
    const { rows } = await sql.query(
      'delete from migrations where id = (select max(id) from migrations) returning *',
    )
    return rows
  })
  const late = await startNode(postgres.url)
  const response = await fetch(`${late.url}/readyz`)
  expect(response.status).toBe(503)
  expect(((await response.json()) as { reasons: string[] }).reasons.join()).toMatch(/migration/)
  expect((await fetch(`${late.url}/healthz`)).status).toBe(200)
  await withClient(postgres.url, async (sql) => {
    for (const { id, name, batch, migration_time } of names) {
      await sql.query('insert into migrations values ($1, $2, $3, $4)', [
        id,
        name,
        batch,
        migration_time,
      ])
    }
  })
  expect((await fetch(`${late.url}/readyz`)).status).toBe(200)
  await late.stop()
})
