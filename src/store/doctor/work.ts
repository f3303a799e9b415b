/** Checks of what there is to do: queues that nobody serves, endpoints that end soon, todos that are stuck. */
import { interruptTtlSeconds } from '../../domain/policy.ts'
import { UNSERVED_QUEUES, type UnservedQueue } from '../admin/queues.ts'
import { allows, LIVE } from '../move/conditions.ts'
import type { SweepVerb } from '../move/verbs.ts'
import { type Sql, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'
import { type Finding, judged, someOf } from './finding.ts'
import type { Reader } from './reader.ts'

const unserved = plannedEachTime<UnservedQueue>(
  'doctor_unserved',
  `${UNSERVED_QUEUES} order by w.todos desc, q.name`,
)

export const checkQueues = async ({ run }: Reader): Promise<Finding> => {
  const names = (await run(unserved, {})).map(
    ({ queue, todos }) => `${queue} (${todos} todos wait)`,
  )
  const found = `no live endpoint may claim from ${someOf(names)}`
  const advice =
    'vend one: switchboard vend <name> --queue <queue> --verb work; or remove the queue'
  return judged('queues', names.length > 0 ? [{ found, advice }] : [], 'each has an endpoint')
}

/** How long before its end an endpoint is told of, in days. */
const SOON_DAYS = 7

const expiring = plannedEachTime<{ name: string; at: Date }>(
  'doctor_expiring',
  `select e.name, e.expires_at as at from endpoints e
  where ${LIVE} and e.expires_at < now() + interval '${SOON_DAYS} days' order by e.expires_at`,
)

export const checkEndpoints = async ({ run }: Reader): Promise<Finding> => {
  const names = (await run(expiring, {})).map(({ name, at }) => `${name} at ${at.toISOString()}`)
  const found = `within ${SOON_DAYS} days these expire: ${someOf(names)}`
  const advice = 'vend another endpoint for whoever uses it, give it the new token, and revoke it'
  const fine = `none expires within ${SOON_DAYS} days`
  return judged('endpoints', names.length > 0 ? [{ found, advice }] : [], fine)
}

/** By then every sweep has come by several times. */
const OVERDUE_SECONDS = 120
const MOST_LOOKED_AT = 1000

const MOMENTS = [
  'lease_probe_at lease_expires_at alarm_at interrupted_at interrupt_held_until due_at',
  'next_retry_at close_at started_at progress_at last_heartbeat_at wait_probe_at unheard_since',
  'join_timeout_at not_before',
].flatMap((line) => line.split(' '))

/**
 * What a sweep should have moved a while ago: due now, and due as well if all its moments were later by
 * that while. So the conditions are those of the sweep, and stand nowhere else.
 */
const overdue = (verb: SweepVerb): Sql => {
  const later = MOMENTS.map((at) => `'${at}', x.${at} + interval '${OVERDUE_SECONDS} seconds'`)
  return sql`select t.id from (select t as x from todos t
      where ${allows(verb)} limit ${MOST_LOOKED_AT}) due
    cross join lateral (select (due.x).*) x
    cross join lateral jsonb_populate_record(due.x, jsonb_build_object(${later.join(', ')})) t
    where ${allows(verb)}`
}

const SWEPT = [
  'reapLease',
  'reapInterrupt',
  'park',
  'timeOut',
  'expire',
  'joinTimeOut',
  'comeDue',
  'enterLine',
] as const
const statements = SWEPT.map((verb) =>
  plannedEachTime<{ id: string }>(`doctor_overdue_${verb}`, overdue(verb)),
)

export const checkStuck = async ({ read, run }: Reader, nodes: number): Promise<Finding> => {
  const [set] = await read<{ value: string }>(
    `select value from settings where key = 'interrupt_lease_ttl_seconds'`,
  )
  const ttl = { ttl_seconds: interruptTtlSeconds(set?.value ?? null).seconds }
  const ids = new Set<string>()
  for (const statement of statements) {
    for (const { id } of await run(statement, ttl)) ids.add(id)
  }
  const found = `no sweep has moved ${ids.size} todos that were due: ${someOf([...ids])}`
  const advice =
    nodes === 0
      ? 'start a node: none listens at this database, and nodes are what sweeps'
      : 'look into the log of a node for “a todo could not be swept”: it names the row and the error'
  return judged('sweeps', ids.size > 0 ? [{ found, advice }] : [], 'nothing is overdue')
}
