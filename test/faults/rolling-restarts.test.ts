/**
 * Nodes behind one address are restarted one after the other, as a deployment does it, while agents,
 * SDK clients and the command line are at work. What a retry by the rules of HTTP mends is tried
 * again here; nothing else may fail.
 * Field case: a rolling restart under load.
 */
import { once } from 'node:events'
import net from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { createAgent } from '../../src/agent-kit/agent.ts'
import type { AgentLog } from '../../src/agent-kit/log.ts'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { a2aClient } from '../support/clients/actors.ts'
import { connectRpc, request, taskOf } from '../support/clients/sdk.ts'
import { openLink } from '../support/network/link.ts'
import { serveProcessWith } from '../support/process/serve-process.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const RESTARTS = Number(process.env.ROLLING_RESTARTS ?? 200)
const NODES = 4
/** How long the balancer goes on sending connections to a node that has been told to end. */
const NOTICE_MS = 300
/** A retry comes to another node, or to one more that is on its way out. */
const RETRIES = 4

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })

/** Where the balancer leads new connections. */
const ports = new Set<number>()
let turn = 0
const front = await openLink(() => {
  turn += 1
  const all = [...ports]
  const port = all[turn % all.length]
  return port === undefined ? null : net.connect(port, '127.0.0.1')
})
afterAll(() => front.close())
const url = `http://127.0.0.1:${front.port}`

const startNode = async () => {
  const node = await serveProcessWith(
    { SWITCHBOARD_PUBLIC_URL: url },
    app.databaseUrl,
    '--linger-seconds',
    '1',
  )
  const port = Number(new URL(node.url).port)
  ports.add(port)
  return {
    end: async () => {
      const exit = once(node.child, 'exit')
      node.child.kill('SIGTERM')
      await pause(NOTICE_MS)
      ports.delete(port)
      expect(await exit).toEqual([0, null])
    },
  }
}

/** What failed for good, in words. */
const failures: string[] = []
let retried = 0

/** By the rules of HTTP: a broken connection or 503, where the call says that it may be repeated. */
const mayRetry = (error: unknown): boolean =>
  /fetch failed|terminated|other side closed|ECONNRE|socket hang up|\b503\b|not available/i.test(
    `${error} ${(error as { cause?: unknown }).cause} ${JSON.stringify(error)}`,
  )

const retrying = async <T>(what: string, call: () => Promise<T>): Promise<T | null> => {
  for (let tries = 0; ; tries += 1) {
    try {
      return await call()
    } catch (error) {
      if (tries < RETRIES && mayRetry(error)) {
        retried += 1
        await pause(100 * tries)
        continue
      }
      failures.push(`${what}: ${error} ${(error as { cause?: unknown }).cause ?? ''}`)
      return null
    }
  }
}

const heard = (facts: object, text: string): void => {
  // The agent itself claims again.
  if (text !== 'could not claim') failures.push(`agent: ${text} ${JSON.stringify(facts)}`)
}
const log: AgentLog = { debug: () => {}, info: () => {}, warn: heard, error: heard }

test(`${RESTARTS} restarts, and no call fails that a retry would not have mended`, {
  timeout: scaled(900_000),
}, async () => {
  const nodes = await Promise.all(Array.from({ length: NODES }, startNode))
  let over = false
  const handled = new Map<string, number>()
  const agents = Array.from({ length: 2 }, (_, n) =>
    createAgent(
      { url, token: agent.token, claimant: `agent ${n}`, concurrency: 3, log },
      async (ctx) => {
        handled.set(ctx.todo.id, (handled.get(ctx.todo.id) ?? 0) + 1)
        await ctx.progress('begun')
        await ctx.say('half way')
        await pause(20)
        await ctx.artifact({ parts: [{ text: 'made' }] })
        return 'done'
      },
    ),
  )
  for (const each of agents) each.start()

  const sent: string[] = []
  const sdk = async (n: number): Promise<void> => {
    const a2a = await retrying('card', () => connectRpc(client.token, `${url}/a2a/desk/`))
    if (!a2a) return
    for (let i = 0; !over; i += 1) {
      // The message's id makes a repetition the same send.
      const send = request(`from ${n}`, { messageId: `${n}-${i}` }, i % 2 === 0)
      const result = await retrying('send', () => a2a.sendMessage(send))
      if (result === null) continue
      const { id } = taskOf(result)
      sent.push(id)
      await retrying('get', () => a2a.getTask({ tenant: '', id, historyLength: 0 }))
    }
  }
  const cli = async (): Promise<void> => {
    while (!over) {
      await retrying('switchboard', async () => {
        const { code, stderr } = await runCli(['list', '--url', url, '--limit', '1'], {
          env: { SWITCHBOARD_ADMIN_TOKEN: ADMIN_TOKEN },
        })
        if (code !== 0) throw new Error(stderr)
      })
      await pause(500)
    }
  }
  const load = [sdk(0), sdk(1), sdk(2), cli()]

  // Two at a time, of four: there are always others.
  let left = RESTARTS
  const restart = async (from: number): Promise<void> => {
    for (let at = from; left > 0; at = (at + 2) % NODES) {
      left -= 1
      await nodes[at]!.end()
      nodes[at] = await startNode()
    }
  }
  await Promise.all([restart(0), restart(1)])
  over = true
  await Promise.all(load)
  expect(sent.length).toBeGreaterThan(RESTARTS)

  // Everything that was accepted is done, once, by one attempt.
  const side = a2aClient(app.url, 'desk', client.token)
  for (const id of sent) {
    await until(async () => (await side.get(id)).status.state === 'TASK_STATE_COMPLETED')
  }
  await Promise.all(agents.map((each) => each.stop()))
  await Promise.all(nodes.map((node) => node.end()))
  expect(failures).toEqual([])
  expect(new Set(sent).size).toBe(sent.length)
  const outcomes = await app.sql<{ outcome: string }>(
    `select distinct outcome from attempts where outcome not in ('completed', 'released')`,
  )
  expect(outcomes).toEqual([])
  process.stdout.write(`${sent.length} tasks, ${retried} calls were repeated\n`)
})
