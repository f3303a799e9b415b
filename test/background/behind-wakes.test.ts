// What services leave to the workers: the polls behind wakes, the checks of lines and of parents, the
// handlers of events and the counts of the board. Each is broken once, and fails by the policy of the
// supervisor: logged, counted, shown, and on it goes.
import { afterAll, expect, test } from 'vitest'
import { createSupervisor } from '../../src/background/supervisor.ts'
import { WORKERS } from '../../src/background/worker-failures.ts'
import { createLog } from '../../src/base/log.ts'
import { createMetrics } from '../../src/base/metrics.ts'
import { createActivity } from '../../src/service/board/activity.ts'
import { createFeed } from '../../src/service/watch/feed.ts'
import { addTodo } from '../../src/store/move/add.ts'
import { tryTransition } from '../../src/store/move/move.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { metric } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

interface Line {
  msg: string
  worker?: string
  sweep?: string
  line?: string
  todo?: string
  err?: { message: string }
}

const lines: Line[] = []
const log = createLog('info', { write: (line: string) => void lines.push(JSON.parse(line)) })
const linesOf = (told: Partial<Line>) =>
  lines.filter((line) =>
    Object.entries(told).every(([key, value]) => line[key as keyof Line] === value),
  )

// No sweep comes in between: what is found is found by what is tried here.
const HOUR = 3_600_000
const app = await startApp({ pollMs: 50, reapMs: HOUR, comeDueMs: HOUR, countMs: HOUR, log })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
/** Commits without a word to anybody. */
const silent = openDatabase({ connectionString: app.databaseUrl, poolSize: 2 })
afterAll(silent.close)

const up = (worker: string) => metric(app, `switchboard_worker_up{worker="${worker}"}`)
const failures = (sweep: string) =>
  metric(app, `switchboard_sweep_failures_total{sweep="${sweep}"}`)
const restarts = (worker: string) =>
  metric(app, `switchboard_worker_restarts_total{worker="${worker}"}`)
const limit = (): AbortSignal => AbortSignal.timeout(scaled(20_000))

const addSilently = async (): Promise<string> => {
  const id = crypto.randomUUID()
  await addTodo(silent, {
    id,
    queue: 'desk',
    contextId: 'c',
    clientId: client.endpoint.id,
    priority: 1,
    maxAttempts: 1,
    message: { messageId: id, role: 'ROLE_USER', parts: [{ text: 'x' }] },
    detail: {},
  })
  return id
}

/** Whatever is done to this todo fails, until it is mended. */
const breakIt = async (id: string): Promise<() => Promise<unknown>> => {
  await app.sql(`create function broken() returns trigger language plpgsql as
    $$ begin raise exception 'broken by hand'; end $$`)
  await app.sql(
    `create trigger broken before update on todos for each row when (old.id = '${id}')
    execute function broken()`,
  )
  return () => app.sql('drop function broken cascade')
}

test('polls that fail are logged, counted and shown, make no node unready, and find what no wake told of once they are well', async () => {
  const { services } = app
  const waitsFor = await addSilently()
  const settled = services.watch.settle(waitsFor, 1, limit())
  // It takes the first; the second finds nothing, and waits.
  const claim = () => services.agent.claim({ limit: 1, waitMs: 60_000 }, agent.caller, limit())
  await claim()
  const claimed = claim()
  await until(async () => (await metric(app, 'switchboard_waiting_claims')) === 1)
  for (const worker of ['waiters', 'watch']) {
    expect([worker, await up(worker), await failures(worker)]).toEqual([worker, 1, 0])
  }

  await app.sql('alter table todos rename to hidden')
  for (const worker of ['waiters', 'watch']) {
    await until(async () => (await up(worker)) === 0, { what: `${worker} is down` })
    expect(await failures(worker)).toBeGreaterThanOrEqual(3)
    expect(linesOf({ sweep: worker, msg: 'a sweep failed' })[0]?.err?.message).toBeTruthy()
    expect(linesOf({ worker, msg: 'a worker keeps failing' })).toHaveLength(1)
  }
  const { reasons } = (await (await fetch(`${app.url}/readyz`)).json()) as { reasons: string[] }
  expect(reasons.filter((reason) => /waiters|watch/.test(reason))).toEqual([])

  await app.sql('alter table hidden rename to todos')
  await tryTransition(silent, 'cancel', waitsFor, {})
  expect((await settled).todo.state).toBe('canceled')
  const id = await addSilently()
  expect((await claimed).map(({ view }) => view.todo.id)).toEqual([id])
  for (const worker of ['waiters', 'watch']) {
    await until(async () => (await up(worker)) === 1, { what: `${worker} is up` })
    expect(await restarts(worker)).toBe(0)
  }
})

