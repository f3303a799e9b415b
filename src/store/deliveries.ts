/**
 * What webhooks are owed. A courier leases a config's line, sends its first delivery and settles
 * it under the fence of the lease; nothing is locked while it sends. The log is read a page at a
 * time, and what was settled long ago is forgotten.
 */
import { invalid, Refusal } from '../domain/errors.ts'
import {
  DELIVERY_STATES,
  type Delivery,
  type DeliveryState,
  type Dialect,
  type Verdict,
} from '../domain/push.ts'
import type { Scope } from '../domain/scope.ts'
import { granting } from './assignments.ts'
import { type Database, type Session, type Statement, statement } from './database.ts'
import { DUE_LINES } from './lease.ts'
import { scopeValues } from './scope.ts'
import { isUuid } from './uuid.ts'

/** The line of one webhook, as leased. */
export interface LeasedLine {
  todoId: string
  configId: string
  owner: string
  fence: string
  host: string
}

/** The first delivery of a leased line, with all that sending it needs but its event. */
export interface LeasedDelivery extends LeasedLine {
  id: string
  seq: number
  /** This one counted. */
  attempts: number
  ageSeconds: number
  /** When the lease was granted, by the database's clock. */
  at: Date
  dialect: Dialect
  url: string
  token: string | null
  scheme: string | null
  credentials: string | null
  /** The newest first; a second one while a rotation overlaps. */
  secrets: string[]
  /** Who made the config may not see its tasks any more, and so is not told of them either. */
  revoked: boolean
}

interface LeasedRow {
  todo_id: string
  config_id: string
  owner: string
  fence: string
  host: string
  id: string | null
  seq: number
  attempts: number
  age_seconds: number
  at: Date
  dialect: Dialect
  url: string
  token: string | null
  scheme: string | null
  credentials: string | null
  secret: string
  previous_secret: string | null
  revoked: boolean
}

const lease: Statement<LeasedRow> = statement(
  'deliveries_lease',
  `with due as (select c.todo_id, c.config_id ${DUE_LINES}),
  leased as (
    update push_configs c set ${granting('c')}
    from due where c.todo_id = due.todo_id and c.config_id = due.config_id
    returning c.*)
  select l.todo_id, l.config_id, l.owner, l.fence, l.host, l.dialect, l.url, l.token, l.scheme,
    l.credentials, l.secret, d.id, d.seq, d.attempts + 1 as attempts, now() as at,
    extract(epoch from now() - d.created_at)::float8 as age_seconds,
    case when l.previous_secret_until > now() then l.previous_secret end as previous_secret,
    exists (select from endpoints e where e.id = l.endpoint_id
      and (e.revoked_at is not null or e.expires_at <= now())) as revoked
  from leased l left join lateral (select * from deliveries o
    where o.todo_id = l.todo_id and o.config_id = l.config_id and o.state = 'pending'
    order by o.seq limit 1) d on true`,
)

/** What a courier asks for: how many, and how busy it is with each host. */
export interface LeaseWish {
  owner: string
  limit: number
  perHost: number
  leaseSeconds: number
  busy: ReadonlyMap<string, number>
}

const toLine = (row: LeasedRow): LeasedLine => ({
  todoId: row.todo_id,
  configId: row.config_id,
  owner: row.owner,
  fence: row.fence,
  host: row.host,
})

/** First deliveries that are due, each with its line leased. */
export const leaseDeliveries = async (
  session: Session,
  { owner, limit, perHost, leaseSeconds, busy }: LeaseWish,
): Promise<LeasedDelivery[]> => {
  const rows = await session.run(lease, {
    owner,
    limit,
    per_host: perHost,
    lease_seconds: leaseSeconds,
    hosts: [...busy.keys()],
    counts: [...busy.values()],
    full: [...busy].filter(([, count]) => count >= perHost).map(([host]) => host),
  })
  const leased: LeasedDelivery[] = []
  for (const row of rows) {
    // Another courier has just sent what this statement saw; what came since it cannot see yet.
    if (row.id === null) await handBack(session, toLine(row))
    else leased.push(toLeased(row, row.id))
  }
  return leased
}

