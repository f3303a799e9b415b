/** What ends with a parent that is canceled: all that lives below it, set-wise. */
import { expect, test } from 'vitest'
import { createMetrics } from '../../src/base/metrics.ts'
import { EVERYTHING } from '../../src/domain/endpoint.ts'
import { cancelTodo } from '../../src/service/tasks/cancel.ts'
import { type Database, openDatabase } from '../../src/store/postgres/database.ts'
import { startApp } from '../support/app.ts'
import { agentClient, openStream } from '../support/clients/actors.ts'
import { withClient } from '../support/database/database.ts'
import { attemptsOf, type Claimed, metric, operate, refusalOf, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'

// A waiter that is not woken waits for longer than any of these tests may take.
const app = await startApp({ reapMs: 3_600_000, pollMs: 3_600_000 })
await app.queue('parents', { contexts: 'parallel' })
const { agent } = await app.queue('children', { contexts: 'parallel' })
const hand = agentClient(app.url, agent.token)

const send = async (): Promise<string> =>
  (await operate(app, 'todos.send', { queue: 'parents', message: saying('a job') })).id
const fork = async (id: string, count: number): Promise<string[]> => {
  const children = Array.from({ length: count }, () => ({
    queue: 'children',
    message: saying('a step'),
  }))
  const made = await operate(app, 'todos.fork', { id, children })
  return made.children.map((child: { id: string }) => child.id)
}
const cancel = (id: string) => operate(app, 'todos.cancel', { id })
const statesOf = async (ids: readonly string[]): Promise<string[]> =>
  (
    await app.sql<{ state: string }>(
      `select t.state from unnest($1::uuid[]) with ordinality as w(id, place)
        join todos t using (id) order by place`,
      [ids],
    )
  ).map(({ state }) => state)

test('whatever state a child is in, it ends with its parent, is told of once, and its holder hears of it', async () => {
  const id = await send()
  const ids = await fork(id, 7)
  const claimed: Claimed[] = []
  for (const _ of ids.slice(1)) claimed.push(await hand.claim())
  const pending = ids.find((each) => !claimed.some((todo) => todo.id === each))!
  const [held, asking, parked, retrying, dead, done] = claimed
  const question = { state: 'input-required', message: saying('which?') }
  const error = { code: 'x', message: 'x' }
  await hand.call('todos.interrupt', { ...asking!.held, ...question })
  await hand.call('todos.interrupt', { ...parked!.held, ...question, hold: false })
  await hand.call('todos.fail', { ...retrying!.held, error, retryInSeconds: 3600 })
  await hand.call('todos.fail', { ...dead!.held, error, retryable: false })
  await hand.call('todos.complete', done!.held)
  const [below] = await fork(held!.id, 1)
  const [deeper] = await fork(below!, 1)
  const ended = await metric(
    app,
    'switchboard_attempts_ended_total{queue="children",outcome="canceled"}',
  )
  const finished = await metric(
    app,
    'switchboard_todos_finished_total{queue="children",state="canceled"}',
  )

  const signals = await openStream(`${app.url}/agent/events`, { token: agent.token })
  const waiting = refusalOf(
    hand.call('todos.messages', { ...held!.held, after: 1_000_000, waitMs: 60_000 }),
  )
  await cancel(id)
  const told = new Set<string>()
  await signals.until(({ event, json }) => {
    if (event === 'canceled') told.add(json.id)
    return told.size === 2
  })
  signals.close()
  expect(told).toEqual(new Set([held!.id, asking!.id]))
  expect(await waiting).toMatchObject({ data: { reason: 'stale_fence' } })

  const gone = [id, pending, held!.id, asking!.id, parked!.id, retrying!.id, below!, deeper!]
  expect(await statesOf(gone)).toEqual(gone.map(() => 'canceled'))
  expect(await statesOf([dead!.id, done!.id])).toEqual(['failed', 'done'])
  for (const each of gone) {
    const { events } = await operate(app, 'todos.show', { id: each })
    expect(events.filter(({ verb }: { verb: string }) => verb === 'cancel')).toHaveLength(1)
    expect(events.at(-1)).toMatchObject({ verb: 'cancel', to: 'canceled' })
  }
  for (const each of [held!, asking!, parked!]) {
    expect(await attemptsOf(app, each.id)).toMatchObject([
      { outcome: 'canceled', disposition: 'canceled' },
    ])
  }
  expect(
    await metric(app, 'switchboard_attempts_ended_total{queue="children",outcome="canceled"}'),
  ).toBe(ended + 3)
  expect(
    await metric(app, 'switchboard_todos_finished_total{queue="children",state="canceled"}'),
  ).toBe(finished + 7)
})

test('a child that its holder is just writing to is waited for, and keeps its siblings waiting no longer', async () => {
  const id = await send()
  const [busy, ...others] = await fork(id, 3)
  await withClient(app.databaseUrl, async (client) => {
    await client.query('begin')
    await client.query('select from todos where id = $1 for update', [busy])
    const canceling = cancel(id)
    await until(async () => (await statesOf(others)).every((state) => state === 'canceled'), {
      what: 'the siblings are canceled',
    })
    expect(await statesOf([busy!])).toEqual(['pending'])
    await client.query('commit')
    await canceling
  })
  expect(await statesOf([busy!])).toEqual(['canceled'])
})

/** The same database, and how many statements were asked of it. */
const counted = (database: Database) => {
  let statements = 0
  const run: Database['run'] = (statement, values) => {
    statements += 1
    return database.run(statement, values)
  }
  return { database: { ...database, run }, statements: () => statements }
}

test('a thousand children, and theirs, end in a few statements, with an event each', async () => {
  const id = await send()
  for (let made = 0; made < 1000; made += 100) await fork(id, 100)
  const held = (await hand.call('todos.claim', { limit: 100 })).todos.length
  expect(held).toBeGreaterThan(0)
  const [{ child }] = (await app.sql<{ child: string }>(
    'select id as child from todos where parent_id = $1 limit 1',
    [id],
  )) as [{ child: string }]
  await fork(child, 100)

  const direct = openDatabase({ connectionString: app.databaseUrl, poolSize: 2 })
  const { database, statements } = counted(direct)
  try {
    await cancelTodo(database, createMetrics(), id, EVERYTHING)
  } finally {
    await direct.close()
  }
  expect(statements()).toBeLessThanOrEqual(30)
  const [row] = await app.sql(
    `select count(*)::int as children,
      count(*) filter (where t.state = 'canceled')::int as canceled,
      count(*) filter (where 1 = (select count(*) from events e where e.todo_id = t.id
        and e.verb = 'cancel' and e.seq = t.seq))::int as told,
      count(*) filter (where exists (select from attempts a where a.todo_id = t.id
        and a.ended_at is null))::int as open
    from todos t where t.parent_id in ($1, $2)`,
    [id, child],
  )
  expect(row).toEqual({ children: 1100, canceled: 1100, told: 1100, open: 0 })
})
