/** Endpoints: vended credentials. The token is random, shown once, and kept as its SHA-256. */

import { createHash, randomBytes } from 'node:crypto'
import { isUuid } from '../../base/uuid.ts'
import type { Endpoint, EndpointVerb } from '../../domain/endpoint.ts'
import { INTERRUPT_STATES, OPEN_STATES } from '../../domain/lifecycle.ts'
import { limitChanged } from '../move/concurrency.ts'
import { inStates, isServed, LIVE } from '../move/conditions.ts'
import { type Session, type Statement, statement, type Values } from '../postgres/database.ts'
import { columnsOf, readOne } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'
import { topics, wakeOf } from '../wake/topics.ts'

const COLUMNS = columnsOf<Endpoint>()([
  'id name queues verbs defaultLeaseSeconds interruptTtlSeconds effects sendPerMinute concurrency',
  'highestPriority lowestPriority createdAt expiresAt revokedAt',
]).select('e')

/** 32 random bytes behind a prefix that secret scanners can look for. */
export const newToken = (): string => `swb_${randomBytes(32).toString('base64url')}`

const hash = (token: string): Buffer => createHash('sha256').update(token).digest()

const byToken = statement<Endpoint>(
  'endpoint_by_token',
  sql`select ${COLUMNS} from endpoints e where e.token_sha256 = ${$.hash}::bytea and ${LIVE}`,
)

/** The live endpoint that the token with this hash belongs to, or null. */
export const readEndpointByHash = (session: Session, tokenHash: Buffer): Promise<Endpoint | null> =>
  readOne(session, byToken, { hash: tokenHash })

const withExpiry = statement<Endpoint & { expiresInMs: number | null }>(
  'endpoint_with_expiry',
  sql`select ${COLUMNS}, (extract(epoch from e.expires_at - now()) * 1000)::float8 as "expiresInMs"
  from endpoints e where e.token_sha256 = ${$.hash}::bytea and ${LIVE}`,
)

/** The live endpoint of a token, and how long it still has, by the database's clock. */
export const readEndpointByToken = async (
  session: Session,
  token: string,
): Promise<{ endpoint: Endpoint; expiresInMs: number | null } | null> => {
  const row = await readOne(session, withExpiry, { hash: hash(token) })
  if (!row) return null
  const { expiresInMs, ...endpoint } = row
  return { endpoint, expiresInMs }
}

const all = statement<Endpoint>(
  'endpoints_read',
  `select ${COLUMNS} from endpoints e order by e.created_at, e.id`,
)

export const readEndpoints = (session: Session): Promise<Endpoint[]> => session.run(all, {})

const some = statement<Endpoint>(
  'endpoints_by_id',
  sql`select ${COLUMNS} from endpoints e where e.id = any(${$.ids}::uuid[])`,
)

