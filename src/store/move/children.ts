/** Parents and children: who belongs to whom, and who waits for whom. */

import { isUuid } from '../../base/uuid.ts'
import type { Child } from '../../domain/todo.ts'
import { type Session, type Statement, statement } from '../postgres/database.ts'
import type { Due } from './move.ts'
import { STALLED_JOINS } from './pick.ts'

/** A parent may go on forking for ever: its claim carries this many children at most. */
const CHILDREN_CARRIED = 1000

/** A parent's newest children in order, as JSON. */
export const childrenOf = (todo: string): string => `(select json_agg(json_build_object(
    'id', c.id, 'queue', c.queue, 'state', c.state, 'retrying', c.next_retry_at is not null,
    'result', (select d.result from details d where d.todo_id = c.id)) order by c.lined_at)
  from (select * from todos c where c.parent_id = ${todo}.id
    order by c.lined_at desc limit ${CHILDREN_CARRIED}) c)`

interface ChildRow {
  id: string
  queue: string
  state: Child['state']
  next_retry_at: Date | null
  result: Child['result']
}

const childrenStatement: Statement<ChildRow> = statement(
  'children_read',
  `select c.id, c.queue, c.state, c.next_retry_at,
    (select d.result from details d where d.todo_id = c.id) as result
  from todos c where c.parent_id = :id::uuid order by c.lined_at limit :limit::int`,
)

/** In the order in which they were made. */
export const readChildren = async (session: Session, id: string, limit: number): Promise<Child[]> =>
  (await session.run(childrenStatement, { id, limit })).map((row) => ({
    id: row.id,
    queue: row.queue,
    state: row.state,
    retrying: row.next_retry_at !== null,
    result: row.result,
  }))

const strangersStatement: Statement<{ id: string }> = statement(
  'children_not',
  `select w.id from unnest(:ids::uuid[]) as w(id)
  where not exists (select from todos c where c.id = w.id and c.parent_id = :id::uuid) limit 1`,
)

/** One of `ids` that is no child of this parent; null when all of them are. */
export const readStranger = async (
  session: Session,
  id: string,
  ids: readonly string[],
): Promise<string | null> => {
  const other = ids.find((child) => !isUuid(child))
  if (other !== undefined) return other
  const [stranger] = await session.run(strangersStatement, { id, ids })
  return stranger?.id ?? null
}

const countStatement = statement<{ count: number }>(
  'children_live_count',
  `select count(*)::int as count from todos c
  where c.parent_id = :id::uuid and c.finished_at is null`,
)

export const countLiveChildren = async (session: Session, id: string): Promise<number> =>
  (await session.run(countStatement, { id }))[0]?.count ?? 0

const cutShortStatement: Statement<{ id: string }> = statement(
  'cascades_cut_short',
  `select distinct p.id from todos c join todos p on p.id = c.parent_id
  where c.parent_id is not null and c.finished_at is null and p.state = 'canceled'
    and p.id <> all(coalesce(:except::uuid[], '{}'))
  limit :limit::int`,
)

/** Canceled parents that have live children: a cascade that was cut short. */
export const readCutShort = async (session: Session, { limit, except }: Due): Promise<string[]> =>
  (await session.run(cutShortStatement, { limit, except })).map(({ id }) => id)

const joinsStatement: Statement<{ id: string }> = statement('joins_stalled', STALLED_JOINS)

/** Parents whose join holds, and who were not told. */
export const readStalledJoins = async (
  session: Session,
  { limit, except }: Due,
): Promise<string[]> => (await session.run(joinsStatement, { limit, except })).map(({ id }) => id)
