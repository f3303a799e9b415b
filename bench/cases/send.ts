/**
 * Accepted sends a second: SendMessage that returns at once, over HTTP by 1, 16 and 64
 * connections, beside the same insert through the store, by bare pg and by pgbench, whose rate is
 * the ceiling of this machine. The server's CPU says whether Node is what limits it.
 */
import { type Lab, ROOT, withCpu } from '../lab.ts'
import { hasPgbench, runPgbench, toScript } from '../pgbench.ts'
import type { Started } from '../process/server.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'
import { captureAdd, QUEUE } from '../statements.ts'

const CLIENTS = 16
const NOBODY = '00000000-0000-0000-0000-000000000000'

export const empty = 'truncate todos, messages, artifacts, attempts, events, details'
export const makeQueue = `insert into queues (name, card, policy) values ('${QUEUE}', '{}', '{}')`

/** One server on a database of its own, loaded by N connections. */
const overHttp = async (lab: Lab, label: string, root: string): Promise<Variant[]> => {
  const databaseUrl = await lab.database()
  const server = await lab.start('server', root)
  const { agentUrl: url, clientToken } = await server.call<Started>('start', { databaseUrl })
  const load = await lab.start('load')
  return [1, 16, 64].map((connections) => ({
    name: `${label} c${connections}`,
    run: async (seconds) => {
      await lab.sql(databaseUrl, empty)
      const params = { url, token: clientToken, connections, seconds, blocking: false }
      return withCpu(server, () => load.call<Sample>('send', params))
    },
  }))
}

const byPgbench = async (url: string): Promise<Variant> => {
  const { script, variables } = toScript('add', await captureAdd(), { id: 'gen_random_uuid()' })
  return {
    name: 'pgbench c16',
    run: async (seconds) => ({
      perSecond: await runPgbench(url, `${script};`, variables, CLIENTS, [
        '-T',
        Math.max(1, Math.round(seconds)),
      ]),
    }),
  }
}

const open = async (lab: Lab): Promise<Setup> => {
  const url = await lab.database()
  await lab.sql(url, makeQueue)
  const process = await lab.start('store')
  const inNode = (name: string, way: 'store' | 'pg'): Variant => ({
    name,
    run: async (seconds) => {
      await lab.sql(url, empty)
      return process.call<Sample>('add', { way, url, endpoint: NOBODY, clients: CLIENTS, seconds })
    },
  })
  const pgbench = hasPgbench()
  const variants = [
    ...(await overHttp(lab, 'http', ROOT)),
    ...(lab.against ? await overHttp(lab, 'against', lab.against) : []),
    inNode('store c16', 'store'),
    inNode('pg c16', 'pg'),
    ...(pgbench ? [await byPgbench(url)] : []),
  ]
  const ceiling = pgbench ? 'pgbench c16' : 'pg c16'
  const metric = 'perSecond'
  return {
    variants,
    ratios: [
      { of: 'http c16', to: ceiling, metric },
      { of: 'http c64', to: ceiling, metric },
      { of: 'http c16', to: 'store c16', metric },
      { of: 'store c16', to: 'pg c16', metric },
      ...(lab.against
        ? [1, 16, 64].flatMap((c) =>
            ['perSecond', 'serverMsEach'].map((each) => ({
              of: `http c${c}`,
              to: `against c${c}`,
              metric: each,
            })),
          )
        : []),
    ],
  }
}

export const send: Case = { name: 'send', title: 'send: accepted SendMessage', open }
