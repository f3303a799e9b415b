/**
 * The board with very many readers: 1,000 and 5,000 subscribers at 20 events a second, in two
 * processes, and what each costs the server in memory. How late an event is, from its commit on
 * another node, is told by one subscriber in ten; all of them are served alike.
 */
import type { Child } from '../child.ts'
import { type Lab, withCpu } from '../lab.ts'
import type { Started } from '../process/server.ts'
import type { Memory } from '../process/usage.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'

const COUNTS = [1000, 5000]
const PER_SECOND = 20
const LOOKING_EVERY = 10
const READER_PROCESSES = 2

const worst = (samples: readonly Sample[]): Sample => ({
  p50Ms: Math.max(...samples.map((sample) => sample.p50Ms!)),
  p99Ms: Math.max(...samples.map((sample) => sample.p99Ms!)),
  deliveredPct: Math.min(...samples.map((sample) => sample.deliveredPct!)),
})

/** A server that only ever has so many: what it took from the system for more would hide the rest. */
const variantOf = async (lab: Lab, readers: readonly Child[], count: number): Promise<Variant> => {
  const databaseUrl = await lab.database()
  const server = await lab.start('server')
  const { url, adminToken: token } = await server.call<Started>('start', { databaseUrl })
  const writer = await lab.start('store')
  const before = await server.call<Memory>('memory')
  const each = <T>(name: string, params: object = {}): Promise<T[]> =>
    Promise.all(readers.map((process) => process.call<T>(name, params)))

  const measured = async (seconds: number): Promise<Sample> => {
    const pace = { url: databaseUrl, perSecond: PER_SECOND, seconds }
    const commits = await writer.call<object[]>('write', pace)
    return worst(await each<Sample>('latencies', { commits }))
  }
  return {
    name: `${count} at ${PER_SECOND}/s`,
    run: async (seconds) => {
      const share = { count: count / readers.length, every: LOOKING_EVERY }
      await each('open', { url, token, ...share })
      try {
        const sample = await withCpu(server, () => measured(seconds))
        const after = await server.call<Memory>('memory')
        const kbEach = (of: keyof Memory): number => (1000 * (after[of] - before[of])) / count
        return { ...sample, rssKbEach: kbEach('rssMb'), heapKbEach: kbEach('heapMb') }
      } finally {
        await each('close')
      }
    },
  }
}

const open = async (lab: Lab): Promise<Setup> => {
  const readers: Child[] = []
  while (readers.length < READER_PROCESSES) readers.push(await lab.start('readers'))
  const variants: Variant[] = []
  for (const count of COUNTS) variants.push(await variantOf(lab, readers, count))
  const [few, many] = variants
  return { variants, ratios: [{ of: many!.name, to: few!.name, metric: 'p99Ms' }] }
}

export const fanout: Case = { name: 'fanout', title: 'fanout: thousands of subscribers', open }
