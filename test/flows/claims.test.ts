// Field cases: no head-of-line blocking; no wake is missed; one todo wakes few.
import { expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { withClient } from '../support/database/database.ts'
import { metric } from '../support/steps.ts'
import { until } from '../support/until.ts'

// A wake that is lost would be made up for after a minute: longer than any test takes.
const POLL_MS = 60_000
// The sweeps rest as well: what updates todos here are claims.
const app = await startApp({ pollMs: POLL_MS, reapMs: POLL_MS, comeDueMs: POLL_MS })

const openLine = async (queue: string) => {
  const { client, agent } = await app.queue(queue, { contexts: 'parallel' })
  return {
    a2a: a2aClient(app.url, queue, client.token),
    worker: agentClient(app.url, agent.token),
    token: agent.token,
    client: client.token,
  }
}

const waiting = (n: number, url = app.url) =>
  until(async () => (await metric({ url }, 'switchboard_waiting_claims')) === n, {
    what: `${n} waiting claims`,
  })

/** How often the claim ran since the last look, as the database counted. */
const countClaims = async (during: () => Promise<unknown>): Promise<number> => {
  const claims = async () =>
    (await app.sql<{ n: number }>('select coalesce(sum(calls), 0)::int as n from claim_calls'))[0]!
      .n
  const before = await claims()
  await during()
  return (await claims()) - before
}

test('ten waiting agents are all busy soon after a hundred todos are made', async () => {
  const { a2a, worker } = await openLine('ten')
  const claims = Array.from({ length: 10 }, (_, i) =>
    worker.call('todos.claim', { waitMs: 25_000, claimant: `agent ${i}` }),
  )
  await waiting(10)
  await Promise.all(Array.from({ length: 100 }, () => a2a.submit('x')))
  const todos = (await Promise.all(claims)).flatMap(({ todos }) => todos)
  expect(new Set(todos.map(({ id }: Answer) => id)).size).toBe(10)
  // Whoever comes back finds the rest at once.
  let left = 90
  await Promise.all(
    Array.from({ length: 10 }, async () => {
      for (;;) {
        const more = (await worker.call('todos.claim', { limit: 4 })).todos.length
        if (more === 0) return
        left -= more
      }
    }),
  )
  expect(left).toBe(0)
})

test('a hundred waiting claims for a hundred todos on two nodes leave none to the poll', async () => {
  const { a2a, token } = await openLine('hundred')
  const other = await startNode(app.databaseUrl, { pollMs: POLL_MS })
  const claims = Array.from({ length: 100 }, (_, i) =>
    agentClient(i % 2 ? app.url : other.url, token).call('todos.claim', { waitMs: 25_000 }),
  )
  await waiting(50)
  await waiting(50, other.url)
  await Promise.all(Array.from({ length: 100 }, () => a2a.submit('x')))
  const todos = (await Promise.all(claims)).flatMap(({ todos }) => todos)
  expect(new Set(todos.map(({ id }: Answer) => id)).size).toBe(100)
  await other.stop()
})

test('a todo made around the moment an agent begins to wait is never left to the poll', async () => {
  const { a2a, worker, token, client } = await openLine('around')
  const other = await startNode(app.databaseUrl, { pollMs: POLL_MS })
  const senders = [a2a, a2aClient(other.url, 'around', client)]
  const claimers = [worker, agentClient(other.url, token)]
  for (let round = 0; round < 100; round += 1) {
    const sender = senders[round % 2]!
    const claimer = claimers[(round >> 1) % 2]!
    const claim = claimer.call('todos.claim', { waitMs: 25_000 })
    // Before, at and after the moment the claim looks: the loops of both are in one process.
    for (let turn = 0; turn < round % 25; turn += 1) await new Promise(setImmediate)
    const [{ todos }, task] = await Promise.all([claim, sender.submit('x')])
    expect(todos.map(({ id }: Answer) => id)).toEqual([task.id])
    await claimer.call('todos.complete', { id: task.id, fence: todos[0].fence })
  }
  await other.stop()
})

test('one todo does not rouse all who wait: the rest of the line sleeps on', async () => {
  const { a2a, worker } = await openLine('few')
  const hangUp = new AbortController()
  const claims = Array.from({ length: 50 }, () =>
    worker.call('todos.claim', { waitMs: 50_000 }, { signal: hangUp.signal }),
  )
  await waiting(50)
  await app.sql(`create table if not exists claim_calls (calls int)`)
  await app.sql(
    `create or replace function count_claim() returns trigger language plpgsql as $$
     begin insert into claim_calls values (1); return null; end $$`,
  )
  // Each claim statement is an update of todos, also one that finds no row.
  await app.sql(
    `create trigger count_claims after update on todos for each statement execute function count_claim()`,
  )
  const claimed = await countClaims(async () => {
    await a2a.submit('x')
    const { todos } = await Promise.race(claims)
    expect(todos).toHaveLength(1)
    await waiting(49)
  })
  await app.sql('drop trigger count_claims on todos')
  expect(claimed).toBeGreaterThanOrEqual(1)
  expect(claimed).toBeLessThanOrEqual(3)
  hangUp.abort()
  await Promise.allSettled(claims)
  await waiting(0)
})

test('a crowd of todos that nobody takes does not hold up another queue', async () => {
  const idle = await openLine('idle')
  const busy = await openLine('busy')
  const { id } = await idle.a2a.submit('x')
  await app.sql(
    `insert into todos (id, queue, context_id, client_id, max_attempts, due_at)
     select gen_random_uuid(), queue, 'c' || n, client_id, 5, now() - interval '1 hour'
     from todos, generate_series(1, 5000) n where id = $1`,
    [id],
  )
  const claims = Array.from({ length: 2 }, async () => {
    for (let done = 0; done < 25; done += 1) {
      const todo = await busy.worker.claim()
      await busy.worker.call('todos.complete', todo.held)
    }
  })
  for (let i = 0; i < 50; i += 1) await busy.a2a.submit('x')
  await Promise.all(claims)
  // Two queues of one agent: the full one does not starve the other.
  const both = await app.vend(['work'], ['idle', 'busy'])
  const side = agentClient(app.url, both.token)
  const task = await busy.a2a.submit('x')
  const seen = new Set<string>()
  for (let tries = 0; tries < 100 && !seen.has(task.id); tries += 1) {
    for (const { id } of (await side.call('todos.claim', {})).todos) seen.add(id)
  }
  expect(seen).toContain(task.id)
})

test('an agent that hung up while it waited takes no todo with it', async () => {
  const { a2a, worker } = await openLine('gone')
  const hangUp = new AbortController()
  const gone = Array.from({ length: 10 }, () =>
    worker.call('todos.claim', { waitMs: 50_000 }, { signal: hangUp.signal }),
  )
  await waiting(10)
  hangUp.abort()
  await Promise.allSettled(gone)
  await waiting(0)
  const { id } = await a2a.submit('x')
  const todo = await worker.claim({ waitMs: 0 })
  expect(todo).toMatchObject({ id, attemptsTotal: 1 })
  await worker.call('todos.complete', todo.held)
})

test('a claim whose agent hung up while it ran hands its todos back at once', async () => {
  const { a2a, worker } = await openLine('late')
  const { id } = await a2a.submit('x')
  const hangUp = new AbortController()
  await withClient(app.databaseUrl, async (other) => {
    await other.query('begin')
    await other.query('lock table todos in exclusive mode')
    const gone = worker.call('todos.claim', {}, { signal: hangUp.signal })
    await until(async () => {
      const { rows } = await other.query(
        `select from pg_locks where relation = 'todos'::regclass and not granted`,
      )
      return rows.length > 0
    })
    hangUp.abort()
    await expect(gone).rejects.toThrow()
    // The server has heard of it by the time that it has answered others.
    for (let i = 0; i < 3; i += 1) await metric(app, 'switchboard_waiting_claims')
    await other.query('commit')
  })
  const todo = await worker.claim()
  expect(todo).toMatchObject({ id, attempt: 1, attemptsTotal: 2 })
  expect(todo.priorAttempts).toMatchObject([{ outcome: 'released' }])
  await worker.call('todos.complete', todo.held)
})
