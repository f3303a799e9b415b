/** Whether an artifact still accepts chunks. Reading artifacts belongs to view.ts. */

import { type Session, statement } from '../postgres/database.ts'
import { $, sql } from '../postgres/sql.ts'

const before = statement<{ last_chunk: boolean }>(
  'artifact_before',
  sql`select last_chunk from artifacts
  where todo_id = ${$.id}::uuid and artifact_id = ${$.artifact_id} and seq < ${$.seq}::int
  order by seq desc limit 1`,
)

/** True when the chunk before this seq was the last. An artifact that nobody has begun is open. */
export const isClosedBefore = async (
  session: Session,
  id: string,
  artifactId: string,
  seq: number,
): Promise<boolean> => {
  const [row] = await session.run(before, { id, artifact_id: artifactId, seq })
  return row?.last_chunk ?? false
}
