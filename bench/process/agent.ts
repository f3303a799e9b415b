/**
 * A live agent in a process of its own: the agent kit, answering every todo at once, or after as
 * many chunks of an artifact as its message asks for.
 */
import { type Agent, createAgent } from '../../src/index.ts'
import { answerParent } from '../child.ts'
import { CHUNK, chunksAskedFor } from './chunks.ts'

let agent: Agent | null = null

const start = ({
  url,
  token,
  concurrency,
}: {
  url: string
  token: string
  concurrency: number
}) => {
  agent = createAgent({ url, token, concurrency }, async ({ todo, artifact }) => {
    const artifactId = 'text'
    const parts = [{ text: CHUNK }]
    const count = chunksAskedFor(JSON.stringify(todo.message))
    for (let sent = 0; sent < count; sent += 1) {
      await artifact({ artifactId, parts, append: sent > 0, lastChunk: sent === count - 1 })
    }
    return 'Booked; the others know.'
  })
  agent.start()
}

answerParent({ start }, async () => agent?.stop({ graceMs: 1000 }))
