/**
 * An agent in a process of its own, to be killed: claims todos, tells the id of each in a line of
 * JSON, and works on it for ever. SIGTERM stops it as it would stop any agent; told the word
 * `obedient` in its message, the handler then ends, otherwise it never does.
 *
 *   node --import tsx test/support/process/agent-child.ts <url> <token> [concurrency]
 */
import { createAgent } from '../../../src/agent-kit/agent.ts'
import { textOf } from '../../../src/agent-kit/wire.ts'

const [, , url = '', token = '', concurrency = '1'] = process.argv

const agent = createAgent(
  { url, token, claimant: 'mortal', leaseSeconds: 60, concurrency: Number(concurrency) },
  async ({ todo, signal }) => {
    process.stdout.write(`${JSON.stringify({ id: todo.id })}\n`)
    await new Promise((_, reject) => {
      if (textOf(todo.message) !== 'obedient') return
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
  },
)
agent.start()
const alive = setInterval(() => {}, 60_000)

process.once('SIGTERM', () => {
  void agent.stop({ graceMs: 0 }).then(() => clearInterval(alive))
})
