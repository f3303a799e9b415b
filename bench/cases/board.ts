/**
 * How late the board is: from a commit on another node (its writer adds todos at a steady pace and
 * wakes the server by NOTIFY) to the frame at the subscriber, with the feed's own gathering. 500
 * subscribers beside one: what is left of their ratio is the fan-out.
 */
import { type Lab, ROOT, withCpu } from '../lab.ts'
import type { Started } from '../process/server.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'

const MANY = 500

/** A server on a database of its own, and its subscribers and writer. */
const boardOf = async (lab: Lab, label: string, root: string): Promise<Variant[]> => {
  const databaseUrl = await lab.database()
  const server = await lab.start('server', root)
  const { url, adminToken } = await server.call<Started>('start', { databaseUrl })
  const readers = await lab.start('readers')
  const writer = await lab.start('store')

  const variant = (count: number, perSecond: number): Variant => ({
    name: `${label}${count} at ${perSecond}/s`,
    run: async (seconds) => {
      await readers.call('open', { url, token: adminToken, count })
      const sample = await withCpu(server, async () => {
        const pace = { url: databaseUrl, perSecond, seconds }
        const commits = await writer.call<object[]>('write', pace)
        return readers.call<Sample>('latencies', { commits })
      })
      await readers.call('close')
      return sample
    },
  })
  return [variant(1, 20), variant(MANY, 20), variant(MANY, 50)]
}

const open = async (lab: Lab): Promise<Setup> => {
  const against = lab.against ? await boardOf(lab, 'against ', lab.against) : []
  return {
    variants: [...(await boardOf(lab, '', ROOT)), ...against],
    ratios: [
      { of: `${MANY} at 20/s`, to: '1 at 20/s', metric: 'p50Ms' },
      { of: `${MANY} at 50/s`, to: '1 at 20/s', metric: 'p50Ms' },
      ...against.flatMap(({ name }) =>
        ['p50Ms', 'serverCpuPct'].map((metric) => ({
          of: name.replace('against ', ''),
          to: name,
          metric,
        })),
      ),
    ],
  }
}

export const board: Case = { name: 'board', title: 'board: commit to frame', open }
