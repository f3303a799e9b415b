/**
 * The log of deliveries to webhooks: read a page at a time, newest first. A dead one can be owed again;
 * what was settled long ago is forgotten.
 */

import { isUuid } from '../../base/uuid.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import {
  DELIVERY_STATES,
  type Delivery,
  type DeliveryFilter,
  type DeliveryPage,
  type DeliveryState,
} from '../../domain/push.ts'
import { WEBHOOK_FREE } from '../move/conditions.ts'
import { type Database, type Session, type Statement, statement } from '../postgres/database.ts'
import { scopeValues } from '../todos/scope.ts'

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
    case when d.state = 'pending' and ${WEBHOOK_FREE} and ${first} then c.due_at end as next_attempt_at
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
    session.wake([{ topic: 'deliveries', count: 1 }])
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
