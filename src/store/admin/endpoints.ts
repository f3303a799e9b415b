/** Endpoints: vended credentials. The token is random, shown once, and kept as its SHA-256. */
import { createHash, randomBytes } from 'node:crypto'
import { isUuid } from '../../base/uuid.ts'
import type { Endpoint, EndpointVerb } from '../../domain/endpoint.ts'
import { INTERRUPT_STATES, OPEN_STATES } from '../../domain/lifecycle.ts'
import { limitChanged } from '../move/concurrency.ts'
import { inStates, LIVE } from '../move/conditions.ts'
import { type Session, type Statement, statement } from '../postgres/database.ts'

interface EndpointRow {
  id: string
  name: string
  queues: string[]
  verbs: EndpointVerb[]
  default_lease_seconds: number
  interrupt_ttl_seconds: number | null
  effects: string[] | null
  send_per_minute: number | null
  concurrency: number | null
  created_at: Date
  expires_at: Date | null
  revoked_at: Date | null
}

const COLUMNS = `e.id, e.name, e.queues, e.verbs, e.default_lease_seconds, e.interrupt_ttl_seconds,
  e.effects, e.send_per_minute, e.concurrency, e.created_at, e.expires_at, e.revoked_at`

const toEndpoint = (row: EndpointRow): Endpoint => ({
  id: row.id,
  name: row.name,
  queues: row.queues,
  verbs: row.verbs,
  defaultLeaseSeconds: row.default_lease_seconds,
  interruptTtlSeconds: row.interrupt_ttl_seconds,
  effects: row.effects,
  sendPerMinute: row.send_per_minute,
  concurrency: row.concurrency,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  revokedAt: row.revoked_at,
})

/** 32 random bytes behind a prefix that secret scanners can look for. */
export const newToken = (): string => `swb_${randomBytes(32).toString('base64url')}`

const hash = (token: string): Buffer => createHash('sha256').update(token).digest()

const byToken: Statement<EndpointRow> = statement(
  'endpoint_by_token',
  `select ${COLUMNS} from endpoints e where e.token_sha256 = :hash::bytea and ${LIVE}`,
)

/** The live endpoint this token belongs to, or null. */
export const readEndpointByToken = async (
  session: Session,
  token: string,
): Promise<Endpoint | null> => readEndpointByHash(session, hash(token))

/** The same by what is kept of the token. */
export const readEndpointByHash = async (
  session: Session,
  tokenHash: Buffer,
): Promise<Endpoint | null> => {
  const [row] = await session.run(byToken, { hash: tokenHash })
  return row ? toEndpoint(row) : null
}

const all: Statement<EndpointRow> = statement(
  'endpoints_read',
  `select ${COLUMNS} from endpoints e order by e.created_at, e.id`,
)

export const readEndpoints = async (session: Session): Promise<Endpoint[]> =>
  (await session.run(all, {})).map(toEndpoint)

const some: Statement<EndpointRow> = statement(
  'endpoints_by_id',
  `select ${COLUMNS} from endpoints e where e.id = any(:ids::uuid[])`,
)

