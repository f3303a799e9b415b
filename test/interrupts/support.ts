/** What the tests of interrupts share: a node whose sweep runs only when told to, and aged rows. */
import { randomUUID } from 'node:crypto'
import { createLog, type Log, type LogLevel } from '../../src/base/log.ts'
import type { Answer } from '../support/actors.ts'
import { type App, type AppOptions, startApp } from '../support/app.ts'
import { metric, operate } from '../support/steps.ts'
import { until } from '../support/until.ts'

export const DAY = 86_400
export const TTL = 'interrupt_lease_ttl_seconds'
export const MAX_WAIT = 'interrupt_max_wait_seconds'

export interface Captured {
  log: Log
  lines: Answer[]
  text(): string
}

/** A log that keeps its lines. */
export const captureLog = (level: LogLevel = 'info'): Captured => {
  const written: string[] = []
  const lines: Answer[] = []
  const log = createLog(level, {
    write: (line: string) => {
      written.push(line)
      lines.push(JSON.parse(line))
    },
  })
  return { log, lines, text: () => written.join('') }
}

export const reapedLines = ({ lines }: Captured): Answer[] =>
  lines.filter(({ msg }) => msg === 'reaped expired leases')

/** Every tick but the first one, which is over, is the test's own. */
export const startQuiet = async (options: AppOptions = {}): Promise<App> => {
  const app = await startApp({ reapMs: 3_600_000, ...options })
  await until(() => metric(app, 'switchboard_sweep_seconds_count{sweep="reap"}'))
  return app
}

type Sql = Pick<App, 'sql'>

/** The wait of these todos began that much earlier. */
export const ageWait = (app: Sql, seconds: number, ...ids: string[]) =>
  app.sql(
    `update todos set interrupted_at = interrupted_at - make_interval(secs => $1)
     where id = any($2::uuid[])`,
    [seconds, ids],
  )

export const rowOf = async (app: Sql, id: string): Promise<Answer> =>
  (await app.sql('select * from todos where id = $1', [id]))[0]

export const resultOf = async (app: Sql, id: string): Promise<Answer> =>
  (await app.sql<Answer>('select result from details where todo_id = $1', [id]))[0]?.result ?? null

export const verbsOf = async (app: Sql, id: string): Promise<string[]> =>
  (await app.sql<Answer>('select verb from events where todo_id = $1 order by seq', [id])).map(
    ({ verb }) => verb,
  )

/** Null unsets it. The write drops every cached copy at once. */
export const setting = (app: App, key: string, value: string | null) =>
  value === null
    ? operate(app, 'settings.unset', { key })
    : operate(app, 'settings.set', { key, value })

export const leasesExpired = (app: Pick<App, 'url'>, queue: string) =>
  metric(app, `switchboard_todo_leases_expired_total{queue="${queue}"}`)

export const reclaimed = (app: Pick<App, 'url'>, queue: string) =>
  metric(app, `switchboard_interrupt_leases_reclaimed_total{queue="${queue}"}`)

/** Todos that this endpoint claimed and asked about so long ago, made in one go. */
export const askedInBulk = async (
  app: Sql,
  { queue, owner, count, age }: { queue: string; owner: string; count: number; age: number },
): Promise<string[]> => {
  const ids = Array.from({ length: count }, () => randomUUID())
  await app.sql(
    `with w as (select id, ord from unnest($1::uuid[]) with ordinality as u(id, ord)),
    made as (
      insert into todos (id, queue, context_id, state, attempt, max_attempts, attempts_total, fence,
        owner, lease_seconds, lease_expires_at, seq, status_seq, interrupted_at)
      select id, $2, 'c', 'input-required', 1, 5, 1, 1, $3::uuid, 300,
        now() - interval '1 hour', 3, 3,
        now() - make_interval(secs => $4::int) - make_interval(secs => $5::int - ord)
      from w returning id),
    tried as (
      insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at)
      select id, 1, 1, $3::uuid, now() from w)
    insert into messages (todo_id, seq, message_id, role, message)
      select id, 1, 'm1', 'user', '{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"x"}]}'::json
      from w
      union all
      select id, 3, 'm3', 'agent', '{"messageId":"m3","role":"ROLE_AGENT","parts":[{"text":"?"}]}'::json
      from w`,
    [ids, queue, owner, age, count],
  )
  return ids
}
