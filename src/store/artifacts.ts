/** Whether an artifact still takes chunks. Reading artifacts belongs to todos.ts. */
import { type Session, statement } from './database.ts'
import { isUuid } from './uuid.ts'

const newest = statement<{ last_chunk: boolean }>(
  'artifact_newest',
  `select last_chunk from artifacts where todo_id = :id::uuid and artifact_id = :artifact_id
  order by seq desc limit 1`,
)

/** `closed` once a chunk said it was the last. An artifact nobody has begun is open. */
export const checkArtifact = async (
  session: Session,
  id: string,
  artifactId: string,
): Promise<{ closed: boolean }> => {
  if (!isUuid(id)) return { closed: false }
  const [row] = await session.run(newest, { id, artifact_id: artifactId })
  return { closed: row?.last_chunk ?? false }
}
