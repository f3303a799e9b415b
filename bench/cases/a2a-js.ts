/**
 * Beside the A2A SDK's own server, over its in-memory store and over its PostgreSQL one: blocking
 * sends to their completed tasks (ours with an agent in another process, theirs within the server),
 * GetTask, the time to the first event of a stream, and how many events a second one stream brings.
 */
import type { Child } from '../child.ts'
import { type Lab, withCpu } from '../lab.ts'
import type { Load } from '../process/load.ts'
import type { Started } from '../process/server.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'

const OURS = 'switchboard'
const STORES = ['memory', 'postgres'] as const
const CONNECTIONS = [1, 16, 64]
/** Of an artifact, in one stream. */
const CHUNKS_A_SECOND = 200

export interface Side {
  name: string
  server: Child
  url: string
  token: string | null
}

/** Our server on a database, and an agent in another process. */
export const startWithAgent = async (lab: Lab, url?: string): Promise<Side & { agent: Child }> => {
  const databaseUrl = url ?? (await lab.database())
  const server = await lab.start('server')
  const started = await server.call<Started>('start', { databaseUrl })
  const agent = await lab.start('agent')
  await agent.call('start', { url: started.url, token: started.agentToken, concurrency: 64 })
  return { name: OURS, server, agent, url: started.agentUrl, token: started.clientToken }
}

export const startPeer = async (lab: Lab, store: (typeof STORES)[number]): Promise<Side> => {
  const databaseUrl = store === 'postgres' ? await lab.emptyDatabase() : null
  const server = await lab.start('sdk-server')
  const { url } = await server.call<{ url: string }>('start', { databaseUrl })
  return { name: `a2a-js ${store}`, server, url, token: null }
}

const variantsOf = async ({ name, server, url, token }: Side, load: Child): Promise<Variant[]> => {
  const to = (connections: number, seconds: number): Load => ({ url, token, connections, seconds })
  const id = await load.call<string>('make', to(1, 1))
  return [
    ...CONNECTIONS.map((count) => ({
      name: `send c${count} ${name}`,
      run: (seconds: number) =>
        withCpu(server, () => load.call<Sample>('send', { ...to(count, seconds), blocking: true })),
    })),
    {
      name: `get c16 ${name}`,
      run: (seconds) => withCpu(server, () => load.call<Sample>('get', { ...to(16, seconds), id })),
    },
    {
      name: `first event c16 ${name}`,
      run: (seconds) => withCpu(server, () => load.call<Sample>('firstEvent', to(16, seconds))),
    },
    {
      name: `stream c1 ${name}`,
      run: (seconds) => {
        const chunks = Math.ceil(seconds * CHUNKS_A_SECOND)
        return withCpu(server, () =>
          load.call<Sample>('stream', { ...to(1, seconds), count: 1, chunks }),
        )
      },
    },
  ]
}

const open = async (lab: Lab): Promise<Setup> => {
  const load = await lab.start('load')
  const sides: Side[] = [await startWithAgent(lab)]
  for (const store of STORES) sides.push(await startPeer(lab, store))
  const all = await Promise.all(sides.map((side) => variantsOf(side, load)))
  // By turns: the same work of every side, then the next work.
  const variants = all[0]!.flatMap((_, index) => all.map((of) => of[index]!))
  const against = STORES.map((store) => `a2a-js ${store}`)
  const compare = (work: string, metric: string) =>
    against.map((peer) => ({ of: `${work} ${OURS}`, to: `${work} ${peer}`, metric }))
  return {
    variants,
    ratios: [
      ...CONNECTIONS.flatMap((count) => compare(`send c${count}`, 'perSecond')),
      ...compare('send c1', 'p50Ms'),
      ...compare('get c16', 'perSecond'),
      ...compare('first event c16', 'p50Ms'),
      ...compare('stream c1', 'perSecond'),
    ],
  }
}

export const a2aJs: Case = {
  name: 'a2a-js',
  title: "a2a-js: beside the SDK's own server",
  open,
}
