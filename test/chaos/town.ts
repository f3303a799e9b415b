/**
 * Everybody of a run: a durable PostgreSQL of its own, three nodes with a link to it each, the front
 * that all others come through, six agents, four clients, the board's reader and the webhooks.
 */
import net from 'node:net'
import { ADMIN_TOKEN } from '../support/app.ts'
import { withClient } from '../support/database/database.ts'
import { type OwnPostgres, openOwnPostgres } from '../support/database/own-postgres.ts'
import type { Link } from '../support/network/link.ts'
import { operate } from '../support/steps.ts'
import { type BoardReader, readBoard } from './board.ts'
import { type Client, createClient } from './client.ts'
import { type Scrapes, type Sql, startScrapes } from './counters.ts'
import { type Crew, loadCrew } from './crew.ts'
import { type Hooks, openHooks } from './hooks.ts'
import { type Node, openFront, startNode } from './nodes.ts'
import type { Violations } from './violations.ts'
import { QUEUES } from './work.ts'

export interface Town {
  postgres: OwnPostgres
  nodes: Node[]
  front: Link
  /** Of the front. */
  url: string
  crew: Crew
  clients: Client[]
  board: BoardReader
  hooks: Hooks
  scrapes: Scrapes
  sql: Sql
}

export interface TownOptions {
  seed: number
  violations: Violations
  /** Fires when the run gives up waiting. */
  over: AbortSignal
  /** What is to be undone, the last first. */
  undo: (() => Promise<unknown>)[]
}

const HOUR = 3_600_000
/** By how much each clock is wrong. The database's is the one that counts. */
const NODE_SKEWS = [0, -3 * HOUR, 40 * HOUR]
const AGENT_SKEWS = [0, 0, 26 * HOUR, -26 * HOUR, 90_000, -90_000]
const VERSIONS = ['1.0', '0.3', '1.0', '0.3'] as const
const BACKOFF = { initialSeconds: 1, factor: 1.5, maxSeconds: 3, jitter: 0.5 }
const READY_MS = 60_000

const dialer = (databaseUrl: string) => {
  const { hostname, port } = new URL(databaseUrl)
  return () => net.connect(`${decodeURIComponent(hostname)}/.s.PGSQL.${port}`)
}

const raiseNodes = async (
  postgres: OwnPostgres,
  { violations, undo }: TownOptions,
): Promise<{ nodes: Node[]; front: Link }> => {
  const dial = dialer(postgres.url)
  const nodes: Node[] = []
  for (const [n, skewMs] of NODE_SKEWS.entries()) {
    const name = `node ${n + 1}`
    const node = await startNode({ name, dial, databaseUrl: postgres.url, skewMs, violations })
    undo.push(node.close)
    nodes.push(node)
  }
  await Promise.all(nodes.map((node) => node.ready(READY_MS)))
  const front = await openFront(nodes)
  undo.push(front.close)
  return { nodes, front }
}

/** Makes the queues; returns who vends. */
const furnish = async (url: string) => {
  for (const [name, policy] of Object.entries(QUEUES)) {
    await operate({ url }, 'queues.put', { name, policy: { ...policy, backoff: BACKOFF } })
  }
  // A node that died over a delivery keeps it for a try and a margin.
  await operate({ url }, 'settings.set', { key: 'push_timeout_seconds', value: '1' })
  return async (name: string, verbs: string[]): Promise<string> => {
    const queues = Object.keys(QUEUES)
    return (await operate({ url }, 'endpoints.vend', { name, queues, verbs })).token
  }
}

export const raise = async (options: TownOptions): Promise<Town> => {
  const { seed, violations, over, undo } = options
  const crew = loadCrew(AGENT_SKEWS)
  undo.push(crew.close)
  const postgres = await openOwnPostgres()
  undo.push(postgres.remove)
  const { nodes, front } = await raiseNodes(postgres, options)
  const url = `http://127.0.0.1:${front.port}`
  const vend = await furnish(url)
  const hooks = await openHooks(seed)
  undo.push(hooks.close)
  const board = readBoard(url, ADMIN_TOKEN)
  undo.push(board.close)
  // Five share an endpoint, as the processes of one program do: nothing but the fence tells them apart.
  const [shared, own] = [
    await vend('crew', ['work', 'send']),
    await vend('loner', ['work', 'send']),
  ]
  const tokens = [shared, shared, shared, shared, shared, own]
  await crew.begin(url, tokens)
  const scrapes = startScrapes(nodes)
  undo.push(scrapes.stop)
  const clients: Client[] = []
  for (const [number, version] of VERSIONS.entries()) {
    const token = await vend(`client ${number}`, ['send'])
    const to = { url, token, hooks: hooks.url }
    clients.push(createClient({ number, seed, version, ...to, violations, over }))
  }
  const sql: Sql = (text, values = []) =>
    withClient(postgres.url, async (client) => (await client.query(text, values)).rows)
  return { postgres, nodes, front, url, crew, clients, board, hooks, scrapes, sql }
}
