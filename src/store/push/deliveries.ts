/**
 * What webhooks are owed. A courier leases a webhook, sends its first delivery and settles it under the
 * fence of the lease; nothing is locked while it sends.
 */

import type { Dialect, Verdict } from '../../domain/push.ts'
import { granting } from '../move/columns.ts'
import { DUE_WEBHOOKS, endpointOf, hostOf } from '../move/pick.ts'
import { type Session, statement, type Values } from '../postgres/database.ts'
import { columnsOf } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'

export interface LeasedWebhook {
  todoId: string
  configId: string
  owner: string
  fence: string
  /** Of its URL, without the port: however many of them somebody opens, it is one receiver. */
  host: string
}

/** The first delivery of a leased webhook, with all that sending it needs but its event. */
export interface LeasedDelivery extends LeasedWebhook {
  id: string
  seq: number
  /** Who made the config; empty for an operator. */
  endpoint: string
  /** How many tries there were, this one included. */
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
  /** Whoever made the config lost its token, or only the right to see this task; so it is not told. */
  withdrawn: 'revoked' | 'right' | null
}

const LEASED = columnsOf<LeasedDelivery>()(
  ['todoId configId owner fence dialect url token scheme credentials'],
  {
    host: hostOf,
    endpoint: endpointOf,
    id: () => 'd.id',
    seq: () => 'd.seq',
    attempts: () => 'd.attempts + 1',
    ageSeconds: () => 'extract(epoch from now() - d.created_at)::float8',
    at: () => 'now()',
    secrets: (l) => `array_remove(array[${l}.secret,
      case when ${l}.previous_secret_until > now() then ${l}.previous_secret end], null)`,
    withdrawn: (l) => `(select case
        when e.revoked_at is not null or e.expires_at <= now() then 'revoked'
        when not d.queue = any(e.queues) then 'right'
        when 'answer' = any(e.verbs) then null
        when not 'send' = any(e.verbs) then 'right'
        -- A todo that is gone is nobody's; that is told as such.
        when exists (select from todos t
          where t.id = ${l}.todo_id and t.client_id is distinct from e.id) then 'right' end
      from endpoints e where e.id = ${l}.endpoint_id)`,
  },
)

/** A webhook that turns out to be owed nothing has no delivery, and so no id. */
const lease = statement<LeasedDelivery | (LeasedWebhook & { id: null })>(
  'deliveries_lease',
  sql`with due as (select c.todo_id, c.config_id ${DUE_WEBHOOKS}),
  leased as (
    update push_configs c set ${granting('c')}
    from due where c.todo_id = due.todo_id and c.config_id = due.config_id
    returning c.*)
  select ${LEASED.select('l')}
  from leased l left join lateral (select * from deliveries o
    where o.todo_id = l.todo_id and o.config_id = l.config_id and o.state = 'pending'
    order by o.seq limit 1) d on true`,
)

/** What a courier asks for: how many deliveries, and how busy it is with whom. */
export interface LeaseRequest {
  owner: string
  limit: number
  perHost: number
  leaseSeconds: number
  /** How many are under way to each host. */
  busy: ReadonlyMap<string, number>
  /** Endpoints, and endpoints at a host (`host endpoint`), that are passed over; and how many are
   * under way of each endpoint. */
  crowded: {
    endpoints: readonly string[]
    pairs: readonly string[]
    counts: ReadonlyMap<string, number>
  }
  /** The most that may be under way of one endpoint. */
  share: number
}

/** First deliveries that are due, each with its webhook leased. */
export const leaseDeliveries = async (
  session: Session,
  { owner, limit, perHost, leaseSeconds, busy, crowded, share }: LeaseRequest,
): Promise<LeasedDelivery[]> => {
  const rows = await session.run(lease, {
    owner,
    limit,
    per_host: perHost,
    lease_seconds: leaseSeconds,
    hosts: [...busy.keys()],
    counts: [...busy.values()],
    crowded: crowded.endpoints,
    crowded_pairs: crowded.pairs,
    endpoints: [...crowded.counts.keys()],
    endpoint_counts: [...crowded.counts.values()],
    share,
    full: [...busy].filter(([, count]) => count >= perHost).map(([host]) => host),
  })
  const leased: LeasedDelivery[] = []
  for (const row of rows) {
    // Another courier has just sent what this statement saw; what came since it cannot see yet.
    if (row.id === null) await handBack(session, row)
    else leased.push(row)
  }
  return leased
}

const webhookValues = ({ todoId, configId, owner, fence }: LeasedWebhook): Values => ({
  todo: todoId,
  config: configId,
  owner,
  fence,
})

/**
 * The webhook under the lease of its caller. A lapsed lease that nobody else has been granted still
 * settles: refusing it would only send a delivery again whose outcome is known.
 */
const LEASED_WEBHOOK = sql`c.todo_id = ${$.todo}::uuid and c.config_id = ${$.config}
    and c.owner = ${$.owner}::uuid and c.fence = ${$.fence}::bigint`

const settle = statement<{ id: string }>(
  'delivery_settle',
  sql`with webhook as (
    update push_configs c set owner = null, lease_expires_at = null,
      owed = c.owed - s.settled,
      due_at = case when c.owed > s.settled then now() + make_interval(secs => ${$.again}::double precision) end
    from (select case when ${$.state} = 'pending' then 0 else 1 end as settled) s
    where ${LEASED_WEBHOOK} and exists (select from deliveries d where d.id = ${$.id}::uuid and d.state = 'pending')
    returning c.todo_id)
  update deliveries d set state = ${$.state}, attempts = d.attempts + ${$.tries}::int, status = ${$.status}::int,
    reason = ${$.reason}, attempted_at = now(), settled_at = case when ${$.state} <> 'pending' then now() end
  from webhook where d.id = ${$.id}::uuid and d.state = 'pending' returning d.id`,
)

/** Writes what came of a try, or of none. False where the lease was lost or the config deleted. */
export const settleDelivery = async (
  session: Session,
  delivery: LeasedDelivery,
  { state, status, reason, againSeconds }: Verdict,
  tries: 0 | 1 = 1,
): Promise<boolean> => {
  const values = { ...webhookValues(delivery), id: delivery.id, state, status, reason, tries }
  const settled = await session.run(settle, { ...values, again: againSeconds })
  return settled.length > 0
}

const giveBack = statement<never>(
  'deliveries_hand_back',
  sql`update push_configs c set owner = null, lease_expires_at = null where ${LEASED_WEBHOOK}`,
)

/** Gives up a lease unused: whoever looks next may have it. */
export const handBack = async (session: Session, webhook: LeasedWebhook): Promise<void> => {
  await session.run(giveBack, webhookValues(webhook))
}
