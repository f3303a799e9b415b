/**
 * Many nodes on one database: accepted sends by three, each with 16 connections, beside one with
 * all 48; and the time from a send on one node to the start of its work by an agent that waits at
 * another, by LISTEN and NOTIFY and, where nats-server is installed, over NATS, beside both at one.
 */
import type { Child } from '../child.ts'
import { type Lab, withCpu } from '../lab.ts'
import { hasNats, startNats } from '../nats.ts'
import type { Started } from '../process/server.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'
import { percentile } from '../stats.ts'
import { empty } from './send.ts'

const NODES = 3
const CONNECTIONS = 16
const WAKES_A_SECOND = 20
/** By then the claim waits. */
const SETTLED_MS = 20

interface Node {
  server: Child
  started: Started
}

const startNodes = async (
  lab: Lab,
  databaseUrl: string,
  count: number,
  natsUrl: string | null = null,
): Promise<Node[]> => {
  const nodes: Node[] = []
  while (nodes.length < count) {
    const server = await lab.start('server')
    const started = await server.call<Started>('start', { databaseUrl, natsUrl })
    nodes.push({ server, started })
  }
  return nodes
}

/** The same generators either way, so that the machine does the same beside the nodes. */
const sendsTo = (lab: Lab, databaseUrl: string, nodes: Node[], loads: Child[]): Variant => ({
  name: `send, ${nodes.length === 1 ? '1 node' : `${nodes.length} nodes`}`,
  run: async (seconds) => {
    await lab.sql(databaseUrl, empty)
    const all = async (): Promise<Sample> => {
      const samples = await Promise.all(
        loads.map((load, index) => {
          const { agentUrl: url, clientToken: token } = nodes[index % nodes.length]!.started
          const to = { url, token, connections: CONNECTIONS, seconds, blocking: false }
          return load.call<Sample>('send', to)
        }),
      )
      const of = (metric: string) => samples.map((sample) => sample[metric]!)
      return {
        perSecond: of('perSecond').reduce((sum, rate) => sum + rate),
        p50Ms: Math.max(...of('p50Ms')),
        p99Ms: Math.max(...of('p99Ms')),
      }
    }
    // Of the first node; the others do the same.
    const { serverMsEach: _each, ...sample } = await withCpu(nodes[0]!.server, all)
    return sample
  },
})

const wakes = (lab: Lab, url: string, name: string, sender: Node, taker: Node): Variant => ({
  name: `wake, ${name}`,
  run: async (seconds) => {
    await lab.sql(url, empty)
    const times: number[] = []
    const rounds = Math.max(5, Math.ceil(seconds * WAKES_A_SECOND))
    while (times.length < rounds) {
      const taken = taker.server.call<bigint>('takeOne')
      await new Promise((resolve) => setTimeout(resolve, SETTLED_MS))
      const sent = await sender.server.call<bigint>('sendOne')
      times.push(Number((await taken) - sent) / 1e6)
    }
    return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) }
  },
})

const open = async (lab: Lab): Promise<Setup> => {
  const [oneUrl, manyUrl] = [await lab.database(), await lab.database()]
  const one = await startNodes(lab, oneUrl, 1)
  const many = await startNodes(lab, manyUrl, NODES)
  const loads: Child[] = []
  while (loads.length < NODES) loads.push(await lab.start('load'))
  const variants = [
    sendsTo(lab, oneUrl, one, loads),
    sendsTo(lab, manyUrl, many, loads),
    wakes(lab, oneUrl, 'one node', one[0]!, one[0]!),
    wakes(lab, manyUrl, 'NOTIFY', many[0]!, many[1]!),
  ]
  const across = [variants[3]!.name]
  if (hasNats()) {
    const natsUrl = await startNats(lab)
    const url = await lab.database()
    const [sender, taker] = await startNodes(lab, url, 2, natsUrl)
    variants.push(wakes(lab, url, 'NATS', sender!, taker!))
    across.push('wake, NATS')
  }
  return {
    variants,
    ratios: [
      { of: variants[1]!.name, to: variants[0]!.name, metric: 'perSecond' },
      ...across.map((of) => ({ of, to: 'wake, one node', metric: 'p50Ms' })),
    ],
  }
}

export const nodes: Case = { name: 'nodes', title: 'nodes: three on one database', open }
