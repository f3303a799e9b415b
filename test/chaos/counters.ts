/**
 * The counters of the nodes beside the log. A node that is killed takes with it what it counted
 * since it was last asked, so over the whole run the counters of all lives together are at most
 * what the log has; where no node and no connection to the database was touched, they are equal.
 */
import { ENDED_STATES } from '../../src/domain/lifecycle.ts'
import type { Answer } from '../support/clients/actors.ts'
import { scaled } from '../support/timeouts.ts'
import type { Node } from './nodes.ts'

export type Counts = Map<string, number>

export type Sql = (text: string, values?: unknown[]) => Promise<Answer[]>

const COUNTED = [
  'switchboard_todos_sent_total',
  'switchboard_todos_claimed_total',
  'switchboard_todos_finished_total',
  'switchboard_attempts_ended_total',
  'switchboard_attempts_never_started_total',
  'switchboard_todo_leases_expired_total',
  'switchboard_interrupt_leases_reclaimed_total',
  'switchboard_timeouts_total',
  'switchboard_push_attempts_total',
]

/** Series of a /metrics answer, as they are written there. */
export const readMetrics = async (url: string): Promise<Counts> => {
  const response = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(scaled(5000)) })
  const lines = (await response.text()).split('\n').filter((line) => line.startsWith('switchboard'))
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ')
      return [line.slice(0, at), Number(line.slice(at + 1))]
    }),
  )
}

const isCounted = (series: string): boolean =>
  COUNTED.some((name) => series.startsWith(`${name}{`)) && !series.includes('outcome="fenced"')

export interface Scrapes {
  /** Of each life of a node, the last that was read. */
  lives(): Counts[]
  /** Of the nodes as they are now. */
  now(): Promise<Counts>
  stop(): Promise<void>
}

/** Asks every node all the time, so that little is lost with one. */
export const startScrapes = (nodes: readonly Node[]): Scrapes => {
  const lives = new Map<string, Counts>()
  let running = true

  const scrape = async (node: Node): Promise<void> => {
    const url = node.url()
    // Its address is another one in each life.
    if (url !== null) lives.set(url, await readMetrics(url))
  }
  const loop = async (node: Node): Promise<void> => {
    while (running) {
      await scrape(node).catch(() => {})
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
  }
  const loops = nodes.map(loop)
  return {
    lives: () => [...lives.values()],
    now: async () => sum(await Promise.all(nodes.map((node) => readMetrics(node.url()!)))),
    stop: async () => {
      running = false
      await Promise.all(loops)
    },
  }
}

/** How many answers only the poll has found. */
export const foundByPoll = async (nodes: readonly Node[]): Promise<number> => {
  const counts = await Promise.all(nodes.map((node) => readMetrics(node.url()!)))
  const name = 'switchboard_answers_found_by_poll_total'
  return counts.reduce((total, each) => total + (each.get(name) ?? 0), 0)
}

export const sum = (all: readonly Counts[]): Counts => {
  const total: Counts = new Map()
  for (const counts of all) {
    for (const [series, value] of counts) {
      if (isCounted(series)) total.set(series, (total.get(series) ?? 0) + value)
    }
  }
  return total
}

const ended = ENDED_STATES.map((state) => `'${state}'`).join(', ')

/** Each with the series it makes, in the words of /metrics. */
const FROM_LOG = `
  select format('switchboard_todos_sent_total{queue="%s"}', queue) as series, count(*)::int as value
    from events where verb = 'send' group by queue
  union all select format('switchboard_todos_claimed_total{queue="%s"}', queue), count(*)::int
    from events where verb = 'claim' group by queue
  union all select format('switchboard_todos_finished_total{queue="%s",state="%s"}', queue, to_state),
    count(*)::int from events where to_state in (${ended}) and not retrying group by queue, to_state
  union all select format('switchboard_attempts_ended_total{queue="%s",outcome="%s"}', t.queue, a.outcome),
    count(*)::int from attempts a join todos t on t.id = a.todo_id where a.ended_at is not null
    group by t.queue, a.outcome
  union all select format('switchboard_attempts_never_started_total{queue="%s"}', t.queue),
    count(*)::int from attempts a join todos t on t.id = a.todo_id where a.cause = 'never_started'
    group by t.queue
  union all select format('switchboard_todo_leases_expired_total{queue="%s"}', queue), count(*)::int
    from events where verb in ('reapLease', 'reapInterrupt')
      or (verb = 'claim' and from_state = 'claimed') group by queue
  union all select 'switchboard_push_attempts_total{outcome="delivered"}', count(*)::int
    from deliveries where state = 'delivered'
  union all select 'switchboard_push_attempts_total{outcome="dead"}', count(*)::int
    from deliveries where state = 'dead'
  union all select 'switchboard_push_attempts_total{outcome="later"}',
    (coalesce(sum(attempts), 0) - count(*) filter (where state <> 'pending'))::int from deliveries`

/** What the counters would be, had every node lived. */
export const countLog = async (sql: Sql): Promise<Counts> =>
  new Map((await sql(FROM_LOG)).map(({ series, value }) => [series, value]))

export const minus = (after: Counts, before: Counts): Counts =>
  new Map([...after].map(([series, value]) => [series, value - (before.get(series) ?? 0)]))

/** Series that differ, as text; a series that is not there counts zero. */
export const differences = (
  counted: Counts,
  logged: Counts,
  agree: (counted: number, logged: number) => boolean,
): string[] =>
  [...new Set([...counted.keys(), ...logged.keys()])].flatMap((series) => {
    const own = counted.get(series) ?? 0
    const due = logged.get(series) ?? 0
    return agree(own, due) ? [] : [`${series}: counted ${own}, logged ${due}`]
  })
