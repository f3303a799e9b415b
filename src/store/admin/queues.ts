/** Queues: each is the public face of one agent and holds the policy of its todos. */

import { exactText } from '../../base/exact-json.ts'
import { Refusal } from '../../domain/errors.ts'
import { INTERRUPT_STATES } from '../../domain/lifecycle.ts'
import type { QueuePolicy } from '../../domain/policy.ts'
import type { Queue, QueueCard } from '../../domain/queue.ts'
import { limitChanged } from '../move/concurrency.ts'
import { inStates, isServed } from '../move/conditions.ts'
import {
  type Database,
  isReferenceViolation,
  type Session,
  statement,
} from '../postgres/database.ts'
import { columnsOf } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'
import { topics, wakeOf } from '../wake/topics.ts'
import { SCHEDULE_HAS_QUEUE } from './schedules.ts'

const COLUMNS = columnsOf<Queue>()(['name card policy createdAt updatedAt']).select('q')

const readAll = statement<Queue>(
  'queues_read',
  `select ${COLUMNS} from queues q order by q.created_at, q.name`,
)

/** Oldest first. */
export const readQueues = (session: Session): Promise<Queue[]> => session.run(readAll, {})

const put = plannedEachTime<Queue>(
  'queue_put',
  sql`insert into queues as q (name, card, policy) values (${$.name}, ${$.card}::json, ${$.policy}::json)
  on conflict (name) do update set card = excluded.card, policy = excluded.policy, updated_at = now()
  returning ${COLUMNS}`,
)

export const putQueue = async (
  session: Session,
  queue: { name: string; card: QueueCard; policy: QueuePolicy },
): Promise<Queue> => {
  const [row] = await session.run(put, {
    name: queue.name,
    card: exactText(queue.card),
    policy: JSON.stringify(queue.policy),
  })
  session.wake([wakeOf(topics.queues), limitChanged(queue.name)])
  return row!
}

const countLive = statement<{ count: number }>(
  'queue_live',
  sql`select count(*)::int as count from todos where queue = ${$.name} and finished_at is null`,
)
const countSchedules = plannedEachTime<{ count: number }>(
  'queue_schedules',
  sql`select count(*)::int as count from schedules where queue = ${$.name}`,
)
const drop = plannedEachTime<{ name: string }>(
  'queue_drop',
  sql`delete from queues where name = ${$.name} returning name`,
)

const removeOnce = (database: Database, name: string): Promise<void> =>
  database.transaction(async (session) => {
    await session.query('lock table todos in share row exclusive mode', [])
    const [live] = await session.run(countLive, { name })
    if (live && live.count > 0) {
      const todos = live.count === 1 ? '1 live todo' : `${live.count} live todos`
      const advice = 'wait until they have ended, or cancel them, and remove it then'
      throw new Refusal('limit', { limit: 0 }, `queue ${name} still has ${todos}: ${advice}`)
    }
    const [has] = await session.run(countSchedules, { name })
    if (has && has.count > 0) {
      const schedules = has.count === 1 ? '1 schedule' : `${has.count} schedules`
      const advice = 'remove them, or put them to another queue'
      throw new Refusal('limit', { limit: 0 }, `queue ${name} still has ${schedules}: ${advice}`)
    }
    if ((await session.run(drop, { name })).length === 0) throw new Refusal('not_found')
    session.wake([wakeOf(topics.queues)])
  })

/**
 * Refuses while live todos or schedules exist. The table lock waits for sends under way and keeps others
 * out. A schedule that is put meanwhile is found by the delete, and then counted.
 */
export const removeQueue = (database: Database, name: string): Promise<void> =>
  removeOnce(database, name).catch((error: unknown) => {
    if (!isReferenceViolation(error, SCHEDULE_HAS_QUEUE)) throw error
    return removeOnce(database, name)
  })

/* ------------------------------------------------------------------- gauges */

/** A queue with todos that wait for an agent, while no live endpoint may claim from it. */
export interface UnservedQueue {
  queue: string
  /** How many wait, and how many of these are children, for whom a parent may wait. */
  todos: number
  children: number
  /** For how long the oldest of them has been claimable; null where none is yet. */
  oldestSeconds: number | null
}

/**
 * The queues that nobody serves; more conditions and an order may follow. Whoever waits for its children is
 * waited on by nobody but itself.
 */
export const UNSERVED_QUEUES = `select q.name as queue, w.todos, w.children, w."oldestSeconds"
  from queues q cross join lateral (
    select count(*)::int as todos, count(t.parent_id)::int as children,
      extract(epoch from now() - min(case when t.due_at <= now() then t.due_at end))::float8
        as "oldestSeconds"
    from todos t where t.queue = q.name and t.join_until is null
      and (t.state = 'pending' or (t.state = 'failed' and t.next_retry_at is not null))) w
  where not ${isServed('q.name')}`

const unserved = statement<UnservedQueue>(
  'queues_unserved',
  `${UNSERVED_QUEUES} and w.todos > 0 order by q.name`,
)

export const readUnservedQueues = (session: Session): Promise<UnservedQueue[]> =>
  session.run(unserved, {})

interface Gauge {
  queue: string
  state: string
  count: number
  oldestSeconds: number | null
  /** How long the claimed todo that has been silent longest has been so; null for other states. */
  idleSeconds: number | null
}

const gauges = statement<Gauge>(
  'queue_gauges',
  `select queue, state, count(*)::int as count,
      extract(epoch from now() - min(case when due_at <= now() then due_at end))::float8 as "oldestSeconds",
      extract(epoch from now() - min(case when state = 'claimed' then progress_at end))::float8 as "idleSeconds"
    from todos where state in ('pending', 'claimed') or (state = 'failed' and next_retry_at is not null)
    group by queue, state
    union all
    select queue, state, count(*)::int, extract(epoch from now() - min(interrupted_at))::float8,
      null
    from todos t where ${inStates(INTERRUPT_STATES)} group by queue, state`,
)

/** How many todos live in each queue and state, and for how long the oldest of them has waited. */
export const readGauges = (session: Session): Promise<Gauge[]> => session.run(gauges, {})
