/** Todos that ended long ago, with everything that can hang on one. */
import type { Store } from '../support/database/store.ts'

type Sql = <Row>(text: string, values: unknown[]) => Promise<Row[]>

/** Every table with rows of a todo. */
export const TABLES = [
  'events',
  'messages',
  'artifacts',
  'attempts',
  'details',
  'push_configs',
  'deliveries',
  'idempotency_keys',
] as const

interface Aged {
  queue?: string
  count?: number
  days?: number
  /** Events of each. */
  events?: number
}

/** Makes ended todos; their ids, oldest first. */
export const makeAged = async (
  sql: Sql,
  { queue = 'q', count = 1, days = 40, events = 3 }: Aged = {},
): Promise<string[]> => {
  const made = await sql<{ id: string }>(
    `with made as (
      insert into todos (id, queue, context_id, max_attempts, state, seq, finished_at, created_at,
        status_at, attempt, attempts_total, push_version)
      select gen_random_uuid(), $1, 'c' || n, 5, 'done', $4, moment, moment, moment, 1, 1, 1
      from generate_series(1, $2::int) n
        cross join lateral (select now() - make_interval(days => $3::int)
          + n * interval '1 millisecond' as moment) m
      returning *),
    seqs as (select m.*, s from made m cross join generate_series(1, $4::int) s),
    told as (
      insert into events (todo_id, seq, position, queue, context_id, verb, to_state, attempt, fence, at)
      select id, s, nextval('feed_position'), queue, context_id, case s when 1 then 'send' else 'complete' end,
        'done', 1, 1, finished_at from seqs),
    said as (
      insert into messages (todo_id, seq, message_id, role, message)
      select id, s, 'm' || s, 'user', '{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}'
      from seqs where s = 1),
    made_too as (
      insert into artifacts (todo_id, artifact_id, seq, append, last_chunk, artifact)
      select id, 'a', s, s > 2, false, '{"artifactId":"a","parts":[{"text":"x"}]}' from seqs where s > 1),
    tried as (
      insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at, ended_at, outcome, disposition)
      select id, 1, 1, gen_random_uuid(), finished_at, finished_at, 'completed', 'done' from made),
    kept as (insert into details (todo_id, result) select id, '{}' from made),
    hooked as (
      insert into push_configs (todo_id, config_id, dialect, url, host, secret)
      select id, 'c', '1.0', 'https://h', 'h', 's' from made),
    owed as (
      insert into deliveries (todo_id, config_id, seq, queue, state, settled_at)
      select id, 'c', s, queue, 'dead', finished_at from seqs),
    keyed as (
      insert into idempotency_keys (endpoint_id, queue, source, key, digest, todo_id, seq, expires_at)
      select gen_random_uuid(), queue, 'key', 'k', sha256('x'), id, 1, now() + interval '1 year' from made)
    select id from made order by finished_at`,
    [queue, count, days, events],
  )
  return made.map(({ id }) => id)
}

/** Rows that there still are of these todos, by table; tables without any are left out. */
export const rowsOf = async (sql: Sql, ids: readonly string[]): Promise<Record<string, number>> => {
  const counts: Record<string, number> = {}
  for (const [table, column] of [['todos', 'id'], ...TABLES.map((name) => [name, 'todo_id'])]) {
    const [row] = await sql<{ count: number }>(
      `select count(*)::int as count from ${table} where ${column} = any($1::uuid[])`,
      [ids],
    )
    if (row!.count > 0) counts[table!] = row!.count
  }
  return counts
}

/** Rows whose todo is gone, and which nobody will delete any more. */
export const orphans = async (sql: Sql): Promise<Record<string, number>> => {
  const found: Record<string, number> = {}
  for (const table of TABLES) {
    const [row] = await sql<{ count: number }>(
      `select count(*)::int as count from ${table} x
      where not exists (select from todos t where t.id = x.todo_id)
        and not exists (select from remains r where r.todo_id = x.todo_id)`,
      [],
    )
    if (row!.count > 0) found[table] = row!.count
  }
  return found
}

/** Null is for ever. */
export const keepFor = async (
  { query }: Pick<Store['database'], 'query'>,
  queue: string,
  days: number | null,
): Promise<void> => {
  await query(
    `update queues set policy = (policy::jsonb - 'retentionDays'
      || case when $2::int is null then '{}' else jsonb_build_object('retentionDays', $2::int) end)::json
    where name = $1`,
    [queue, days],
  )
}
