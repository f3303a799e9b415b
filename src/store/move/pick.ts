/**
 * The claim primitive: which rows a statement works on, picked and locked. Every `for update` of the
 * project stands here, for todos, webhooks and what a deletion left alike; what must hold of the rows
 * is in conditions.ts. No other file locks a row for work.
 */
import type { Verb } from '../../domain/lifecycle.ts'
import { $, type Sql, type SqlPart, sql } from '../postgres/sql.ts'
import {
  allows,
  allowsNamed,
  FREE_AT,
  JOIN_HOLDS,
  LIVE,
  UNCLAIMED_FRONT,
  WEBHOOK_FREE,
} from './conditions.ts'
import { UPWARDS } from './kin/family.ts'
import { hasRoom, verbSql } from './verbs.ts'

/** Rows that failed before are left alone. */
const NOT_EXCEPTED = sql`<> all(coalesce(${$.except}::uuid[], '{}'))`

/* ------------------------------------------------------- todos that are named */

/** That todo, if `verb` may move it. Waits for its lock. */
export const one = (verb: Verb): Sql =>
  sql`from todos t where t.id = ${$.id}::uuid and ${allowsNamed(verb)} and ${hasRoom(verb)}
  for update of t`

/**
 * The todos of `batch`, each if `verb` may move it, in the batch's order: two such statements never
 * wait for each other. Each is looked up by itself, so that no plan begins at the other end.
 */
export const several = (verb: Verb): Sql => sql`from batch b cross join lateral (
    select t.* from todos t where t.id = ${$.id} and ${allowsNamed(verb)} and ${hasRoom(verb)}
    limit 1 for update of t) as t`

/** A todo and all above it, whose budgets it shares: in the order of their ids, as batches lock. */
export const FAMILY_LINE = sql`from todos t where t.id = any(array(${UPWARDS}))
  order by t.id for update of t`

/* --------------------------------------------------------- todos that are due */

const isDue = (verb: Verb): Sql => {
  const { among } = verbSql(verb).sweep ?? {}
  return sql`where ${among ? sql`${among} and ` : ''}${allows(verb)} and t.id ${NOT_EXCEPTED}`
}

const inOrder = (verb: Verb): string => {
  const { order } = verbSql(verb).sweep ?? {}
  return order ? `order by ${order} ` : ''
}

/** Up to `limit` todos for which a verb is due, skipping those being worked on. */
export const due = (verb: Verb): Sql => sql`from todos t ${isDue(verb)}
  ${inOrder(verb)}limit ${$.limit}::int for update of t skip locked`

/** The ids of the same rows, without touching them. */
export const dueIds = (verb: Verb): Sql => sql`select t.id from todos t ${isDue(verb)}
  ${inOrder(verb)}limit ${$.limit}::int`

/** Parents whose children are done, and who were not told. */
export const STALLED_JOINS = sql`select t.id from todos t
  where t.join_until is not null and (${JOIN_HOLDS})
    and t.id ${NOT_EXCEPTED} limit ${$.limit}::int`

/* --------------------------------------------------------------------- claims */

/** The most todos that one claim takes. */
export const MAX_CLAIM = 100

const LEVELS = '(values (0::smallint), (1::smallint), (2::smallint)) as level(priority)'

const claimable = (columns: string, only: SqlPart = ''): Sql => sql`select ${columns} from todos t
      where t.queue = wanted.queue and t.priority = level.priority and ${allows('claim')}${only}
      order by ${FREE_AT}, t.id`

/**
 * Up to `limit` todos of `queues`, queue by queue as they are named, each in (priority, due time, id)
 * order. One probe of todos_claim per queue and priority, made only as long as rows are wanted: the
 * scan stops at the first row that is not due. The inner limit only tells the planner how few there
 * may be; rows are locked as they are pulled, so no more than `limit` are. `only` passes over others.
 */
export const nextClaimable = (only: SqlPart = ''): Sql => sql`
  from unnest(${$.queues}::text[]) with ordinality as wanted(queue, position)
    cross join ${LEVELS}
    cross join lateral (
      ${claimable('t.*', only)}
      limit ${MAX_CLAIM} for update of t skip locked) as t
  where exists (select from endpoints e where e.id = ${$.endpoint}::uuid and ${LIVE})
  limit ${$.limit}::int`

/**
 * Todos that may use all that the claimant has, by their effects. The index knows nothing of it, so what
 * is passed over is read.
 */
export const MAY_USE = sql`
        and (t.effects is null or t.effects @> ${$.effects}::text[])`

/** Queues among `queues` with something to claim, and how much of it, up to `limit` each. */
export const CLAIMABLE_COUNTS = sql`
  select wanted.queue, count(t.id)::int as count
  from unnest(${$.queues}::text[]) as wanted(queue)
    cross join ${LEVELS}
    cross join lateral (
      ${claimable('t.id')}
      limit ${$.limit}::int) as t
  group by wanted.queue`

/* -------------------------------------------------------------- conversations */

/** Who comes to the front of the line `f`: an answer before newcomers, each in their order. */
export const NEXT_OF_LINE = `
    select w.id, w.state, greatest(clock_timestamp(), w.updated_at) as at
    from todos w where w.line = f.line and not w.front
      and (w.state = 'pending' or w.answered_at is not null)
    order by w.answered_at, w.lined_at limit 1 for update of w`

