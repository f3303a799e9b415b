/**
 * What attempts of before left unfinished is dropped. A2A has no word for an artifact that is gone, so
 * streams and webhooks are told that it was replaced: a last chunk that does not append, without content,
 * marked in its metadata. From then on the task has it no more.
 */
import { DISCARDED_MEMBER } from '../../base/chunks.ts'
import { type Caller, endpointWith } from '../../domain/endpoint.ts'
import type { Artifact } from '../../domain/todo.ts'
import { readUnfinished } from '../../store/todos/artifacts.ts'
import type { Parts } from '../parts.ts'
import { addArtifact } from './finish.ts'
import type { Held, Holder } from './holder.ts'
import type { Inbox } from './inbox.ts'

interface DiscardParts extends Pick<Parts, 'database'> {
  holder: Holder
  inbox: Inbox
}

/** An artifact has at least one part. */
const inPlaceOf = (artifactId: string): Artifact => ({
  artifactId,
  parts: [{ text: '' }],
  metadata: { [DISCARDED_MEMBER]: true },
})

export const createDiscard =
  ({ database, holder, inbox }: DiscardParts) =>
  async (
    { artifactIds, ...held }: Held & { artifactIds?: string[] },
    caller: Caller,
  ): Promise<string[]> => {
    await inbox.readOwn(held, endpointWith(caller, 'work'))
    return database.transaction(async (session) => {
      const found = await readUnfinished(session, held.id, held.fence, artifactIds)
      for (const { artifactId, discarded } of found) {
        if (discarded) continue
        const chunk = { artifact: inPlaceOf(artifactId), append: false, lastChunk: true }
        await addArtifact(holder, held, caller, chunk, session)
      }
      return found.map(({ artifactId }) => artifactId)
    })
  }
