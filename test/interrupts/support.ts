/** What the tests of interrupts share: a node whose sweep runs only when told to, and aged rows. */
import { randomUUID } from 'node:crypto'
import { createLog, type Log, type LogLevel } from '../../src/base/log.ts'
import type { Caller } from '../../src/domain/endpoint.ts'
import { Refusal, type RefusalKind } from '../../src/domain/errors.ts'
import type { InterruptState } from '../../src/domain/lifecycle.ts'
import type { Message, Receipt, TodoView } from '../../src/domain/todo.ts'
import type { Held } from '../../src/service/claims/holder.ts'
import { type App, type AppOptions, startApp } from '../support/app.ts'
import type { Answer } from '../support/clients/actors.ts'
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

interface Asked {
  queue: string
  owner: string
  count: number
  age: number
  lines?: number | null
}

/**
 * Todos that this endpoint claimed and asked about so long ago, made in one go; where `lines` is
 * given, shared out to so many conversations in turn.
 */
export const askedInBulk = async (
  app: Sql,
  { queue, owner, count, age, lines = null }: Asked,
): Promise<string[]> => {
  const ids = Array.from({ length: count }, () => randomUUID())
  await app.sql(
    `with w as (select id, ord from unnest($1::uuid[]) with ordinality as u(id, ord)),
    made as (
      insert into todos (id, queue, context_id, state, attempt, max_attempts, attempts_total, fence,
        owner, lease_seconds, lease_expires_at, seq, status_seq, interrupted_at, line)
      select id, $2, 'c', 'input-required', 1, 5, 1, 1, $3::uuid, 300,
        now() - interval '1 hour', 3, 3,
        now() - make_interval(secs => $4::int) - make_interval(secs => $5::int - ord),
        case when $6::int > 0 then md5($2 || ord % $6::int)::uuid end
      from w order by ord returning id),
    tried as (
      insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at)
      select id, 1, 1, $3::uuid, now() from w)
    insert into messages (todo_id, seq, message_id, role, message)
      select id, 1, 'm1', 'user', '{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"x"}]}'::json
      from w
      union all
      select id, 3, 'm3', 'agent', '{"messageId":"m3","role":"ROLE_AGENT","parts":[{"text":"?"}]}'::json
      from w`,
    [ids, queue, owner, age, count, lines],
  )
  return ids
}

/* ------------------------------------------- past HTTP, where many rounds are wanted */

const OPERATOR: Caller = { kind: 'operator' }
const never = new AbortController().signal

const words = (role: Message['role'], text: string, messageId: string = randomUUID()): Message => ({
  messageId,
  role,
  parts: [{ text }],
})

export interface Question {
  state?: InterruptState
  hold?: boolean
}

/** The services of a node, as those who use them would: an agent per caller, and an operator. */
export const direct = ({ services: { agent, operator } }: Pick<App, 'services'>) => ({
  /** In a conversation, where one is named. */
  send: async (queue: string, contextId?: string): Promise<string> => {
    const message = { ...words('ROLE_USER', 'work'), ...(contextId && { contextId }) }
    return (await operator.send({ queue, message })).todo.id
  },
  /** Null where nothing is claimable. */
  claim: async (caller: Caller, queue: string): Promise<(Held & { view: TodoView }) | null> => {
    const [taken] = await agent.claim({ queues: [queue], limit: 1, waitMs: 0 }, caller, never)
    return taken ? { id: taken.view.todo.id, fence: taken.view.todo.fence, view: taken.view } : null
  },
  /** Makes children of it in this queue; their ids. */
  fork: async ({ id, fence }: Held, caller: Caller, queue: string, count: number) => {
    const child = { queue, message: words('ROLE_USER', 'a part of it') }
    const children = Array.from({ length: count }, () => child)
    return (await agent.fork({ id, fence, children }, caller)).map((made) => made.id)
  },
  ask: ({ id, fence }: Held, caller: Caller, { state = 'input-required', hold = true }: Question) =>
    agent.interrupt({ id, fence, state, hold, message: words('ROLE_AGENT', 'May I?') }, caller),
  /** The receipt, or the kind of the refusal. */
  answer: async (id: string, messageId?: string): Promise<Receipt | RefusalKind> => {
    try {
      return (await operator.answer(id, words('ROLE_USER', 'yes', messageId), OPERATOR)).receipt
    } catch (error) {
      return kindOf(error)
    }
  },
  cancel: (id: string) => operator.cancel(id),
})

/** Throws what is no refusal. */
export const kindOf = (error: unknown): RefusalKind => {
  if (error instanceof Refusal) return error.kind
  throw error
}