/** Whoever is next in this line, if it is free. */
export const nextInLine = (verb: Verb): Sql => sql`from todos t
  where t.line = ${$.line}::uuid and not t.front and ${allows(verb)} limit 1 for update of t`

export const ANSWER_WAITS = `exists (select from todos w
    where w.line = t.line and not w.front and w.answered_at is not null)`

/** The front of this line; with ANSWER_WAITS, only where an answer waits behind it. */
export const frontOf = (verb: Verb, where = 'true'): Sql => sql`from todos t
  where t.line = ${$.line}::uuid and t.front and ${where} and ${allows(verb)} for update of t`

/**
 * Lines where somebody waits although the front is free: a hand-over that was missed. Also where
 * an answer waits behind a front that was claimed when it came, and is not any more.
 */
export const STALLED_LINES = sql`select distinct w.line from todos w
  where w.line is not null and not w.front and (w.state = 'pending' or w.answered_at is not null)
    and not exists (select from todos t where t.line = w.line and t.front
      and not (w.answered_at is not null and t.state = 'pending' and ${UNCLAIMED_FRONT}))
    and w.line ${NOT_EXCEPTED}
  limit ${$.limit}::int`

/* ------------------------------------------------------------------- webhooks */

const DUE_WEBHOOK = `c.due_at <= now() and ${WEBHOOK_FREE}`

/** Rows of older versions have the port as well. */
export const hostOf = (c: string): string => `regexp_replace(${c}.host, ':[0-9]+$', '')`
export const endpointOf = (c: string): string => `coalesce(${c}.endpoint_id::text, '')`

/** How many are under way by these two lists, for what `w` says. */
const underWay = (keys: SqlPart, counts: SqlPart, of: string): Sql =>
  sql`coalesce((select b.count from unnest(${keys}::text[], ${counts}::int[]) as b(key, count)
      where b.key = ${of}), 0)`

/**
 * Webhooks whose first delivery is due: at most `limit`, and of each host and of each endpoint no more
 * than it has room for beside those under way. Those of `full` hosts and of `crowded` endpoints are
 * passed over, so that they do not stand before the others. Probes push_configs_due.
 */
export const DUE_WEBHOOKS = sql`
  from (select l.*, row_number() over (partition by l.host order by l.due_at) as rank,
      row_number() over (partition by l.endpoint order by l.due_at) as turn from (
      select c.todo_id, c.config_id, ${hostOf('c')} as host, ${endpointOf('c')} as endpoint, c.due_at
      from push_configs c
      where ${DUE_WEBHOOK} and ${hostOf('c')} <> all(${$.full}::text[])
        and ${endpointOf('c')} <> all(${$.crowded}::text[])
        and ${hostOf('c')} || ' ' || ${endpointOf('c')} <> all(${$.crowded_pairs}::text[])
      order by c.due_at limit 4 * ${$.limit}::int) l) w
    join push_configs c on c.todo_id = w.todo_id and c.config_id = w.config_id
  where ${DUE_WEBHOOK} and w.rank <= ${$.per_host}::int - ${underWay($.hosts, $.counts, 'w.host')}
    and w.turn <= ${$.share}::int - ${underWay($.endpoints, $.endpoint_counts, 'w.endpoint')}
  limit ${$.limit}::int for update of c skip locked`

/* ------------------------------------------------------------------ schedules */

const TICKS = 'not s.paused and s.next_at <= now()'

/** Schedules with a tick that is due, the longest due first. */
export const DUE_SCHEDULES = sql`select s.id from schedules s
  where ${TICKS} and s.id ${NOT_EXCEPTED} order by s.next_at limit ${$.limit}::int`

/** One of them, locked; not where another node is at it. */
export const DUE_SCHEDULE = sql`from schedules s
  where s.id = ${$.id}::uuid and ${TICKS} for update skip locked`

/* ------------------------------------------------------------------ deletions */

/**
 * Those of the ended todos of `batch` that nobody needs any more, locked. Not yet: one whose live
 * parent may still ask for it, the retry of one that is still there (it would be retried again), a
 * canceled one whose cascade was cut short, one that webhooks are owed, one with an event that the
 * feed has not told.
 */
export const FORGETTABLE = `
  from batch b join todos t on t.id = b.id and t.push_version = b.push_version
  where t.finished_at is not null
    and (t.parent_id is null or not exists (select from todos p
      where p.id = t.parent_id and p.finished_at is null))
    and (t.retry_of is null or not exists (select from todos d where d.id = t.retry_of))
    and (t.state <> 'canceled' or not exists (select from todos c
      where c.parent_id = t.id and c.finished_at is null))
    and (t.push_version = 0 or not exists (select from push_configs c
      where c.todo_id = t.id and c.owed > 0))
    and (select count(*) filter (where e.position is null) from events e where e.todo_id = t.id) = 0
  for update of t skip locked`

/** What is left of one deleted todo, locked; not where a new todo of its id has come so far. */
export const REMAINS = `
  from remains r where not exists (select from todos t
    where t.id = r.todo_id and t.seq >= r.from_seq)
  order by r.id limit 1 for update of r skip locked`
