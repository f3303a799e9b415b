/** Parents and children: which todo belongs to which, and which waits for which. */

import { isUuid } from '../../base/uuid.ts'
import { READ_BYTES } from '../../domain/budget.ts'
import type { Amounts } from '../../domain/spend.ts'
import type { Child } from '../../domain/todo.ts'
import { type Session, statement } from '../postgres/database.ts'
import { columnsOf, readOne } from '../postgres/rows.ts'
import { $, type Sql, type SqlPart, sql } from '../postgres/sql.ts'
import type { Due } from './move.ts'
import { FAMILY_LINE, STALLED_JOINS } from './pick.ts'

/** A parent may go on forking for ever, so its claim carries this many children at most. */
const CHILDREN_CARRIED = 1000

const CHILD = columnsOf<Child>()(['id queue state result'], {
  retrying: (c) => `${c}.next_retry_at is not null`,
  resultBytes: (c) => `case when ${c}.result is null then ${c}.bytes end`,
})

/** Children with their results, as far as these fit; of one that does not, its size is told. */
const withResults = (children: SqlPart): Sql => sql`(
  select c.*, case when c.upto <= ${READ_BYTES} then d.result end as result from (
    select c.*, d.bytes, sum(d.bytes::float8) over (order by c.lined_at, c.id) as upto
    from (${children}) c left join lateral (
      select coalesce(d.bytes, octet_length(d.result::text)) as bytes from details d
      where d.todo_id = c.id) d on true) c
  left join details d on d.todo_id = c.id)`

/** A parent's newest children in the order they were made, as JSON. */
export const childrenOf = (todo: string): Sql => sql`(
  select json_agg(${CHILD.json('c')} order by c.lined_at)
  from ${withResults(`select * from todos c where c.parent_id = ${todo}.id
    order by c.lined_at desc limit ${CHILDREN_CARRIED}`)} c)`

const childrenStatement = statement<Child>(
  'children_read',
  sql`select ${CHILD.select('c')} from ${withResults(sql`select * from todos c
    where c.parent_id = ${$.id}::uuid order by c.lined_at limit ${$.limit}::int`)} c
  order by c.lined_at`,
)

/** In the order they were made. */
export const readChildren = (session: Session, id: string, limit: number): Promise<Child[]> =>
  session.run(childrenStatement, { id, limit })

const childStatement = statement<Child>(
  'child_read',
  sql`select ${CHILD.select('c')} from (select c.*, null::int as bytes,
    (select d.result from details d where d.todo_id = c.id) as result
    from todos c where c.id = ${$.id}::uuid and c.parent_id = ${$.parent_id}::uuid) c`,
)

/** One child of this parent, with its result whatever its size; null where it is none. */
export const readChild = async (
  session: Session,
  parentId: string,
  id: string,
): Promise<Child | null> =>
  isUuid(id) ? readOne(session, childStatement, { id, parent_id: parentId }) : null

const strangersStatement = statement<{ id: string }>(
  'children_not',
  sql`select w.id from unnest(${$.ids}::uuid[]) as w(id)
  where not exists (select from todos c where c.id = w.id and c.parent_id = ${$.id}::uuid) limit 1`,
)

/** One of `ids` that is not a child of this parent; null when all of them are. */
export const readStranger = async (
  session: Session,
  id: string,
  ids: readonly string[],
): Promise<string | null> => {
  const other = ids.find((child) => !isUuid(child))
  if (other !== undefined) return other
  return (await readOne(session, strangersStatement, { id, ids }))?.id ?? null
}

/** One of a family line: what it may spend, and what has been spent. */
export interface Spender {
  id: string
  budget: Amounts | null
  spent: Amounts | null
  keys: string[] | null
}

const lineStatement = statement<Spender>(
  'spenders_lock',
  sql`select t.id, t.budget, t.spent, t.spend_keys as keys ${FAMILY_LINE}`,
)

/** A todo and all above it, locked, in the order of their ids. */
export const lockSpenders = (session: Session, id: string): Promise<Spender[]> =>
  session.run(lineStatement, { id })

const countStatement = statement<{ count: number }>(
  'children_live_count',
  sql`select count(*)::int as count from todos c
  where c.parent_id = ${$.id}::uuid and c.finished_at is null`,
)

export const countLiveChildren = async (session: Session, id: string): Promise<number> =>
  (await session.run(countStatement, { id }))[0]?.count ?? 0

const cutShortStatement = statement<{ id: string }>(
  'cascades_cut_short',
  sql`select distinct p.id from todos c join todos p on p.id = c.parent_id
  where c.parent_id is not null and c.finished_at is null and p.state = 'canceled'
    and p.id <> all(coalesce(${$.except}::uuid[], '{}'))
  limit ${$.limit}::int`,
)

/** Canceled parents that still have live children, because a cascade was cut short. */
export const readCutShort = async (session: Session, { limit, except }: Due): Promise<string[]> =>
  (await session.run(cutShortStatement, { limit, except })).map(({ id }) => id)

const leftStatement = statement<{ id: string }>(
  'children_left_by_joins',
  // From the parents of live children: no index knows which joins have timed out.
  sql`select c.id from (
      select distinct l.parent_id as id from todos l where l.parent_id is not null and l.finished_at is null
        and (${$.parents}::uuid[] is null or l.parent_id = any(${$.parents}::uuid[]))) l
    cross join lateral (select p.id, p.join_ids from todos p where p.id = l.id
      and p.join_cancels and p.join_until is null and p.join_timeout_at is not null offset 0) p
    join todos c on c.parent_id = p.id and c.finished_at is null and c.id = any(p.join_ids)
  where c.parent_id is not null
    and c.id <> all(coalesce(${$.except}::uuid[], '{}'))
  limit ${$.limit}::int`,
)

/** Children that live although the join for them has timed out and was to cancel them then. */
export const readLeftByJoins = async (
  session: Session,
  { limit, except }: Due,
  parents: readonly string[] | null,
): Promise<string[]> =>
  (await session.run(leftStatement, { limit, except, parents })).map(({ id }) => id)

const joinedStatement = statement<Omit<Child, 'result' | 'resultBytes'>>(
  'children_joined',
  sql`select c.id, c.queue, c.state, c.next_retry_at is not null as retrying
  from todos t join todos c on c.id = any(t.join_ids)
  where t.id = ${$.id}::uuid order by c.lined_at, c.id`,
)

/** The children that a parent waits for, in the order they were made, without their results. */
export const readJoined = (
  session: Session,
  id: string,
): Promise<Omit<Child, 'result' | 'resultBytes'>[]> => session.run(joinedStatement, { id })

const joinsStatement = statement<{ id: string }>('joins_stalled', STALLED_JOINS)

/** Parents whose join holds and who have not been told. */
export const readStalledJoins = async (
  session: Session,
  { limit, except }: Due,
): Promise<string[]> => (await session.run(joinsStatement, { limit, except })).map(({ id }) => id)
