/**
 * Limits on how much runs at once, in a queue and for an endpoint: each is a number of slots, named by the
 * queue's name or the endpoint's id. A claimed todo uses a slot until it ends or asks, or until its lease
 * has lapsed. Whoever waits for a slot listens to its topic.
 */

import { HELD_STATES } from '../../domain/lifecycle.ts'
import type { Claimer, Slots } from '../../domain/why.ts'
import { type Session, statement, type Wake } from '../postgres/database.ts'
import { $, sql } from '../postgres/sql.ts'
import { topics } from '../wake/topics.ts'
import { FREE, inStates, LIVE } from './conditions.ts'

interface Used {
  used: number
  until: Date | null
}

const RUNNING = `${inStates(HELD_STATES)} and not ${FREE}`

const lock = statement<never>(
  'room_lock',
  sql`select pg_advisory_xact_lock(hashtextextended('switchboard room ' || ${$.name}, 0))`,
)

/** How many run, and when the clock takes back the first of these. */
const USED = 'count(*)::int as used, min(least(t.lease_expires_at, t.alarm_at)) as until'

const inQueue = statement<Used>(
  'room_in_queue',
  sql`select ${USED} from todos t where ${RUNNING} and t.queue = ${$.name}`,
)
const ofEndpoint = statement<{ used: number; limit: number | null }>(
  'room_of_endpoint',
  sql`select e.concurrency as limit,
    (select count(*)::int from todos t where ${RUNNING} and t.owner = e.id) as used
  from endpoints e where e.id = ${$.name}::uuid`,
)

/** How many waiters are woken when a limit has changed; by how much it did is not known. */
const MAX_WOKEN = 100

export const limitChanged = (name: string): Wake => ({
  topic: topics.slots(name),
  count: MAX_WOKEN,
})

/**
 * How many more may be claimed in this queue. Call it inside the transaction that claims: a lock on the
 * name lets one claim at a time count and claim, so that two never get the last slot.
 */
export const freeInQueue = async (
  session: Session,
  name: string,
  limit: number,
): Promise<number> => {
  await session.run(lock, { name })
  const [row] = await session.run(inQueue, { name })
  return limit - (row?.used ?? 0)
}

/** The same for an endpoint, by the limit it has now. */
export const freeOfEndpoint = async (session: Session, name: string): Promise<number> => {
  await session.run(lock, { name })
  const [row] = await session.run(ofEndpoint, { name })
  return (row?.limit ?? Number.POSITIVE_INFINITY) - (row?.used ?? 0)
}

export const readQueueSlots = async (
  session: Session,
  name: string,
  limit: number,
): Promise<Slots | null> => {
  const [row] = await session.run(inQueue, { name })
  return row ? { ...row, limit } : null
}

const claimers = statement<Used & { name: string; limit: number | null }>(
  'room_of_claimers',
  sql`with busy as materialized (
    select t.owner, ${USED} from todos t where ${RUNNING} group by t.owner)
  select e.name, e.concurrency as limit, coalesce(k.used, 0) as used, k.until
  from endpoints e left join busy k on k.owner = e.id
  where ${$.queue} = any(e.queues) and 'work' = any(e.verbs) and ${LIVE}
  order by e.created_at, e.id`,
)

/** Live endpoints that may claim from this queue, with their limits. */
export const readClaimers = async (session: Session, queue: string): Promise<Claimer[]> =>
  (await session.run(claimers, { queue })).map(({ name, limit, used, until }) => ({
    name,
    slots: limit === null ? null : { used, limit, until },
  }))
