/**
 * An agent in a process of its own, to be killed at any of its steps. Before and after each it
 * writes a line of JSON with the fence it works under; a pipe keeps what a killed process has
 * written. Begins to claim when it is told a line, so that several can be loaded in advance.
 *
 *   node --import tsx test/support/process/steps-child.ts <url> <token>
 */
import { once } from 'node:events'
import { hostname } from 'node:os'
import { createAgent } from '../../../src/agent-kit/agent.ts'
import type { Handler } from '../../../src/agent-kit/attempt.ts'
import { textOf } from '../../../src/agent-kit/wire.ts'
import { taleOf, words } from '../tale.ts'

const [, , url = '', token = ''] = process.argv

const work: Handler = async (ctx) => {
  const { fence, message, history } = ctx.todo
  const { tell, does, threw } = taleOf(ctx)

  tell({ what: 'claimed' })
  ctx.onMessage(({ messageId }) => void tell({ what: 'got', name: messageId }))
  try {
    await does(`say-${fence}`, () => ctx.say(words(`say-${fence}`)))
    const asked = history.findLastIndex(({ messageId }) => messageId.startsWith('ask-'))
    const open = asked < 0 || !history.slice(asked).some(({ role }) => role === 'ROLE_USER')
    if (textOf(message) === 'ask' && open) {
      const name = `ask-${fence}`
      tell({ what: 'tries', name })
      const answer = await ctx.requireInput(words(name))
      tell({ what: 'did', name })
      tell({ what: 'answered', name: answer.messageId })
    }
    const artifactId = `artifact-${fence}`
    const chunk = (append: boolean) =>
      ctx.artifact({ artifactId, append, parts: [{ text: String(append) }] })
    await does(artifactId, () => chunk(false))
    await does(artifactId, () => chunk(true))
    tell({ what: 'tries', name: `end-${fence}` })
    return { message: words(`end-${fence}`), result: { fence } }
  } catch (error) {
    threw(error)
    throw error
  }
}

const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
// Fewer slots than conversations: who waits for an answer keeps its slot, and goes on all the same.
const claimant = `${hostname()}:${process.pid}`
const agent = createAgent({ url, token, claimant, concurrency: 4, leaseSeconds: 60, log }, work)
process.stdout.write('loaded\n')
await once(process.stdin, 'data')
agent.start()
