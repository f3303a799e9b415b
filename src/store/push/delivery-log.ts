/**
 * The log of deliveries to webhooks, read a page at a time, newest first. A dead delivery can be made
 * pending again; what was settled long ago is forgotten.
 */

import { isUuid } from '../../base/uuid.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import {
  DELIVERY_STATES,
  type Delivery,
  type DeliveryFilter,
  type DeliveryPage,
} from '../../domain/push.ts'
import { WEBHOOK_FREE } from '../move/conditions.ts'
import { type Database, type Session, statement } from '../postgres/database.ts'
import { columnsOf, readOne } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'
import { scopeValues } from '../todos/scope.ts'
import { topics, wakeOf } from '../wake/topics.ts'

const encodeCursor = ({ createdAt, id }: Delivery): string =>
  Buffer.from(`${createdAt.toISOString()} ${id}`).toString('base64url')

const decodeCursor = (token: string): { at: string; id: string } => {
  const [at = '', id = ''] = Buffer.from(token, 'base64url').toString().split(' ')
  if (/^(?!0000)\d{4}-\d\d-\d\dT[\d:.]{12}Z$/.test(at) && !Number.isNaN(Date.parse(at))) {
    if (isUuid(id)) return { at, id }
  }
  throw invalid('pageToken', 'is not a token this server gave out')
}

const FIRST = `not exists (select from deliveries o where o.todo_id = d.todo_id
    and o.config_id = d.config_id and o.state = 'pending' and o.seq < d.seq)`

const DELIVERY = columnsOf<Delivery>()(
  ['id todoId configId queue seq state attempts status reason createdAt attemptedAt settledAt'],
  {
    url: () => 'c.url',
    nextAttemptAt: (d) =>
      `case when ${d}.state = 'pending' and ${WEBHOOK_FREE} and ${FIRST} then c.due_at end`,
  },
)

const FROM_LOG = `select ${DELIVERY.select('d')}
  from deliveries d left join push_configs c on c.todo_id = d.todo_id and c.config_id = d.config_id`

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
  // A literal, so that PostgreSQL sees that the partial index holds it.
  const known = DELIVERY_STATES.find((one) => one === state)
  if (known) where.push(`d.state = '${known}'`)
  if (scope.kind !== 'all') where.push(`d.queue = any(${bind(scopeValues(scope).scope_queues)})`)
  if (pageToken) {
    const { at, id } = decodeCursor(pageToken)
    where.push(`(d.created_at, d.id) < (${bind(at)}::timestamptz, ${bind(id)}::uuid)`)
  }
  const rows = await session.query<Delivery>(
    `${FROM_LOG} ${where.length > 0 ? `where ${where.join(' and ')}` : ''}
    order by d.created_at desc, d.id desc limit ${bind(pageSize + 1)}::int`,
    values,
  )
  const deliveries = rows.slice(0, pageSize)
  const last = deliveries.at(-1)
  return {
    deliveries,
    nextPageToken: rows.length > pageSize && last ? encodeCursor(last) : '',
  }
}

const read = statement<Delivery>('delivery_read', sql`${FROM_LOG} where d.id = ${$.id}::uuid`)

const revive = plannedEachTime<{ todo_id: string; config_id: string }>(
  'delivery_revive',
  sql`update deliveries set state = 'pending', attempts = 0, settled_at = null, created_at = clock_timestamp()
  where id = ${$.id}::uuid and state = 'dead' returning todo_id, config_id`,
)
const lengthen = statement<{ config_id: string }>(
  'deliveries_lengthen',
  sql`update push_configs set owed = owed + 1, due_at = coalesce(due_at, now())
  where todo_id = ${$.todo_id}::uuid and config_id = ${$.config_id} returning config_id`,
)

/**
 * Makes a dead delivery pending again, as if it were new. Refuses: not_found; wrong_state, where it is
 * not dead, or its webhook has been deleted.
 */
export const retryDelivery = async (database: Database, id: string): Promise<Delivery> => {
  if (!isUuid(id)) throw new Refusal('not_found')
  return database.transaction(async (session) => {
    const [revived] = await session.run(revive, { id })
    const [owed] = revived ? await session.run(lengthen, { ...revived }) : []
    const delivery = await readOne(session, read, { id })
    if (!delivery) throw new Refusal('not_found')
    if (!owed) {
      const why = revived ? 'The config of this delivery has been deleted' : undefined
      throw new Refusal('wrong_state', { id, state: revived ? 'dead' : delivery.state }, why)
    }
    session.wake([wakeOf(topics.deliveries)])
    return delivery
  })
}

/** How long the log keeps a settled delivery. */
const KEPT = { delivered: '7 days', dead: '30 days' } as const

const purge = statement<{ id: string }>(
  'deliveries_purge',
  sql`delete from deliveries where id in (select id from deliveries
    where settled_at < now() - interval '${KEPT.delivered}'
      and (state = 'delivered' or settled_at < now() - interval '${KEPT.dead}')
    order by settled_at limit ${$.limit}::int) returning id`,
)

/** Deletes up to `limit` deliveries that were settled long ago; returns how many. */
export const purgeDeliveries = async (session: Session, limit: number): Promise<number> =>
  (await session.run(purge, { limit })).length

const gauges = statement<{ pending: number; dead: number; oldestSeconds: number | null }>(
  'deliveries_gauges',
  `select (select count(*)::int from deliveries where state = 'pending') as pending,
    (select count(*)::int from deliveries where state = 'dead') as dead,
    (select extract(epoch from now() - min(created_at))::float8 from deliveries
      where state = 'pending') as "oldestSeconds"`,
)

/** How many are pending and dead, and how long the oldest pending one has waited. */
export const readDeliveryGauges = (session: Session) => readOne(session, gauges, {})
