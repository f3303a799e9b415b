/**
 * Limits on how much runs at once. Inside a transaction that claims: a lock on the limit's name lets
 * one claim of it count and claim at a time, so that two never take the last place both.
 */
import { type Session, statement } from './database.ts'

const lock = statement<never>(
  'room_lock',
  `select pg_advisory_xact_lock(hashtextextended('switchboard room ' || :name, 0))`,
)
const inQueue = statement<{ count: number }>(
  'room_in_queue',
  `select count(*)::int as count from todos t where t.state = 'claimed' and t.queue = :name`,
)
const ofEndpoint = statement<{ count: number }>(
  'room_of_endpoint',
  `select count(*)::int as count from todos t where t.state = 'claimed' and t.owner = :name::uuid`,
)

/** How many todos are claimed in a queue, or by an endpoint; nobody else claims there meanwhile. */
export const lockAndCount = async (
  session: Session,
  what: { queue: string } | { endpoint: string },
): Promise<number> => {
  const [name, count] = 'queue' in what ? [what.queue, inQueue] : [what.endpoint, ofEndpoint]
  await session.run(lock, { name })
  return (await session.run(count, { name }))[0]?.count ?? 0
}

/** How many are claimed in a queue just now. */
export const countClaimed = async (session: Session, queue: string): Promise<number> =>
  (await session.run(inQueue, { name: queue }))[0]?.count ?? 0
