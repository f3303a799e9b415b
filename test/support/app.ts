/**
 * The whole switchboard on a free port and a database of its own, and the people around it:
 * clients, agents and the operator as the wire sees them.
 */
import { afterAll, onTestFinished, TestRunner } from 'vitest'

import type { NodeOptions } from '../../src/app/options.ts'
import { createNode, type Switchboard } from '../../src/app.ts'
import { createLog } from '../../src/base/log.ts'
import type { Caller, Endpoint, EndpointVerb } from '../../src/domain/endpoint.ts'
import { ADMIN_TOKEN, testConfig } from './config.ts'
import { cloneDatabase, withClient } from './database/database.ts'

export { ADMIN_TOKEN, testConfig }

export interface Vended {
  endpoint: Endpoint
  token: string
  caller: Caller
}

export interface App extends Switchboard {
  url: string
  databaseUrl: string
  /** A statement on the database, beside the application. */
  sql<Row = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>
  vend(verbs: EndpointVerb[], queues: string[], more?: { name?: string }): Promise<Vended>
  /** Makes a queue with a client and an agent of its own. */
  queue(name: string, policy?: Record<string, unknown>): Promise<{ client: Vended; agent: Vended }>
}

export type AppOptions = Partial<NodeOptions> & { natsUrl?: string }

/** A running node on `databaseUrl`; the caller stops it. */
export const startNode = async (
  databaseUrl: string,
  { natsUrl, ...options }: AppOptions = {},
): Promise<Switchboard & { url: string }> => {
  const node = createNode({
    databaseUrl,
    log: createLog(process.env.TEST_LOG === '1' ? 'debug' : 'silent'),
    config: testConfig(natsUrl === undefined ? {} : { natsUrl }),
    ...options,
  })
  const { url } = await node.start()
  return { ...node, url }
}

/**
 * A node with a database of its own, both gone after the last test of the file; or, where a test starts
 * it, after that test.
 */
export const startApp = async (options: AppOptions = {}): Promise<App> => {
  const database = await cloneDatabase()
  const node = await startNode(database.url, options)
  const endWith = TestRunner.getCurrentTest() ? onTestFinished : afterAll
  endWith(async () => {
    await node.stop()
    await database.drop()
  })
  const { operator } = node.services

  const vend: App['vend'] = async (verbs, queues, more = {}) => {
    const { endpoint, token } = await operator.vend({
      name: more.name ?? verbs.join('+'),
      queues,
      verbs,
    })
    return { endpoint, token, caller: { kind: 'endpoint', endpoint } }
  }

  return {
    ...node,
    databaseUrl: database.url,
    sql: (text, values = []) =>
      withClient(database.url, async (client) => (await client.query(text, values)).rows),
    vend,
    queue: async (name, policy) => {
      await operator.putQueue({ name, ...(policy && { policy }) })
      return { client: await vend(['send'], [name]), agent: await vend(['work'], [name]) }
    },
  }
}