test('a check of a line that fails is logged by the line, counted and shown, and the next one hands it over', async () => {
  const { client: author } = await app.queue('serial')
  const a2a = a2aClient(app.url, 'serial', author.token)
  const contextId = crypto.randomUUID()
  const [first, second] = [
    await a2a.submit('one', { contextId }),
    await a2a.submit('two', { contextId }),
  ]
  const frontIsSecond = async (): Promise<boolean | undefined> => {
    const [row] = await app.sql<{ front: boolean }>('select front from todos where id = $1', [
      second.id,
    ])
    return row?.front
  }
  const mend = await breakIt(second.id)
  // A hand-over that was missed.
  await app.sql(
    `update todos set state = 'done', front = false, finished_at = now(), due_at = null
    where id = $1`,
    [first.id],
  )
  const before = (await failures('conversations')) ?? 0
  await a2a.submit('three', { contextId })
  await until(async () => (await failures('conversations'))! >= before + 3)
  expect(await up('conversations')).toBe(0)
  const told = linesOf({ sweep: 'conversations' })
  expect(told.length).toBeGreaterThanOrEqual(3)
  for (const { line, err } of told) {
    expect({ line, err }).toMatchObject({ line: expect.any(String), err: expect.any(Object) })
  }
  expect(await frontIsSecond()).toBe(false)
  await mend()
  await a2a.submit('four', { contextId })
  await until(frontIsSecond)
  await until(async () => (await up('conversations')) === 1)
})

test('a check of a parent that fails is logged by the todo, counted and shown, and the next child wakes it', async () => {
  const { client: author } = await app.queue('parents')
  await app.queue('children')
  const boss = await app.vend(['work', 'send'], ['parents', 'children'])
  const parent = agentClient(app.url, boss.token)
  await a2aClient(app.url, 'parents', author.token).submit('a job')
  const { id, held } = await parent.claim({ queues: ['parents'] })
  const child = { queue: 'children', message: { parts: [{ text: 'x' }] } }
  const { children } = await parent.call('todos.fork', {
    ...held,
    children: [child, child, child, child],
  })
  const ids = children.map((made: { id: string }) => made.id)
  await parent.call('todos.join', { ...held, children: ids, until: 'any' })
  const finishOne = async () => {
    const todo = await parent.claim({ queues: ['children'] })
    await parent.call('todos.complete', todo.held)
  }
  const mend = await breakIt(id)
  const before = (await failures('children')) ?? 0
  for (const n of [1, 2, 3]) {
    await finishOne()
    await until(async () => (await failures('children')) === before + n)
  }
  expect(await up('children')).toBe(0)
  expect(linesOf({ sweep: 'children', todo: id })).toHaveLength(3)
  await mend()
  await finishOne()
  expect((await parent.claim({ queues: ['parents'] })).id).toBe(id)
  await until(async () => (await up('children')) === 1)
})

test('a handler whose events cannot be read shows, is opened once they can, and is told of what comes then', async () => {
  expect(await up('hooks')).toBe(1)
  await app.sql('alter table events rename to hidden')
  const told: string[] = []
  const hook = app.on('transition', ({ id }) => void told.push(id))
  await until(async () => (await up('hooks')) === 0)
  expect(linesOf({ msg: 'the events cannot be read; trying again' }).length).toBeGreaterThan(2)
  expect(linesOf({ worker: 'hooks', msg: 'a worker keeps failing' })).toHaveLength(1)
  await app.sql('alter table hidden rename to events')
  await hook.opened
  const { id } = await a2aClient(app.url, 'desk', client.token).submit('x')
  await until(() => told.includes(id))
  expect(await up('hooks')).toBe(1)
  hook.off()
})

test('counts for the board that break off restart their worker, and whoever looks next begins anew', async () => {
  const feed = createFeed(silent, 60_000)
  let breaks = true
  const activity = createActivity({
    database: silent,
    watch: {
      feed: async (...from) => {
        const open = await feed.feed(...from)
        if (!breaks) return open
        breaks = false
        const events = (async function* () {
          for await (const event of open.events) {
            yield event
            throw new Error('broke off')
          }
        })()
        return { ...open, from: open.from, events }
      },
    },
  })
  const metrics = createMetrics()
  const { label: name, policy } = WORKERS.activity
  const supervisor = createSupervisor(
    [{ name, policy, run: (signal, health) => activity.run(signal, health.ok) }],
    { log, metrics },
  )
  supervisor.start()
  const finished = async (): Promise<number> => {
    const { minutes } = await activity.read(null)
    return minutes.reduce((sum, minute) => sum + minute.finished, 0)
  }
  const before = await finished()
  const endOne = async (): Promise<void> => {
    const id = await addSilently()
    await tryTransition(silent, 'cancel', id, {})
    feed.nudge()
  }
  await endOne()
  await until(async () => {
    feed.nudge()
    return linesOf({ worker: 'activity', msg: 'a worker crashed' }).length === 1
  })
  const { values } = await metrics.workerRestarts.get()
  expect(values).toMatchObject([{ labels: { worker: 'activity' }, value: 1 }])
  await until(async () => (await finished()) === before + 1)
  await endOne()
  await until(async () => {
    feed.nudge()
    return (await finished()) === before + 2
  })
  await supervisor.stop(1000)
  expect(linesOf({ msg: 'workers did not end in time' })).toEqual([])
})
