/**
 * The server under test, in a process of its own, as `createSwitchboard` makes it. Asked for its
 * CPU time by the case that measures it.
 */
import { createSwitchboard } from '../../src/app.ts'
import { createLog } from '../../src/base/log.ts'
import type { Caller, EndpointVerb } from '../../src/domain/scope.ts'
import type { Services } from '../../src/protocol/method.ts'
import { answerParent } from '../child.ts'
import { newMessage, QUEUE } from '../statements.ts'
import { percentile } from '../stats.ts'

export interface Started {
  url: string
  /** Of the one agent, for JSON-RPC. */
  agentUrl: string
  adminToken: string
  clientToken: string
  agentToken: string
}

let stop = async (): Promise<void> => {}

const start = async ({ databaseUrl }: { databaseUrl: string }): Promise<Started> => {
  const adminToken = 'admin-token-of-the-benchmark'
  const app = createSwitchboard({
    databaseUrl,
    log: createLog('silent'),
    config: {
      databaseUrl,
      directUrl: null,
      natsUrl: null,
      dataDir: '/nonexistent',
      host: '127.0.0.1',
      port: 0,
      publicUrl: null,
      card: 'hybrid',
      cardKeys: [],
      adminToken,
      metricsToken: null,
      webhookAllowHttp: false,
      webhookAllow: [],
      logLevel: 'silent',
    },
  })
  stop = app.stop
  const { url } = await app.start()
  const { operator } = app.services
  await operator.putQueue({ name: QUEUE })
  const vend = async (verb: EndpointVerb): Promise<string> =>
    (await operator.vend({ name: verb, queues: [QUEUE], verbs: [verb] })).token
  services = app.services
  return {
    url,
    agentUrl: `${url}/a2a/${QUEUE}/`,
    adminToken,
    clientToken: await vend('send'),
    agentToken: await vend('work'),
  }
}

let services: Services | null = null

/** From the call that sends a task to the start of its work, in one process, with nothing else to do. */
const latency = async ({ rounds }: { rounds: number }) => {
  const { client, agent, operator } = services!
  const caller = async (verb: EndpointVerb): Promise<Caller> => {
    const { endpoint } = await operator.vend({ name: verb, queues: [QUEUE], verbs: [verb] })
    return { kind: 'endpoint', endpoint }
  }
  const [sender, worker] = [await caller('send'), await caller('work')]
  const times: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const claim = { limit: 1, waitMs: 10_000 }
    const claimed = agent.claim(claim, worker, new AbortController().signal)
    // It waits by then.
    await new Promise((resolve) => setTimeout(resolve, 20))
    const at = performance.now()
    await client.send({ queue: QUEUE, message: newMessage() }, sender)
    const [todo] = await claimed
    times.push(performance.now() - at)
    const { id, fence } = todo!.view.todo
    await agent.complete({ id, fence }, worker)
  }
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) }
}

const rss = () => {
  globalThis.gc?.()
  return { rssMb: process.memoryUsage().rss / 1e6, heapMb: process.memoryUsage().heapUsed / 1e6 }
}

const cpu = () => {
  const { user, system } = process.cpuUsage()
  return { cpuMs: (user + system) / 1000, atMs: performance.now() }
}

answerParent({ start, cpu, latency, rss }, () => stop())
