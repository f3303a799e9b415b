/** Queues: named lines of work, each the public face of one agent and the policy of its todos. */
import { Refusal } from '../../domain/errors.ts'
import { INTERRUPT_STATES } from '../../domain/lifecycle.ts'
import type { QueuePolicy } from '../../domain/policy.ts'
import type { Queue, QueueCard } from '../../domain/queue.ts'
import { limitChanged } from '../move/concurrency.ts'
import { inStates } from '../move/conditions.ts'
import { type Database, type Session, type Statement, statement } from '../postgres/database.ts'

interface QueueRow {
  name: string
  card: QueueCard
  policy: QueuePolicy
  created_at: Date
  updated_at: Date
}

const toQueue = (row: QueueRow): Queue => ({
  name: row.name,
  card: row.card,
  policy: row.policy,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
})

const readAll: Statement<QueueRow> = statement(
  'queues_read',
  'select name, card, policy, created_at, updated_at from queues order by created_at, name',
)

/** Oldest first. */
export const readQueues = async (session: Session): Promise<Queue[]> =>
  (await session.run(readAll, {})).map(toQueue)

const put: Statement<QueueRow> = statement(
  'queue_put',
  `insert into queues (name, card, policy) values (:name, :card::json, :policy::json)
  on conflict (name) do update set card = excluded.card, policy = excluded.policy, updated_at = now()
  returning name, card, policy, created_at, updated_at`,
)

export const putQueue = async (
  session: Session,
  queue: { name: string; card: QueueCard; policy: QueuePolicy },
): Promise<Queue> => {
  const [row] = await session.run(put, {
    name: queue.name,
    card: JSON.stringify(queue.card),
    policy: JSON.stringify(queue.policy),
  })
  session.wake([{ topic: 'queues', count: 1 }, limitChanged(queue.name)])
  return toQueue(row!)
}

const countLive = statement<{ count: number }>(
  'queue_live',
  'select count(*)::int as count from todos where queue = :name and finished_at is null',
)
const drop = statement<{ name: string }>(
  'queue_drop',
  'delete from queues where name = :name returning name',
)

/** Refuses while live todos exist. The table lock waits for sends under way and keeps out others. */
export const removeQueue = (database: Database, name: string): Promise<void> =>
  database.transaction(async (session) => {
    await session.query('lock table todos in share row exclusive mode', [])
    const [live] = await session.run(countLive, { name })
    if (live && live.count > 0) {
      throw new Refusal('limit', { limit: 0 }, `queue ${name} still has ${live.count} live todos`)
    }
    if ((await session.run(drop, { name })).length === 0) throw new Refusal('not_found')
    session.wake([{ topic: 'queues', count: 1 }])
  })

/* ------------------------------------------------------------------- gauges */

interface GaugeRow {
  queue: string
  state: string
  count: number
  oldest_seconds: number | null
  /** Of claimed todos only. */
  idle_seconds: number | null
}

const gauges: Statement<GaugeRow> = statement(
  'queue_gauges',
  `select queue, state, count(*)::int as count,
      extract(epoch from now() - min(case when due_at <= now() then due_at end))::float8 as oldest_seconds,
      extract(epoch from now() - min(case when state = 'claimed' then progress_at end))::float8 as idle_seconds
    from todos where state in ('pending', 'claimed') or (state = 'failed' and next_retry_at is not null)
    group by queue, state
    union all
    select queue, state, count(*)::int, extract(epoch from now() - min(interrupted_at))::float8,
      null
    from todos t where ${inStates(INTERRUPT_STATES)} group by queue, state`,
)

/** Live todos by queue and state; how long the one that waits longest has waited, or was silent. */
export const readGauges = (session: Session): Promise<GaugeRow[]> => session.run(gauges, {})
