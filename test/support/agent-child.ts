/**
 * An agent in a process of its own, to be killed: claims one todo, tells its id and fence in a
 * line of JSON, and works on it for ever.
 *
 *   node --import tsx test/support/agent-child.ts <url> <token>
 */
import { createAgent } from '../../src/agent-kit/agent.ts'

const [, , url = '', token = ''] = process.argv

createAgent({ url, token, claimant: 'mortal', leaseSeconds: 60 }, async ({ todo }) => {
  process.stdout.write(`${JSON.stringify({ id: todo.id })}\n`)
  await new Promise(() => {})
}).start()
setInterval(() => {}, 60_000)
