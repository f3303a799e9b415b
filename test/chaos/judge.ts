/** Reads all that there is after a run, and has it judged. */
import { readLog } from '../support/checker.ts'
import { operate } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'
import { countLog, differences, readMetrics, sum } from './counters.ts'
import { judgeHooks } from './hooks.ts'
import type { Town } from './town.ts'
import { judgeBoard, judgeLog, judgeStreams, judgeTasks, judgeTold } from './verdict.ts'
import { countStale, judgeSteps, judgeThrown } from './verdict-steps.ts'
import type { Violations } from './violations.ts'

/** Everything that is judged once nothing moves any more, and how much there was of it. */
export const judge = async (
  town: Town,
  violations: Violations,
): Promise<Record<string, number>> => {
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
  await judgeLeft(town, violations)

  const streams = records.filter(({ frames }) => frames !== null)
  const claims = log.events.filter(({ verb }) => verb === 'claim').length
  return {
    tasks: records.length,
    todos: log.todos.length,
    events: log.events.length,
    claims,
    takeovers: log.events.filter((each) => each.verb === 'claim' && each.from_state === 'claimed')
      .length,
    'writes tried under a stale fence': countStale(crew.steps),
    streams: streams.length,
    'streams taken up again': clients.reduce((all, client) => all + client.resumed(), 0),
    'board frames': board.frames.length,
    'board taken up again': board.resumed(),
    deliveries: owed.deliveries.length,
    'webhook requests': hooks.told.length,
    'agent processes': crew.begun(),
    'node lives': scrapes.lives().length,
    nodes: nodes.length,
  }
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

/** What is open for nobody is closed by then. */
const LEFT_MS = scaled(30_000)
const IS_OPEN = /^switchboard_(streams_open\{|waiting_claims$|pool_waiting$)/

/** Once everybody has left, no stream, waiting claim or wait for a connection is open for nobody. */
const judgeLeft = async ({ nodes, crew, board }: Town, violations: Violations): Promise<void> => {
  await Promise.all([crew.close(), board.close()])
  const left = async (url: string): Promise<string[]> =>
    [...(await readMetrics(url))].flatMap(([series, value]) =>
      IS_OPEN.test(series) && value !== 0 ? [`${series} ${value}`] : [],
    )
  for (const node of nodes) {
    const url = node.url()
    if (url === null) continue
    await until(async () => (await left(url)).length === 0, { timeoutMs: LEFT_MS }).catch(
      async () => violations.add('left open', `${node.name}: ${await left(url)}`),
    )
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
