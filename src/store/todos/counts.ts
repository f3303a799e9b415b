/**
 * How many todos there are, without looking at them: the kept counts, and what events have moved
 * since those were taken (migration 0012). Exact for whoever filters by nothing but queue, client
 * and state; it costs the same however long the history is.
 */
import { type Session, statement } from '../postgres/database.ts'

const countStatement = statement<{ counted: number | null }>(
  'todos_count',
  'select count_todos(:limit::int) as counted',
)

/**
 * Takes up to `limit` placed events into the counts. How many, or null where another node is at it.
 */
export const countTodos = async (session: Session, limit: number): Promise<number | null> =>
  (await session.run(countStatement, { limit }))[0]?.counted ?? null
