/**
 * Keys of sends. One is claimed in the very statement that stores what it is for: a unique violation
 * undoes both, so that there is never one without the other. A key past its time counts as absent,
 * swept or not.
 */
import type { Todo } from '../../domain/todo.ts'
import { type Session, statement } from '../postgres/database.ts'
import { $, type Sql, type SqlPart, sql } from '../postgres/sql.ts'

/** A key, and whose, as the send brings it. `digest` is a SHA-256 in hex. */
export interface SendKey {
  endpointId: string
  queue: string
  source: 'key' | 'messageId'
  key: string
  digest: string
  /** What a version of before would have stored, which says less; so its todo has to fit as well. */
  former?: { digest: string; fits: (todo: Todo) => boolean }
  /** How long it is kept from now on. */
  seconds: number
}

/** What a live key was claimed for: this message of this todo. */
export interface KnownKey {
  todoId: string
  seq: number
  digest: string
}

/** The constraint that two of the same key break. */
export const KEY_ONCE = 'idempotency_key_once'

const IS_KEY = sql`k.endpoint_id = ${$.key_endpoint}::uuid and k.queue = ${$.key_queue}
    and k.source = ${$.key_source} and k.key = ${$.key}`

const KNOWN = `k.todo_id as known_todo, k.seq as known_seq, encode(k.digest, 'hex') as known_digest`

/** One `with` of the statement: the live key, if there is one. */
export const knownKey = sql`known as materialized (
  select ${KNOWN} from idempotency_keys k where ${IS_KEY} and k.expires_at > now())`

export interface KnownRow {
  known_todo: string | null
  known_seq: number | null
  known_digest: string | null
}

/** Null where the row tells of none. */
export const toKnown = (row: KnownRow): KnownKey | null =>
  row.known_todo === null
    ? null
    : { todoId: row.known_todo, seq: row.known_seq!, digest: row.known_digest! }

const INSERT = `
  insert into idempotency_keys (endpoint_id, queue, source, key, digest, todo_id, seq, expires_at)`

const claimed = (todo: SqlPart, seq: SqlPart): Sql =>
  sql`${$.key_endpoint}::uuid, ${$.key_queue}, ${$.key_source}, ${$.key}, decode(${$.key_digest}, 'hex'), ${todo}, ${seq},
    now() + make_interval(secs => ${$.key_seconds}::int)`

/**
 * Two more `with`s: the rows of `rows` (`id`, `seq`) claim the key, where there is one. A key that has
 * expired makes room first; a live one fails the whole statement.
 */
export const claimKey = (rows: string): Sql => sql`
outdated as (
  delete from idempotency_keys k using ${rows} m
  where ${$.key}::text is not null and ${IS_KEY} and k.expires_at <= now()
  returning k.key),
keyed as (${INSERT}
  select ${claimed('m.id', 'm.seq')}
  from ${rows} m where ${$.key}::text is not null and (select count(*) from outdated) >= 0)`

/** The parameters of the above; all null where there is no key. */
export const keyParameters = (key: SendKey | undefined): Record<string, unknown> => ({
  key_endpoint: key?.endpointId,
  key_queue: key?.queue,
  key_source: key?.source,
  key: key?.key,
  key_digest: key?.digest,
  key_seconds: key?.seconds,
})

const readStatement = statement<KnownRow>(
  'idempotency_key_read',
  sql`select ${KNOWN} from idempotency_keys k where ${IS_KEY} and k.expires_at > now()`,
)

/** What this key was claimed for; null where it is free. */
export const readKey = async (session: Session, key: SendKey): Promise<KnownKey | null> => {
  const [row] = await session.run(readStatement, keyParameters(key))
  return row ? toKnown(row) : null
}

const addStatement = statement<never>(
  'idempotency_key_add',
  sql`${INSERT}
  values (${claimed(sql`${$.todo_id}::uuid`, sql`${$.seq}::int`)})
  on conflict on constraint ${KEY_ONCE} do update set digest = excluded.digest,
    todo_id = excluded.todo_id, seq = excluded.seq, created_at = excluded.created_at,
    expires_at = excluded.expires_at
  where idempotency_keys.expires_at <= now()`,
)

/** Claims a key for a message that is there already; somebody else's live claim is left alone. */
export const addKey = async (
  session: Session,
  key: SendKey,
  { todoId, seq }: Pick<KnownKey, 'todoId' | 'seq'>,
): Promise<void> => {
  await session.run(addStatement, { ...keyParameters(key), todo_id: todoId, seq })
}

const expireStatement = statement<{ count: number }>(
  'idempotency_keys_expire',
  sql`with gone as (
  delete from idempotency_keys k using (
    select x.endpoint_id, x.queue, x.source, x.key from idempotency_keys x
    where x.expires_at <= now() order by x.expires_at limit ${$.limit}::int) d
  where k.endpoint_id = d.endpoint_id and k.queue = d.queue and k.source = d.source
    and k.key = d.key and k.expires_at <= now()
  returning k.key)
select count(*)::int as count from gone`,
)

/** Deletes up to `limit` keys whose time is over; how many. */
export const expireKeys = async (session: Session, limit: number): Promise<number> =>
  (await session.run(expireStatement, { limit }))[0]?.count ?? 0
