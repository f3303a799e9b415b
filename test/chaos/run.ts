/**
 * One run in two parts. In the first everything is hurt, the database included. In the second nodes
 * and database are left alone while agents die and connections break, so that what the nodes counted
 * meanwhile can be held against the log to the last digit. After each there is peace, in which every
 * task has to come to its end; after both the verdict.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { readLog } from '../support/checker.ts'
import { operate } from '../support/steps.ts'
import { until } from '../support/until.ts'
import { type Counts, countLog, differences, minus, readMetrics, sum } from './counters.ts'
import { judgeHooks } from './hooks.ts'
import { inflict } from './inflict.ts'
import { planOf } from './plan.ts'
import { raise, type Town } from './town.ts'
import {
  judgeBoard,
  judgeLog,
  judgeSteps,
  judgeStreams,
  judgeTasks,
  judgeThrown,
  judgeTold,
} from './verdict.ts'
import { openViolations, type Violation, type Violations } from './violations.ts'

export interface RunOptions {
  seed: number
  /** How long faults come, both parts together. */
  seconds: number
  /** Told of each fault as it comes. */
  say?: (line: string) => void
}

export interface Report {
  violations: readonly Violation[]
  /** How much there was of everything: it was not a quiet time. */
  summary: Record<string, number>
}

const FIRST_PART = 0.65
/** Peace has come by then, or it never does. */
const REST_MS = 90_000
/** Seconds after which a node is ended and started, so that no sweep has to be waited for. */
const ROLL_TICKS = 6

interface Run {
  town: Town
  violations: Violations
  over: AbortController
  summary: Record<string, number>
  say: (line: string) => void
}

export const runChaos = async ({ seed, seconds, say = () => {} }: RunOptions): Promise<Report> => {
  const violations = openViolations()
  const over = new AbortController()
  const undo: (() => Promise<unknown>)[] = []
  try {
    const town = await raise({ seed, violations, over: over.signal, undo })
    say('everybody is there')
    const run: Run = { town, violations, over, summary: {}, say }
    await firstPart(run, seed, seconds * FIRST_PART)
    if (!over.signal.aborted) await secondPart(run, seed + 1, seconds * (1 - FIRST_PART))
    await judge(run)
    return { violations: violations.all(), summary: run.summary }
  } finally {
    for (let step = undo.pop(); step; step = undo.pop()) await step().catch(() => {})
  }
}

/** Clients talk while the plan is carried out; comes back once nobody stands in their way. */
const hurt = async (run: Run, plan: ReturnType<typeof planOf>, seed: number) => {
  const { town, summary, violations, over } = run
  const enough = new AbortController()
  const talking = town.clients.map((client, n) =>
    client.run(enough.signal).catch((error: unknown) => {
      if (!over.signal.aborted) violations.add('a client gave up', `${n}: ${error}`)
    }),
  )
  const { counts, mended } = await inflict(town, plan, seed, run.say)
  for (const [kind, count] of counts) summary[kind] = (summary[kind] ?? 0) + count
  await mended
  enough.abort()
  return Promise.all(talking)
}

const firstPart = async (run: Run, seed: number, seconds: number): Promise<void> => {
  const { town, say } = run
  const plan = planOf(seed, seconds, 'everything')
  const talked = hurt(run, plan, seed)
  let resting = false
  void talked.then(() => {
    resting = true
  })
  await pause(seconds * 1000)
  await until(() => town.sql('select 1').then(() => true), { timeoutMs: 30_000 })
  say('the last blow: every node is killed at once')
  for (const node of town.nodes) node.kill(100)
  await Promise.all(town.nodes.map((node) => node.ready(60_000)))
  // Whoever told a webhook is dead: nobody has to wait for its lease to run out.
  await town.sql('update push_configs set lease_expires_at = now() where owner is not null')
  await rest(run, talked, async (turn) => {
    if (resting) return
    const node = town.nodes[turn % town.nodes.length]!
    say(`${node.name} is ended, and starts again`)
    node.end(100)
    await node.ready(60_000)
  })
}

const secondPart = async (run: Run, seed: number, seconds: number): Promise<void> => {
  const { town, violations } = run
  const before = { counted: await town.scrapes.now(), logged: await countLog(town.sql) }
  const talked = hurt(run, planOf(seed, seconds, 'gentle'), seed)
  await rest(run, talked, async () => {})
  const counted = minus(await town.scrapes.now(), before.counted)
  const logged = minus(await countLog(town.sql), before.logged)
  run.summary['series compared'] = counted.size
  for (const line of differences(counted, logged, (own, due) => own === due)) {
    violations.add('a counter differs from the log', line)
  }
}

