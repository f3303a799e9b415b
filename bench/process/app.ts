/** The server as every process of the benchmark makes it: silent, on loopback, at any free port. */
import { createSwitchboard, type Switchboard } from '../../src/app.ts'
import { createLog } from '../../src/base/log.ts'
import type { Caller, EndpointVerb } from '../../src/domain/endpoint.ts'
import { ADMIN_TOKEN, testConfig } from '../../test/support/config.ts'
import { QUEUE } from '../statements.ts'

export { ADMIN_TOKEN }

export const makeApp = (databaseUrl: string, natsUrl: string | null = null): Switchboard =>
  createSwitchboard({
    databaseUrl,
    log: createLog('silent'),
    // One token stands for thousands of readers.
    config: testConfig({ databaseUrl, natsUrl, maxStreamsPerEndpoint: 10_000 }),
  })

/** An endpoint of the one queue. */
export const vend = ({ services }: Switchboard, verb: EndpointVerb) =>
  services.operator.vend({ name: verb, queues: [QUEUE], verbs: [verb] })

/** The same, as the services know who calls. */
export const callerOf = async (app: Switchboard, verb: EndpointVerb): Promise<Caller> => ({
  kind: 'endpoint',
  endpoint: (await vend(app, verb)).endpoint,
})