const toLeased = (row: LeasedRow, id: string): LeasedDelivery => ({
  ...toLine(row),
  id,
  seq: row.seq,
  attempts: row.attempts,
  ageSeconds: row.age_seconds,
  at: row.at,
  dialect: row.dialect,
  url: row.url,
  token: row.token,
  scheme: row.scheme,
  credentials: row.credentials,
  secrets: [row.secret, row.previous_secret].filter((secret) => secret !== null),
  revoked: row.revoked,
})

const lineValues = ({ todoId, configId, owner, fence }: LeasedLine) => ({
  todo: todoId,
  config: configId,
  owner,
  fence,
})

/**
 * The line at the lease of its caller. A lapsed lease that nobody has taken still settles: refusing
 * it would only send a delivery twice whose outcome is known.
 */
const LEASED_LINE = `c.todo_id = :todo::uuid and c.config_id = :config
    and c.owner = :owner::uuid and c.fence = :fence::bigint`

const settle = statement<{ id: string }>(
  'delivery_settle',
  `with line as (
    update push_configs c set owner = null, lease_expires_at = null,
      owed = c.owed - s.settled,
      due_at = case when c.owed > s.settled then now() + make_interval(secs => :again::double precision) end
    from (select case when :state = 'pending' then 0 else 1 end as settled) s
    where ${LEASED_LINE} and exists (select from deliveries d where d.id = :id::uuid and d.state = 'pending')
    returning c.todo_id)
  update deliveries d set state = :state, attempts = d.attempts + :tries::int, status = :status::int,
    reason = :reason, attempted_at = now(), settled_at = case when :state <> 'pending' then now() end
  from line where d.id = :id::uuid and d.state = 'pending' returning d.id`,
)

/** Writes what came of a try, or of none. False where the lease was lost, or the config has been deleted. */
export const settleDelivery = async (
  session: Session,
  delivery: LeasedDelivery,
  { state, status, reason, againSeconds }: Verdict,
  tries: 0 | 1 = 1,
): Promise<boolean> => {
  const values = { ...lineValues(delivery), id: delivery.id, state, status, reason, tries }
  const settled = await session.run(settle, { ...values, again: againSeconds })
  return settled.length > 0
}

const giveBack = statement<never>(
  'deliveries_hand_back',
  `update push_configs c set owner = null, lease_expires_at = null where ${LEASED_LINE}`,
)

/** Gives up a lease unused: whoever looks next may have it. */
export const handBack = async (session: Session, line: LeasedLine): Promise<void> => {
  await session.run(giveBack, lineValues(line))
}

/* ------------------------------------------------------------------ the log */

interface DeliveryRow {
  id: string
  todo_id: string
  config_id: string
  queue: string
  url: string | null
  seq: number
  state: DeliveryState
  attempts: number
  status: number | null
  reason: string | null
  created_at: Date
  attempted_at: Date | null
  next_attempt_at: Date | null
  settled_at: Date | null
}

const toDelivery = (row: DeliveryRow): Delivery => ({
  id: row.id,
  todoId: row.todo_id,
  configId: row.config_id,
  queue: row.queue,
  url: row.url,
  seq: row.seq,
  state: row.state,
  attempts: row.attempts,
  status: row.status,
  reason: row.reason,
  createdAt: row.created_at,
  attemptedAt: row.attempted_at,
  nextAttemptAt: row.next_attempt_at,
  settledAt: row.settled_at,
})

export interface DeliveryFilter {
  todoId?: string
  state?: DeliveryState
  pageSize: number
  pageToken?: string
}

export interface DeliveryPage {
  deliveries: Delivery[]
  nextPageToken: string
}

const encodeCursor = ({ createdAt, id }: Delivery): string =>
  Buffer.from(`${createdAt.toISOString()} ${id}`).toString('base64url')

const decodeCursor = (token: string): { at: string; id: string } => {
  const [at = '', id = ''] = Buffer.from(token, 'base64url').toString().split(' ')
  if (/^(?!0000)\d{4}-\d\d-\d\dT[\d:.]{12}Z$/.test(at) && !Number.isNaN(Date.parse(at))) {
    if (isUuid(id)) return { at, id }
  }
  throw invalid('pageToken', 'is not a token this server gave out')
}

const line = (first: string): string => `select d.*, c.url,
    case when d.state = 'pending' and c.owner is null and ${first} then c.due_at end as next_attempt_at
  from deliveries d left join push_configs c on c.todo_id = d.todo_id and c.config_id = d.config_id`

const FIRST = `not exists (select from deliveries o where o.todo_id = d.todo_id
    and o.config_id = d.config_id and o.state = 'pending' and o.seq < d.seq)`

