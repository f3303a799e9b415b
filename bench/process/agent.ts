/** A live agent in a process of its own: the agent kit, answering every todo at once. */
import { type Agent, createAgent } from '../../src/index.ts'
import { answerParent } from '../child.ts'

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
  agent = createAgent({ url, token, concurrency }, () => 'Booked; the others know.')
  agent.start()
}

answerParent({ start }, async () => agent?.stop({ graceMs: 1000 }))
