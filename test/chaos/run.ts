/**
 * One run in two parts. In the first everything is hurt, the database included. In the second nodes
 * and database are left alone while agents die and connections break, so that what the nodes counted
 * meanwhile can be held against the log to the last digit. After each there is peace, in which every
 * task has to come to its end; after both the verdict.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'
import { countLog, differences, foundByPoll, minus } from './counters.ts'
import { inflict } from './inflict.ts'
import { judge } from './judge.ts'
import { planOf } from './plan.ts'
import { raise, type Town } from './town.ts'
import { openViolations, type Violation, type Violations } from './violations.ts'

export interface RunOptions {
  seed: number
  /** How long faults come, both parts together. */
  seconds: number
  /** Told of each fault as it comes. */
  say?: (line: string) => void
  /** What a caller that is interrupted has to unwind. */
  undo?: Undo
}

type Undo = (() => Promise<unknown>)[]

/** Ends every process and removes every folder. */
export const unwind = async (undo: Undo): Promise<void> => {
  for (let step = undo.pop(); step; step = undo.pop()) await step().catch(() => {})
}

export interface Report {
  violations: readonly Violation[]
  /** How much there was of everything: it was not a quiet time. */
  summary: Record<string, number>
}

const FIRST_PART = 0.65
/** Peace has come by then, or it never does. */
const REST_MS = scaled(90_000)
/** Seconds after which a node is ended and started, so that no sweep has to be waited for. */
const ROLL_TICKS = 6

interface Run {
  town: Town
  violations: Violations
  over: AbortController
  summary: Record<string, number>
  say: (line: string) => void
}

export const runChaos = async (options: RunOptions): Promise<Report> => {
  const { seed, seconds, say = () => {}, undo = [] } = options
  const violations = openViolations()
  const over = new AbortController()
  try {
    const town = await raise({ seed, violations, over: over.signal, undo })
    say('everybody is there')
    const run: Run = { town, violations, over, summary: {}, say }
    await firstPart(run, seed, seconds * FIRST_PART)
    if (!over.signal.aborted) await secondPart(run, seed + 1, seconds * (1 - FIRST_PART))
    const counted = await judge(town, violations)
    return { violations: violations.all(), summary: { ...run.summary, ...counted } }
  } finally {
    over.abort(new Error('the run is over'))
    await unwind(undo)
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
  await until(() => town.sql('select 1').then(() => true))
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
  const foundBefore = await foundByPoll(town.nodes)
  const talked = hurt(run, planOf(seed, seconds, 'gentle'), seed)
  await rest(run, talked, async () => {})
  const counted = minus(await town.scrapes.now(), before.counted)
  const logged = minus(await countLog(town.sql), before.logged)
  run.summary['series compared'] = counted.size
  for (const line of differences(counted, logged, (own, due) => own === due)) {
    violations.add('a counter differs from the log', line)
  }
  // Nobody has touched the bus.
  const found = (await foundByPoll(town.nodes)) - foundBefore
  if (found > 0) violations.add('wakes were lost', `${found} answers were found by the poll`)
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
    if (quiet || tick % ROLL_TICKS !== 0) continue
    for (const line of await goingOn(town)) say(line)
    await meanwhile(tick / ROLL_TICKS)
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

const GOING = `
  select t.id, t.queue, t.state, t.front, round(extract(epoch from t.lease_expires_at - now()), 1) as lease,
    (select string_agg(e.verb, ' ' order by e.seq) from events e where e.todo_id = t.id) as verbs
  from todos t where t.finished_at is null order by t.updated_at limit 10`

/** What peace still waits for, in a few lines. */
const goingOn = async ({ sql, crew }: Town): Promise<string[]> => {
  const [unrest] = await sql(UNREST)
  const going = await sql(GOING)
  return [
    `${JSON.stringify(unrest)}, crew ${crew.complete() ? 'complete' : 'not complete'}`,
    ...going.map((todo) => JSON.stringify(Object.values(todo))),
  ]
}

const isQuiet = async ({ sql, crew }: Town): Promise<boolean> => {
  const [{ going, owed, unplaced }] = (await sql(UNREST)) as [Record<string, number>]
  return going === 0 && owed === 0 && unplaced === 0 && crew.complete()
}
