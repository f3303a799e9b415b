/**
 * What webhooks are owed. A courier leases a config's line, sends its first delivery and settles
 * it under the fence of the lease; nothing is locked while it sends.
 */
import type { Dialect, Verdict } from '../../domain/push.ts'
import { granting } from '../move/columns.ts'
import { DUE_WEBHOOKS } from '../move/pick.ts'
import { type Session, type Statement, statement } from '../postgres/database.ts'

/** The line of one webhook, as leased. */
export interface LeasedWebhook {
  todoId: string
  configId: string
  owner: string
  fence: string
  host: string
}

/** The first delivery of a leased line, with all that sending it needs but its event. */
export interface LeasedDelivery extends LeasedWebhook {
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
  `with due as (select c.todo_id, c.config_id ${DUE_WEBHOOKS}),
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
export interface LeaseRequest {
  owner: string
  limit: number
  perHost: number
  leaseSeconds: number
  busy: ReadonlyMap<string, number>
}

const toWebhook = (row: LeasedRow): LeasedWebhook => ({
  todoId: row.todo_id,
  configId: row.config_id,
  owner: row.owner,
  fence: row.fence,
  host: row.host,
})

/** First deliveries that are due, each with its line leased. */
export const leaseDeliveries = async (
  session: Session,
  { owner, limit, perHost, leaseSeconds, busy }: LeaseRequest,
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
    if (row.id === null) await handBack(session, toWebhook(row))
    else leased.push(toLeased(row, row.id))
  }
  return leased
}

const toLeased = (row: LeasedRow, id: string): LeasedDelivery => ({
  ...toWebhook(row),
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

const webhookValues = ({ todoId, configId, owner, fence }: LeasedWebhook) => ({
  todo: todoId,
  config: configId,
  owner,
  fence,
})

/**
 * The line at the lease of its caller. A lapsed lease that nobody has taken still settles: refusing
 * it would only send a delivery twice whose outcome is known.
 */
const LEASED_WEBHOOK = `c.todo_id = :todo::uuid and c.config_id = :config
    and c.owner = :owner::uuid and c.fence = :fence::bigint`

const settle = statement<{ id: string }>(
  'delivery_settle',
  `with line as (
    update push_configs c set owner = null, lease_expires_at = null,
      owed = c.owed - s.settled,
      due_at = case when c.owed > s.settled then now() + make_interval(secs => :again::double precision) end
    from (select case when :state = 'pending' then 0 else 1 end as settled) s
    where ${LEASED_WEBHOOK} and exists (select from deliveries d where d.id = :id::uuid and d.state = 'pending')
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
  const values = { ...webhookValues(delivery), id: delivery.id, state, status, reason, tries }
  const settled = await session.run(settle, { ...values, again: againSeconds })
  return settled.length > 0
}

const giveBack = statement<never>(
  'deliveries_hand_back',
  `update push_configs c set owner = null, lease_expires_at = null where ${LEASED_WEBHOOK}`,
)

/** Gives up a lease unused: whoever looks next may have it. */
export const handBack = async (session: Session, line: LeasedWebhook): Promise<void> => {
  await session.run(giveBack, webhookValues(line))
}
