/** From a send to the start of its work, when nothing else is to be done: ours and graphile-worker's. */
import type { Lab } from '../lab.ts'
import type { Started } from '../process/server.ts'
import type { Case, Sample, Setup } from '../runner.ts'

const ROUNDS_A_SECOND = 30

const open = async (lab: Lab): Promise<Setup> => {
  const databaseUrl = await lab.database()
  const server = await lab.start('server')
  await server.call<Started>('start', { databaseUrl })
  const url = await lab.database()
  const peers = await lab.start('queue-peers')
  const rounds = (seconds: number) => Math.max(5, Math.ceil(seconds * ROUNDS_A_SECOND))
  return {
    variants: [
      {
        name: 'switchboard',
        run: (seconds) => server.call<Sample>('latency', { rounds: rounds(seconds) }),
      },
      {
        name: 'graphile',
        run: (seconds) => peers.call<Sample>('latency', { url, rounds: rounds(seconds) }),
      },
    ],
    ratios: ['p50Ms', 'p99Ms'].map((metric) => ({ of: 'switchboard', to: 'graphile', metric })),
  }
}

export const latency: Case = {
  name: 'latency',
  title: 'latency: from a send to the start of its work',
  open,
}
