/**
 * Deleting what ended long ago, with all that hangs on it. A statement deletes a bounded number of
 * rows and is a transaction of its own, so nobody waits behind it for long. A todo goes at once and
 * for good; only what a large one has beyond the bound stays for later statements, where nobody
 * finds it without its todo.
 */

import { FORGETTABLE, REMAINS } from '../move/pick.ts'
import { type Session, type Statement, statement } from '../postgres/database.ts'
import { $, type Sql, type SqlPart, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'

/** Todos looked at by one statement, and events of them that it deletes, about. */
export const BATCH = { todos: 500, events: 5000 } as const

/** Where a walk through the ended todos of a queue stands. */
export interface Position {
  at: Date
  id: string
}

/** Rows with a `seq`: as many of them as a todo has events, at most. */
const BY_SEQ = ['messages', 'artifacts', 'deliveries', 'idempotency_keys'] as const
/** Few for each todo. */
const WHOLE = ['attempts', 'details', 'push_configs'] as const

/**
 * Deletes the rows of `:where` (over `x`) from every table that is kept by seq, and notes how far
 * the feed has lost events.
 */
const deleting = (where: string, queue: SqlPart): Sql => sql`
  ${BY_SEQ.map((table) => `${table}_gone as (delete from ${table} x where ${where})`).join(',\n  ')},
  events_gone as (delete from events x where ${where} returning x.position),
  horizon as (
    insert into feed_horizons as h (queue, position)
    select ${queue}, max(g.position) from events_gone g having max(g.position) is not null
    on conflict (queue) do update set position = greatest(h.position, excluded.position))`

const OF_FREE = 'x.todo_id = any((select ids from free_ids)::uuid[])'

interface ForgetRow {
  deleted: number
  all_of_them: boolean
  last_at: Date | null
  last_id: string | null
}

/**
 * The policy is read here and not from a copy, so that a retention unset a moment ago deletes
 * nothing. Limits are literals: planned for a parameter, this would read whole tables.
 */
const forgetText = (todos: number): Sql => sql`with due as materialized (
    select now() - make_interval(days => (q.policy->>'retentionDays')::int) as before
    from queues q where q.name = ${$.queue} and (q.policy->>'retentionDays')::int > 0),
  looked as materialized (
    select t.* from due cross join lateral (
      select t.id, t.seq, t.finished_at, t.push_version from todos t
      where t.queue = ${$.queue} and t.finished_at is not null and t.finished_at < due.before
        and (t.finished_at, t.id) > (${$.after_at}::timestamptz, ${$.after_id}::uuid)
      order by t.finished_at, t.id limit ${todos}) t),
  batch as materialized (
    select l.* from (
      select l.*, sum(l.seq) over (order by l.finished_at, l.id) - l.seq as before
      from looked l) l
    where l.before < ${BATCH.events}),
  free as materialized (select t.id, t.queue, t.seq ${FORGETTABLE}),
  free_ids as materialized (select array_agg(f.id) as ids from free f),
  gone as (
    delete from todos t where t.id = any((select ids from free_ids)::uuid[]) returning t.id),
  ${WHOLE.map((table) => `${table}_gone as (delete from ${table} x where ${OF_FREE})`).join(',\n  ')},
  ${deleting(`${OF_FREE} and x.seq <= ${BATCH.events}`, sql`${$.queue}::text`)},
  rest as (
    insert into remains (todo_id, queue, from_seq, through_seq)
    select f.id, f.queue, ${BATCH.events} + 1, f.seq from free f where f.seq > ${BATCH.events})
  select (select count(*) from gone)::int as deleted,
    (select count(*) from batch) = (select count(*) from looked)
      and (select count(*) from looked) < ${todos} as all_of_them,
    l.finished_at as last_at, l.id as last_id
  from (select true) one left join lateral (
    select b.finished_at, b.id from batch b order by b.finished_at desc, b.id desc limit 1) l on true`

const forgetMany: Statement<ForgetRow> = plannedEachTime('todos_forget', forgetText(BATCH.todos))
const forgetOne: Statement<ForgetRow> = plannedEachTime('todos_forget_one', forgetText(1))

const START = { at: '-infinity', id: '00000000-0000-0000-0000-000000000000' } as const

/**
 * Deletes ended todos of a queue that are past its retention, from a place on; how many, and from
 * where to go on: null where all have been looked at. `one` looks at the next todo only.
 */
export const forgetTodos = async (
  session: Session,
  queue: string,
  from: Position | null,
  one = false,
): Promise<{ deleted: number; next: Position | null }> => {
  const { at, id } = from ?? START
  const values = { queue, after_at: at, after_id: id }
  const [row] = await session.run(one ? forgetOne : forgetMany, values)
  if (!row?.last_at || !row.last_id) return { deleted: 0, next: null }
  const next = row.all_of_them ? null : { at: row.last_at, id: row.last_id }
  return { deleted: row.deleted, next }
}

const nextStatement = plannedEachTime<Position>(
  'todos_forget_next',
  sql`select t.finished_at as at, t.id from todos t
  where t.queue = ${$.queue} and t.finished_at is not null
    and (t.finished_at, t.id) > (${$.after_at}::timestamptz, ${$.after_id}::uuid)
  order by t.finished_at, t.id limit 1`,
)

/** The todo at which {@link forgetTodos} looks next. */
export const readNextEnded = async (
  session: Session,
  queue: string,
  from: Position | null,
): Promise<Position | null> => {
  const { at, id } = from ?? START
  return (await session.run(nextStatement, { queue, after_at: at, after_id: id }))[0] ?? null
}

const OF_ONE = `x.todo_id = (select o.todo_id from one o)
    and x.seq between (select o.from_seq from one o) and (select o.until from one o)`

const clearStatement = plannedEachTime<{ found: boolean }>(
  'todos_clear',
  sql`with one as materialized (
    select r.id, r.todo_id, r.queue, r.from_seq, r.through_seq,
      r.from_seq + ${BATCH.events} - 1 as until ${REMAINS}),
  ${deleting(OF_ONE, '(select o.queue from one o)')},
  shorter as (
    update remains r set from_seq = o.until + 1 from one o
    where r.id = o.id and o.until < o.through_seq),
  done as (delete from remains r using one o where r.id = o.id and o.until >= o.through_seq)
  select exists (select from one) as found`,
)

const remainsStatement = statement<{ there: boolean }>(
  'remains_there',
  'select exists (select from remains) as there',
)

/** Hardly ever anything: asked first, so that the tables of all todos are let be. */
export const hasRemains = async (session: Session): Promise<boolean> =>
  (await session.run(remainsStatement, {}))[0]?.there ?? false

/** Deletes the next rows of what is left of a large todo; false where nothing is left. */
export const clearRemains = async (session: Session): Promise<boolean> =>
  (await session.run(clearStatement, {}))[0]?.found ?? false
