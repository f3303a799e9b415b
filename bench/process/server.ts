/**
 * The server under test, in a process of its own, as `createSwitchboard` makes it. Asked for its
 * CPU time by the case that measures it.
 */
import { createSwitchboard } from '../../src/app.ts'
import { createLog } from '../../src/base/log.ts'
import type { EndpointVerb } from '../../src/domain/scope.ts'
import { answerParent } from '../child.ts'
import { QUEUE } from '../statements.ts'

export interface Started {
  url: string
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
      dataDir: '/nonexistent',
      host: '127.0.0.1',
      port: 0,
      publicUrl: null,
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
  return { url, adminToken, clientToken: await vend('send'), agentToken: await vend('work') }
}

const cpu = () => {
  const { user, system } = process.cpuUsage()
  return { cpuMs: (user + system) / 1000, atMs: performance.now() }
}

answerParent({ start, cpu }, () => stop())