/** The log, newest first. Refuses a token that is not one of ours. */
export const listDeliveries = async (
  session: Session,
  { todoId, state, pageSize, pageToken }: DeliveryFilter,
  scope: Scope,
): Promise<DeliveryPage> => {
  const values: unknown[] = []
  const where: string[] = []
  const bind = (value: unknown): string => `$${values.push(value)}`
  if (todoId !== undefined) {
    if (!isUuid(todoId)) return { deliveries: [], nextPageToken: '' }
    where.push(`d.todo_id = ${bind(todoId)}::uuid`)
  }
  // A literal of ours, so that the partial index is seen to hold it.
  const known = DELIVERY_STATES.find((one) => one === state)
  if (known) where.push(`d.state = '${known}'`)
  if (scope.kind !== 'all') where.push(`d.queue = any(${bind(scopeValues(scope).scope_queues)})`)
  if (pageToken) {
    const { at, id } = decodeCursor(pageToken)
    where.push(`(d.created_at, d.id) < (${bind(at)}::timestamptz, ${bind(id)}::uuid)`)
  }
  const rows = await session.query<DeliveryRow>(
    `${line(FIRST)} ${where.length > 0 ? `where ${where.join(' and ')}` : ''}
    order by d.created_at desc, d.id desc limit ${bind(pageSize + 1)}::int`,
    values,
  )
  const deliveries = rows.slice(0, pageSize).map(toDelivery)
  const last = deliveries.at(-1)
  return {
    deliveries,
    nextPageToken: rows.length > pageSize && last ? encodeCursor(last) : '',
  }
}

const readOne: Statement<DeliveryRow> = statement(
  'delivery_read',
  `${line(FIRST)} where d.id = :id::uuid`,
)

const revive = statement<{ todo_id: string; config_id: string }>(
  'delivery_revive',
  `update deliveries set state = 'pending', attempts = 0, settled_at = null, created_at = clock_timestamp()
  where id = :id::uuid and state = 'dead' returning todo_id, config_id`,
)
const lengthen = statement<{ config_id: string }>(
  'deliveries_lengthen',
  `update push_configs set owed = owed + 1, due_at = coalesce(due_at, now())
  where todo_id = :todo_id::uuid and config_id = :config_id returning config_id`,
)

/**
 * A dead delivery is owed again, as if it were new. Refuses: not_found; wrong_state, where it is
 * not dead, or nobody is left to tell.
 */
export const retryDelivery = async (database: Database, id: string): Promise<Delivery> => {
  if (!isUuid(id)) throw new Refusal('not_found')
  return database.transaction(async (session) => {
    const [revived] = await session.run(revive, { id })
    const [owed] = revived ? await session.run(lengthen, { ...revived }) : []
    const [row] = await session.run(readOne, { id })
    if (!row) throw new Refusal('not_found')
    if (!owed) {
      const why = revived ? 'The config of this delivery has been deleted' : undefined
      throw new Refusal('wrong_state', { id, state: revived ? 'dead' : row.state }, why)
    }
    session.ring([{ topic: 'deliveries', count: 1 }])
    return toDelivery(row)
  })
}

/** How long the log keeps what was settled. */
const KEPT = { delivered: '7 days', dead: '30 days' } as const

const purge = statement<{ id: string }>(
  'deliveries_purge',
  `delete from deliveries where id in (select id from deliveries
    where settled_at < now() - interval '${KEPT.delivered}'
      and (state = 'delivered' or settled_at < now() - interval '${KEPT.dead}')
    order by settled_at limit :limit::int) returning id`,
)

/** Forgets up to `limit` that were settled long ago; how many. */
export const purgeDeliveries = async (session: Session, limit: number): Promise<number> =>
  (await session.run(purge, { limit })).length

const gauges = statement<{ pending: number; dead: number; oldest_seconds: number | null }>(
  'deliveries_gauges',
  `select (select count(*)::int from deliveries where state = 'pending') as pending,
    (select count(*)::int from deliveries where state = 'dead') as dead,
    (select extract(epoch from now() - min(created_at))::float8 from deliveries
      where state = 'pending') as oldest_seconds`,
)

/** How much is pending and dead, and how long the oldest pending one has waited. */
export const readDeliveryGauges = async (session: Session) => (await session.run(gauges, {}))[0]
