/**
 * The smallest agent: answers every task with its own text.
 *
 * Run it (the token is that of an endpoint with the verb "work"):
 *   SWITCHBOARD_TOKEN=... npx tsx examples/echo-agent.ts
 */
import { createAgent, textOf } from '../src/index.ts'

const agent = createAgent(
  {
    url: process.env.SWITCHBOARD_URL ?? 'http://127.0.0.1:4100',
    token: process.env.SWITCHBOARD_TOKEN ?? '',
  },
  (ctx) => textOf(ctx.todo.message),
)

agent.start()
process.stdout.write('echo agent is ready\n')

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void agent.stop())
}