/** By id, the revoked ones too. */
export const readEndpointsById = async (
  session: Session,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Endpoint>> => {
  if (ids.length === 0) return new Map()
  return new Map((await session.run(some, { ids })).map((row) => [row.id, toEndpoint(row)]))
}

const add: Statement<EndpointRow> = statement(
  'endpoint_add',
  `insert into endpoints as e (name, token_sha256, queues, verbs, default_lease_seconds,
    interrupt_ttl_seconds, effects, send_per_minute, concurrency, expires_at)
  values (:name, :hash::bytea, :queues::text[], :verbs::text[], :lease::int, :interrupt_ttl::int,
    :effects::text[], :send_per_minute::int, :concurrency::int, now() + make_interval(secs => :expires_in::float8))
  returning ${COLUMNS}`,
)

export interface NewEndpoint {
  name: string
  queues: readonly string[]
  verbs: readonly EndpointVerb[]
  defaultLeaseSeconds: number
  interruptTtlSeconds: number | null
  effects: readonly string[] | null
  sendPerMinute: number | null
  concurrency: number | null
  expiresInSeconds: number | null
}

export const addEndpoint = async (
  session: Session,
  token: string,
  endpoint: NewEndpoint,
): Promise<Endpoint> => {
  const [row] = await session.run(add, {
    name: endpoint.name,
    hash: hash(token),
    queues: endpoint.queues,
    verbs: endpoint.verbs,
    lease: endpoint.defaultLeaseSeconds,
    interrupt_ttl: endpoint.interruptTtlSeconds,
    effects: endpoint.effects,
    send_per_minute: endpoint.sendPerMinute,
    concurrency: endpoint.concurrency,
    expires_in: endpoint.expiresInSeconds,
  })
  return toEndpoint(row!)
}

const revoke: Statement<EndpointRow> = statement(
  'endpoint_revoke',
  `update endpoints e set revoked_at = coalesce(e.revoked_at, now()) where e.id = :id::uuid
  returning ${COLUMNS}`,
)
const rotate: Statement<EndpointRow> = statement(
  'endpoint_rotate',
  `update endpoints e set token_sha256 = :hash::bytea where e.id = :id::uuid and e.revoked_at is null
  returning ${COLUMNS}`,
)
const update: Statement<EndpointRow> = statement(
  'endpoint_update',
  `update endpoints e set name = coalesce(:name, e.name), queues = coalesce(:queues::text[], e.queues),
    verbs = coalesce(:verbs::text[], e.verbs),
    default_lease_seconds = coalesce(:lease::int, e.default_lease_seconds),
    interrupt_ttl_seconds = coalesce(:interrupt_ttl::int, e.interrupt_ttl_seconds),
    effects = coalesce(:effects::text[], e.effects),
    send_per_minute = coalesce(:send_per_minute::int, e.send_per_minute),
    concurrency = case when :keeps_concurrency::boolean then e.concurrency else :concurrency::int end
  where e.id = :id::uuid and e.revoked_at is null returning ${COLUMNS}`,
)

const changed = async (
  session: Session,
  chosen: Statement<EndpointRow>,
  id: string,
  values: Record<string, unknown> = {},
): Promise<Endpoint | null> => {
  if (!isUuid(id)) return null
  const [row] = await session.run(chosen, { ...values, id })
  session.wake([{ topic: 'endpoints', count: 1 }, limitChanged(id)])
  return row ? toEndpoint(row) : null
}

/** The endpoint as it is now, or null where there is none (or, for the latter two, none live). */
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
    name: change.name,
    queues: change.queues,
    verbs: change.verbs,
    lease: change.defaultLeaseSeconds,
    interrupt_ttl: change.interruptTtlSeconds,
    effects: change.effects,
    send_per_minute: change.sendPerMinute,
    concurrency: change.concurrency,
    keeps_concurrency: change.concurrency === undefined,
  })

const served: Statement<{ queue: string }> = statement(
  'queues_served',
  `select w.queue from unnest(:queues::text[]) as w(queue) where exists (
    select from endpoints e where w.queue = any(e.queues) and 'work' = any(e.verbs)
      and ${LIVE})`,
)

/** Of these queues, those some live endpoint may still claim from. */
export const readQueuesServed = async (
  session: Session,
  queues: readonly string[],
): Promise<string[]> => (await session.run(served, { queues })).map(({ queue }) => queue)

const sentTo = statement<{ queue: string }>(
  'queues_sent_to',
  'select distinct queue from todos where client_id = :client::uuid and finished_at is null',
)

/** Where this endpoint has live todos that it sent, whatever queues it has now. */
export const readQueuesSentTo = async (session: Session, clientId: string): Promise<string[]> =>
  (await session.run(sentTo, { client: clientId })).map(({ queue }) => queue)

const expire = statement<{ id: string }>(
  'endpoints_expire',
  `update endpoints set revoked_at = now()
  where revoked_at is null and expires_at <= now() returning id`,
)

/** An endpoint past its expiry is revoked: from here on the two are the same. */
export const revokeExpired = async (session: Session): Promise<void> => {
  const expired = await session.run(expire, {})
  if (expired.length > 0) session.wake([{ topic: 'endpoints', count: 1 }])
}

const deadHolders = statement<{ owner: string; queue: string }>(
  'endpoints_dead_holders',
  `select t.owner, t.queue from todos t join endpoints e on e.id = t.owner
  where ${inStates(OPEN_STATES)}
    and e.revoked_at is not null and (:endpoint::uuid is null or t.owner = :endpoint::uuid)
  union
  select a.endpoint_id, t.queue from todos t
    join attempts a on a.todo_id = t.id and a.seq = t.attempts_total and a.ended_at is null
    join endpoints e on e.id = a.endpoint_id
  where ${inStates(INTERRUPT_STATES)} and t.owner is null
    and e.revoked_at is not null and (:endpoint::uuid is null or e.id = :endpoint::uuid)`,
)

/**
 * Revoked endpoints that still hold todos, or whose question one is parked on, and in which
 * queues; of one endpoint, or all.
 */
export const readDeadHolders = (
  session: Session,
  endpointId: string | null,
): Promise<{ owner: string; queue: string }[]> => session.run(deadHolders, { endpoint: endpointId })