/** Waits until every task has ended or visibly waits, everywhere. */
const rest = async (
  { town, over, violations, say }: Run,
  talked: Promise<unknown>,
  meanwhile: (turn: number) => Promise<void>,
): Promise<void> => {
  const began = performance.now()
  town.hooks.calm(true)
  const limit = setTimeout(() => over.abort(new Error('the run is over')), REST_MS)
  let quiet = false
  const calm = (async () => {
    await talked
    for (const client of town.clients) await client.findLost()
    await until(() => isQuiet(town), { timeoutMs: REST_MS, what: 'peace' })
  })()
    .catch((error: unknown) => {
      violations.add('no peace', String(error))
    })
    .finally(() => {
      quiet = true
    })
  for (let tick = 1; !quiet; tick += 1) {
    await Promise.race([calm, pause(1000)])
    // What was tried in vain is due again at once.
    await town.sql('update push_configs set due_at = now() where due_at > now()')
    if (!quiet && tick % ROLL_TICKS === 0) await meanwhile(tick / ROLL_TICKS)
  }
  clearTimeout(limit)
  town.hooks.calm(false)
  say(`peace after ${((performance.now() - began) / 1000).toFixed(1)} s`)
}

const UNREST = `
  select (select count(*)::int from todos where finished_at is null
      and state not in ('input-required', 'auth-required')) as going,
    (select count(*)::int from deliveries where state = 'pending') as owed,
    (select count(*)::int from events where position is null) as unplaced`

const isQuiet = async ({ sql, crew }: Town): Promise<boolean> => {
  const [{ going, owed, unplaced }] = (await sql(UNREST)) as [Record<string, number>]
  return going === 0 && owed === 0 && unplaced === 0 && crew.complete()
}

/* --------------------------------------------------------------- the verdict */

const judge = async ({ town, violations, summary }: Run): Promise<void> => {
  const { sql, clients, crew, board, hooks, nodes, scrapes } = town
  const records = clients.flatMap((client) => client.records)
  const told = clients.flatMap((client) => client.told)
  const log = await readLog(sql)
  const placed = log.events.filter(({ position }) => position !== null)
  const newest = Math.max(
    ...placed.map(({ position, ready }) => Number(position) + (ready ? 1 : 0)),
  )
  await until(() => (board.frames.at(-1)?.id ?? 0) >= newest).catch(() => {})
  judgeLog(log, violations)
  judgeTasks(log, await sql('select * from messages where seq = 1'), records, violations)
  judgeStreams(log, records, violations)
  judgeSteps(log, crew.steps, violations)
  judgeThrown(crew.steps, violations)
  judgeTold(log, told, violations)
  judgeBoard(log, board, violations)
  const owed = {
    configs: await sql('select * from push_configs'),
    deliveries: await sql('select * from deliveries'),
  }
  judgeHooks(log, owed, records, hooks, violations)
  await judgeNodes(town, violations)
  await judgeWaits(town, log.todos, violations)

  const streams = records.filter(({ frames }) => frames !== null)
  const claims = log.events.filter(({ verb }) => verb === 'claim').length
  Object.assign(summary, {
    tasks: records.length,
    todos: log.todos.length,
    events: log.events.length,
    claims,
    takeovers: log.events.filter((each) => each.verb === 'claim' && each.from_state === 'claimed')
      .length,
    streams: streams.length,
    'streams taken up again': clients.reduce((all, client) => all + client.resumed(), 0),
    'board frames': board.frames.length,
    'board taken up again': board.resumed(),
    deliveries: owed.deliveries.length,
    'webhook requests': hooks.told.length,
    'agent processes': crew.begun(),
    'node lives': scrapes.lives().length,
    nodes: nodes.length,
  })
}

/** Nodes are well, hold no stream of nobody, never counted what did not happen, and see the queues as they are. */
const judgeNodes = async ({ nodes, scrapes, sql }: Town, violations: Violations): Promise<void> => {
  const logged = await countLog(sql)
  const over = differences(sum(scrapes.lives()), logged, (own, due) => own <= due)
  for (const line of over) violations.add('counted more than happened', line)
  const live = await sql(
    'select queue, state, count(*)::int as n from todos where finished_at is null group by 1, 2',
  )
  for (const node of nodes) {
    await node
      .ready(10_000)
      .catch((error: unknown) => violations.add('not ready', `${node.name}: ${error}`))
    const url = node.url()
    if (url === null) continue
    const open = (counts: Counts) => counts.get('switchboard_streams_open{kind="a2a"}') ?? 0
    await until(async () => open(await readMetrics(url)) === 0).catch(() =>
      violations.add('a stream is left open', node.name),
    )
    const metrics = await readMetrics(url)
    for (const [series, value] of metrics) {
      const [, queue, state] =
        /^switchboard_queue_todos{queue="(.*)",state="(.*)"}$/.exec(series) ?? []
      if (queue === undefined) continue
      const due = live.find((row) => row.queue === queue && row.state === state)?.n ?? 0
      if (value !== due) violations.add('a gauge', `${node.name} ${series} ${value}, not ${due}`)
    }
  }
}

/** What has not ended says what it waits for. */
const judgeWaits = async (
  { url }: Town,
  todos: readonly { id: string; finished_at: unknown }[],
  violations: Violations,
): Promise<void> => {
  for (const { id } of todos.filter(({ finished_at }) => finished_at === null)) {
    const why = await operate({ url }, 'todos.why', { id }).catch(() => null)
    if (!JSON.stringify(why).includes('waits')) {
      violations.add('waits, and nobody knows for what', `${id}: ${JSON.stringify(why)}`)
    }
  }
}
