/** Whether an artifact still accepts chunks, and which were left unfinished. Reading them belongs to view.ts. */

import { DISCARDED_MEMBER } from '../../base/chunks.ts'
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

/** Bounds what one call discards. */
const MAX_UNFINISHED = 1000

interface Unfinished {
  artifactId: string
  /** It was dropped under this fence before. */
  discarded: boolean
}

const unfinished = statement<Unfinished>(
  'artifacts_unfinished',
  sql`select n.artifact_id as "artifactId", n.discarded
  from (
    select distinct on (a.artifact_id) a.artifact_id, a.last_chunk, a.seq, e.fence,
      coalesce(a.artifact -> 'metadata' ->> ${$.name}::text = 'true', false) as discarded
    from artifacts a join events e on e.todo_id = a.todo_id and e.seq = a.seq
    where a.todo_id = ${$.id}::uuid
      and (${$.ids}::text[] is null or a.artifact_id = any(${$.ids}::text[]))
    order by a.artifact_id, a.seq desc) n
  where case when n.discarded then n.fence = ${$.fence}::bigint
    else not n.last_chunk and n.fence <> ${$.fence}::bigint end
  order by n.discarded, n.seq limit ${String(MAX_UNFINISHED)}`,
)

/** What claims before this fence left unfinished, and what this one has dropped of it. */
export const readUnfinished = (
  session: Session,
  id: string,
  fence: string,
  artifactIds: readonly string[] | undefined,
): Promise<Unfinished[]> =>
  session.run(unfinished, { id, fence, ids: artifactIds, name: DISCARDED_MEMBER })
