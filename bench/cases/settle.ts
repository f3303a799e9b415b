/**
 * From a blocking SendMessage to its completed task, with a live agent (the agent kit) in another
 * process: 1, 16 and 64 connections. Beside it the three statements every task needs (add, claim,
 * complete), by bare pg one after the other: what is left is HTTP, the wakes and the agent.
 */
import { type Lab, ROOT, withCpu } from '../lab.ts'
import type { Started } from '../process/server.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'
import { QUEUE } from '../statements.ts'
import { empty, makeQueue } from './send.ts'

const ENDPOINT = '00000000-0000-0000-0000-00000000000a'
const CONNECTIONS = [1, 16, 64]

/** Blocking sends over HTTP to the server and the agent of a checkout. */
const overHttp = async (lab: Lab, name: string, root: string): Promise<Variant[]> => {
  const databaseUrl = await lab.database()
  const server = await lab.start('server', root)
  const started = await server.call<Started>('start', { databaseUrl })
  const load = await lab.start('load')
  const agent = await lab.start('agent', root)
  await agent.call('start', { url: started.url, token: started.agentToken, concurrency: 64 })
  return CONNECTIONS.map((connections) => ({
    name: `${name} c${connections}`,
    run: (seconds) => {
      const params = { url: started.agentUrl, token: started.clientToken, connections, seconds }
      return withCpu(server, () => load.call<Sample>('send', { ...params, blocking: true }))
    },
  }))
}

const open = async (lab: Lab): Promise<Setup> => {
  const url = await lab.database()
  await lab.sql(url, makeQueue)
  await lab.sql(
    url,
    `insert into endpoints (id, name, token_sha256, queues, verbs)
    values ('${ENDPOINT}', 'bench', sha256('bench'), '{${QUEUE}}', '{work}')`,
  )
  const process = await lab.start('store')
  const http = await overHttp(lab, 'http', ROOT)
  const against = lab.against ? await overHttp(lab, 'against', lab.against) : []

  const bare = (clients: number): Variant => ({
    name: `pg c${clients}`,
    run: async (seconds) => {
      await lab.sql(url, empty)
      return process.call<Sample>('life', { way: 'pg', url, endpoint: ENDPOINT, clients, seconds })
    },
  })
  const ratiosTo = (other: string) =>
    CONNECTIONS.flatMap((count) =>
      ['p50Ms', 'perSecond'].map((metric) => ({
        of: `http c${count}`,
        to: `${other} c${count}`,
        metric,
      })),
    )
  return {
    variants: [...http, ...against, ...CONNECTIONS.map(bare)],
    ratios: [...ratiosTo('pg'), ...(lab.against ? ratiosTo('against') : [])],
  }
}

export const settle: Case = {
  name: 'settle',
  title: 'settle: blocking SendMessage to completed',
  open,
}
