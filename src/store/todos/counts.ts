/**
 * How many todos there are, without reading them: the kept counts, corrected by the events since these were
 * brought up to date (migration 0012). The result is exact for filters by queue, client and state only; it
 * costs the same however long the history is.
 */

import { type Session, statement } from '../postgres/database.ts'
import { $, sql } from '../postgres/sql.ts'

const countStatement = statement<{ counted: number | null }>(
  'todos_count',
  sql`select count_todos(${$.limit}::int) as counted`,
)

/**
 * Counts up to `limit` sequenced events in. Returns how many, or null where another node is at it.
 */
export const countTodos = async (session: Session, limit: number): Promise<number | null> =>
  (await session.run(countStatement, { limit }))[0]?.counted ?? null