/** By id, revoked ones included. */
export const readEndpointsById = async (
  session: Session,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Endpoint>> => {
  if (ids.length === 0) return new Map()
  return new Map((await session.run(some, { ids })).map((row) => [row.id, row]))
}

const add = plannedEachTime<Endpoint>(
  'endpoint_add',
  sql`insert into endpoints as e (name, token_sha256, queues, verbs, default_lease_seconds,
    interrupt_ttl_seconds, effects, send_per_minute, concurrency, highest_priority, lowest_priority, expires_at)
  values (${$.name}, ${$.hash}::bytea, ${$.queues}::text[], ${$.verbs}::text[], ${$.lease}::int, ${$.interrupt_ttl}::int,
    ${$.effects}::text[], ${$.send_per_minute}::int, ${$.concurrency}::int, ${$.highest_priority}::smallint,
    ${$.lowest_priority}::smallint, now() + make_interval(secs => ${$.expires_in}::float8))
  returning ${COLUMNS}`,
)

export interface NewEndpoint
  extends Omit<
    Endpoint,
    'id' | 'queues' | 'verbs' | 'effects' | 'createdAt' | 'expiresAt' | 'revokedAt'
  > {
  queues: readonly string[]
  verbs: readonly EndpointVerb[]
  effects: readonly string[] | null
  expiresInSeconds: number | null
}

const valuesOf = (endpoint: Partial<NewEndpoint>): Values => ({
  name: endpoint.name,
  queues: endpoint.queues,
  verbs: endpoint.verbs,
  lease: endpoint.defaultLeaseSeconds,
  interrupt_ttl: endpoint.interruptTtlSeconds,
  effects: endpoint.effects,
  send_per_minute: endpoint.sendPerMinute,
  concurrency: endpoint.concurrency,
  highest_priority: endpoint.highestPriority,
  lowest_priority: endpoint.lowestPriority,
})

export const addEndpoint = async (
  session: Session,
  token: string,
  endpoint: NewEndpoint,
): Promise<Endpoint> => {
  const [row] = await session.run(add, {
    ...valuesOf(endpoint),
    hash: hash(token),
    expires_in: endpoint.expiresInSeconds,
  })
  return row!
}

const revoke = plannedEachTime<Endpoint>(
  'endpoint_revoke',
  sql`update endpoints e set revoked_at = coalesce(e.revoked_at, now()) where e.id = ${$.id}::uuid
  returning ${COLUMNS}`,
)
const rotate = plannedEachTime<Endpoint>(
  'endpoint_rotate',
  sql`update endpoints e set token_sha256 = ${$.hash}::bytea where e.id = ${$.id}::uuid and e.revoked_at is null
  returning ${COLUMNS}`,
)
const update = plannedEachTime<Endpoint>(
  'endpoint_update',
  sql`update endpoints e set name = coalesce(${$.name}, e.name), queues = coalesce(${$.queues}::text[], e.queues),
    verbs = coalesce(${$.verbs}::text[], e.verbs),
    default_lease_seconds = coalesce(${$.lease}::int, e.default_lease_seconds),
    interrupt_ttl_seconds = coalesce(${$.interrupt_ttl}::int, e.interrupt_ttl_seconds),
    effects = coalesce(${$.effects}::text[], e.effects),
    send_per_minute = coalesce(${$.send_per_minute}::int, e.send_per_minute),
    concurrency = case when ${$.keeps_concurrency}::boolean then e.concurrency else ${$.concurrency}::int end,
    highest_priority = case when ${$.keeps_highest}::boolean then e.highest_priority else ${$.highest_priority}::smallint end,
    lowest_priority = case when ${$.keeps_lowest}::boolean then e.lowest_priority else ${$.lowest_priority}::smallint end
  where e.id = ${$.id}::uuid and e.revoked_at is null returning ${COLUMNS}`,
)

const changed = async (
  session: Session,
  chosen: Statement<Endpoint>,
  id: string,
  values: Values = {},
): Promise<Endpoint | null> => {
  if (!isUuid(id)) return null
  const endpoint = await readOne(session, chosen, { ...values, id })
  session.wake([wakeOf(topics.endpoints), limitChanged(id)])
  return endpoint
}

/** The endpoint as it is now; null where there is none or, for the two below, none that is live. */
export const revokeEndpoint = (session: Session, id: string): Promise<Endpoint | null> =>
  changed(session, revoke, id)

export const rotateEndpoint = (
  session: Session,
  id: string,
  token: string,
): Promise<Endpoint | null> => changed(session, rotate, id, { hash: hash(token) })

export const updateEndpoint = (
  session: Session,
  id: string,
  change: Partial<NewEndpoint>,
): Promise<Endpoint | null> =>
  changed(session, update, id, {
    ...valuesOf(change),
    keeps_concurrency: change.concurrency === undefined,
    keeps_highest: change.highestPriority === undefined,
    keeps_lowest: change.lowestPriority === undefined,
  })

const served = statement<{ queue: string }>(
  'queues_served',
  sql`select w.queue from unnest(${$.queues}::text[]) as w(queue) where ${isServed('w.queue')}`,
)

/** Those of these queues that some live endpoint may still claim from. */
export const readQueuesServed = async (
  session: Session,
  queues: readonly string[],
): Promise<string[]> => (await session.run(served, { queues })).map(({ queue }) => queue)

const sentTo = plannedEachTime<{ queue: string }>(
  'queues_sent_to',
  sql`select distinct queue from todos where client_id = ${$.client}::uuid and finished_at is null`,
)

/** The queues in which this endpoint has live todos that it sent, whatever queues it has now. */
export const readQueuesSentTo = async (session: Session, clientId: string): Promise<string[]> =>
  (await session.run(sentTo, { client: clientId })).map(({ queue }) => queue)

const expire = statement<{ id: string }>(
  'endpoints_expire',
  `update endpoints set revoked_at = now()
  where revoked_at is null and expires_at <= now() returning id`,
)

/** Revokes the endpoints past their expiry: from here on the two are the same. */
export const revokeExpired = async (session: Session): Promise<void> => {
  const expired = await session.run(expire, {})
  if (expired.length > 0) session.wake([wakeOf(topics.endpoints)])
}

const deadHolders = plannedEachTime<{ owner: string; queue: string }>(
  'endpoints_dead_holders',
  sql`select t.owner, t.queue from todos t join endpoints e on e.id = t.owner
  where ${inStates(OPEN_STATES)}
    and e.revoked_at is not null and (${$.endpoint}::uuid is null or t.owner = ${$.endpoint}::uuid)
  union
  select a.endpoint_id, t.queue from todos t
    join attempts a on a.todo_id = t.id and a.seq = t.attempts_total and a.ended_at is null
    join endpoints e on e.id = a.endpoint_id
  where ${inStates(INTERRUPT_STATES)} and t.owner is null
    and e.revoked_at is not null and (${$.endpoint}::uuid is null or e.id = ${$.endpoint}::uuid)`,
)

/**
 * Revoked endpoints (or this one, if it is) that still hold todos, or on whose question a todo is
 * parked, and in which queues.
 */
export const readDeadHolders = (
  session: Session,
  endpointId: string | null,
): Promise<{ owner: string; queue: string }[]> => session.run(deadHolders, { endpoint: endpointId })

const idleHolders = plannedEachTime<{ owner: string; queue: string }>(
  'endpoints_idle_holders',
  sql`select distinct t.owner, t.queue from todos t join endpoints e on e.id = t.owner
  where ${inStates(OPEN_STATES)} and ${LIVE} and not ('work' = any(e.verbs))
    and (${$.endpoint}::uuid is null or t.owner = ${$.endpoint}::uuid)`,
)

/** Live endpoints (or this one, if it is) that still hold todos and may not work any more, and where. */
export const readIdleHolders = (
  session: Session,
  endpointId: string | null,
): Promise<{ owner: string; queue: string }[]> => session.run(idleHolders, { endpoint: endpointId })
