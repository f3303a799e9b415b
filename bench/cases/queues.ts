/**
 * The same work by the best queues on PostgreSQL: putting a durable job in (16 callers), and taking
 * and finishing jobs, one at a time by 16 workers and 50 at a time by 4. Ours keeps attempts, events
 * and fences meanwhile; graphile-worker deletes what is finished.
 */
import type { Lab } from '../lab.ts'
import type { Peer } from '../process/queue-peers.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'
import { ENDPOINT, makeEndpoint, SINGLES, stock, WORKERS } from './claim.ts'
import { empty, makeQueue } from './send.ts'

const PEERS: Peer[] = ['pg-boss', 'graphile']
const BATCHED = 3000

const open = async (lab: Lab): Promise<Setup> => {
  const url = await lab.database()
  await lab.sql(url, makeQueue)
  await lab.sql(url, makeEndpoint)
  const store = await lab.start('store')
  const ours: Variant[] = [
    {
      name: 'add store',
      run: async (seconds) => {
        await lab.sql(url, empty)
        const way = { way: 'store', url, endpoint: ENDPOINT }
        return store.call<Sample>('add', { ...way, clients: 16, seconds })
      },
    },
    ...[1, 50].map((batch) => ({
      name: `drain ${batch} store`,
      run: async (seconds: number) => {
        await stock(lab, url, Math.ceil(seconds * (batch === 1 ? SINGLES : BATCHED)))
        const way = { way: 'store', url, endpoint: ENDPOINT }
        return store.call<Sample>('drain', { ...way, workers: batch === 1 ? WORKERS : 4, batch })
      },
    })),
  ]
  const theirs: Variant[] = []
  for (const peer of PEERS) {
    const own = await lab.database()
    const process = await lab.start('queue-peers')
    theirs.push({
      name: `add ${peer}`,
      run: (seconds) => process.call<Sample>('add', { url: own, peer, clients: 16, seconds }),
    })
    for (const batch of peer === 'pg-boss' ? [1, 50] : [1]) {
      theirs.push({
        name: `drain ${batch} ${peer}`,
        run: async (seconds) => {
          const count = Math.ceil(seconds * (batch === 1 ? SINGLES : BATCHED))
          await process.call('stock', { url: own, peer, count })
          const workers = batch === 1 ? WORKERS : 4
          return process.call<Sample>('drain', { url: own, peer, count, workers, batch })
        },
      })
    }
  }
  const metric = 'perSecond'
  return {
    variants: [...ours, ...theirs],
    ratios: [
      { of: 'add store', to: 'add pg-boss', metric },
      { of: 'add store', to: 'add graphile', metric },
      { of: 'drain 1 store', to: 'drain 1 graphile', metric },
      { of: 'drain 1 store', to: 'drain 1 pg-boss', metric },
      { of: 'drain 50 store', to: 'drain 50 pg-boss', metric },
    ],
  }
}

export const queues: Case = {
  name: 'queues',
  title: 'queues: beside pg-boss and graphile-worker',
  open,
}
