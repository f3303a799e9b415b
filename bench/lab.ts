/**
 * What a case works with, and how all of it goes away again: databases, processes, and the compiled
 * code that these run (under tsx every function would be a little slower). Measures nothing.
 */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import path from 'node:path'
import pg from 'pg'
import { migrate } from '../src/store/postgres/migrate.ts'
import { type Child, startChild } from './child.ts'
import type { Cpu } from './process/usage.ts'
import type { Sample } from './runner.ts'
import { type Serve, startServe } from './serve.ts'

export interface Lab {
  /** Makes a migrated database of its own; returns its URL. */
  database(): Promise<string>
  /** One without a schema, for a peer's own. */
  emptyDatabase(): Promise<string>
  /** A process running bench/process/<name>. `root` is the checkout it is taken from. */
  start(name: string, root?: string): Promise<Child>
  /** `switchboard serve`, ready. */
  serve(databaseUrl: string, adminToken: string): Promise<Serve>
  sql(url: string, text: string, values?: unknown[]): Promise<void>
  /** As `sql`, with its first row. */
  row<Row>(url: string, text: string): Promise<Row>
  /** Holds a snapshot of a database open, as a backup does, until it is released. */
  hold(url: string): Promise<() => Promise<void>>
  /** Another checkout, to be measured beside this one. */
  against: string | null
  /** What else is to be undone when the lab closes. */
  undo(step: () => Promise<unknown>): void
  /** Ends every process and drops every database. Safe to call twice. */
  close(): Promise<void>
}

export const ROOT = path.join(import.meta.dirname, '..')
export const RESULTS = path.join(import.meta.dirname, 'results')

const withClient = async <T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> => {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

const builds = new Map<string, Promise<string>>()

/** Compiles a checkout, once; type errors of its tests do not matter here. */
const compile = async (root: string): Promise<string> => {
  const output = path.join(root, 'bench/results/build')
  const tsc = path.join(ROOT, 'node_modules/.bin/tsc')
  const child = spawn(tsc, ['--project', root, '--outDir', output], { stdio: 'ignore' })
  await once(child, 'exit')
  return output
}

/** Where the compiled code of a checkout lies. */
const compiled = (root: string): Promise<string> => {
  const known = builds.get(root) ?? compile(root)
  builds.set(root, known)
  return known
}

export interface LabOptions {
  /** Of the PostgreSQL to make databases on. */
  serverUrl: string
  against: string | null
  /** Writes a CPU profile of the server into bench/results. */
  profile: boolean
}

export const openLab = ({ serverUrl, against, profile }: LabOptions): Lab => {
  const undo: (() => Promise<unknown>)[] = []
  const emptyDatabase = async (): Promise<string> => {
    const name = `switchboard_bench_${randomUUID().slice(0, 8)}`
    const url = serverUrl.replace(/^(\w+:\/\/[^/?]*)(\/[^?]*)?/, `$1/${name}`)
    await withClient(serverUrl, (client) => client.query(`create database ${name}`))
    undo.push(() =>
      withClient(serverUrl, (client) => client.query(`drop database ${name} with (force)`)),
    )
    return url
  }
  return {
    emptyDatabase,
    against,
    undo: (step) => void undo.push(step),
    sql: (url, text, values) =>
      withClient(url, async (client) => {
        await client.query(text, values)
      }),
    serve: async (databaseUrl, adminToken) => {
      const serve = await startServe(await compiled(ROOT), databaseUrl, adminToken)
      undo.push(serve.end)
      return serve
    },
    row: <Row>(url: string, text: string) =>
      withClient(url, async (client) => (await client.query(text)).rows[0] as Row),
    hold: async (url) => {
      const client = new pg.Client({ connectionString: url })
      client.on('error', () => {})
      await client.connect()
      await client.query('begin isolation level repeatable read')
      await client.query('select from todos limit 1')
      return () => client.end()
    },
    database: async () => {
      const url = await emptyDatabase()
      await migrate(url)
      return url
    },
    start: async (name, root = ROOT) => {
      const flags = ['--enable-source-maps', '--expose-gc']
      if (profile && name === 'server') flags.push('--cpu-prof', `--cpu-prof-dir=${RESULTS}`)
      const child = startChild(path.join(await compiled(root), `bench/process/${name}.js`), flags)
      undo.push(child.end)
      return child
    },
    close: async () => {
      for (let step = undo.pop(); step; step = undo.pop()) await step()
    },
  }
}

/**
 * The CPU that the server used during `work`: its share of one core and, where answers were
 * counted, its time for each of them, which says the same on a machine that others use as well.
 */
export const withCpu = async (server: Child, work: () => Promise<Sample>): Promise<Sample> => {
  const before = await server.call<Cpu>('cpu')
  const sample = await work()
  const after = await server.call<Cpu>('cpu')
  const share = (after.cpuMs - before.cpuMs) / (after.atMs - before.atMs)
  const { perSecond } = sample
  return {
    ...sample,
    serverCpuPct: 100 * share,
    ...(perSecond !== undefined && { serverMsEach: (1000 * share) / perSecond }),
  }
}
