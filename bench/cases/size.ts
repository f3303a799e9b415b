/**
 * What a task costs PostgreSQL in bytes: of WAL, from its send over HTTP to its completion by a live
 * agent, and on disk once it is finished and vacuumed. On an empty database, and beside 1,000,000
 * finished ones, where after each checkpoint nearly every insert into an index of random keys writes
 * a whole page to the WAL; there also with wal_compression. Does not depend on the machine's load.
 */
import type { Child } from '../child.ts'
import type { Lab } from '../lab.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'
import { seed } from '../seed.ts'
import { startWithAgent } from './a2a-js.ts'
import { empty, makeQueue } from './send.ts'

const TASKS_A_SECOND = 2000
const CONNECTIONS = 16
const MANY = 1_000_000
const TABLES = ['todos', 'messages', 'events', 'attempts', 'details']

interface Place {
  lsn: string
}

const whereTo = 'select pg_current_wal_insert_lsn() as lsn'

/** The placer is done: what it writes belongs to the tasks. */
const settled = async (lab: Lab, url: string): Promise<void> => {
  const left = 'select count(*)::int as count from events where position is null'
  while ((await lab.row<{ count: number }>(url, left)).count > 0) {
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Bytes of each table with its indexes, and how much of that are the indexes. */
const onDisk = async (lab: Lab, url: string, tasks: number): Promise<Sample> => {
  await lab.sql(url, `vacuum ${TABLES.join(', ')}`)
  const sizes = TABLES.map((name) => `pg_total_relation_size('${name}') / ${tasks}.0 as ${name}`)
  const indexes = TABLES.map((name) => `pg_indexes_size('${name}')`).join(' + ')
  const found = await lab.row<Record<string, string>>(
    url,
    `select ${sizes.join(', ')}, (${indexes}) / ${tasks}.0 as indexes`,
  )
  const of = (name: string): number => Number(found[name])
  return {
    diskBytesEach: TABLES.reduce((sum, name) => sum + of(name), 0),
    indexBytesEach: of('indexes'),
    ...Object.fromEntries(TABLES.map((name) => [`${name}BytesEach`, of(name)])),
  }
}

interface Way {
  checkpoint: boolean
  compressed: boolean
}

/** A server of its own each time: settings of the database are those of new connections. */
const walOf = async (lab: Lab, load: Child, url: string, count: number, way: Way) => {
  const { pathname } = new URL(url)
  const compression = way.compressed ? 'on' : 'off'
  await lab.sql(url, `alter database ${pathname.slice(1)} set wal_compression = ${compression}`)
  const { server, agent, ...to } = await startWithAgent(lab, url)
  if (way.checkpoint) await lab.sql(url, 'checkpoint')
  const { lsn } = await lab.row<Place>(url, whereTo)
  const sends = { ...to, connections: CONNECTIONS, seconds: 0, count, blocking: true }
  await load.call<Sample>('send', sends)
  await settled(lab, url)
  const written = `select (pg_current_wal_insert_lsn() - '${lsn}'::pg_lsn)::bigint as bytes`
  const { bytes } = await lab.row<{ bytes: string }>(url, written)
  await agent.end()
  await server.end()
  return Number(bytes) / count
}

const open = async (lab: Lab): Promise<Setup> => {
  const load = await lab.start('load')
  const [fresh, grown] = [await lab.database(), await lab.database()]
  await lab.sql(grown, makeQueue)
  await seed(lab, grown, { finished: MANY, waiting: 0 })
  const variant = (name: string, url: string, way: Way): Variant => ({
    name,
    run: async (seconds) => {
      const count = Math.ceil(seconds * TASKS_A_SECOND)
      if (url === fresh) await lab.sql(fresh, empty)
      const walBytesEach = await walOf(lab, load, url, count, way)
      return { walBytesEach, ...(url === fresh && (await onDisk(lab, fresh, count))) }
    },
  })
  const after = { checkpoint: true, compressed: false }
  const variants = [
    variant('empty', fresh, after),
    variant('beside 1,000,000, after a checkpoint', grown, after),
    variant('the same, and then on', grown, { ...after, checkpoint: false }),
    variant('the same, after a checkpoint, compressed', grown, { ...after, compressed: true }),
  ]
  return {
    variants,
    ratios: variants
      .slice(1)
      .map(({ name }) => ({ of: name, to: 'empty', metric: 'walBytesEach' })),
  }
}

export const size: Case = { name: 'size', title: 'size: bytes for each task', open }
