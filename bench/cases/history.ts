/**
 * What history costs: the same work beside 1,000 finished todos and beside 1,000,000, with 10,000
 * that wait, on two databases of one PostgreSQL. Each ratio should be near 1.
 */
import type { Lab } from '../lab.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'
import { CLIENT, seed } from '../seed.ts'
import { addStock, ENDPOINT, makeEndpoint, SINGLES, WORKERS } from './claim.ts'
import { makeQueue } from './send.ts'

const FEW = 1000
const MANY = 1_000_000
const WAITING = 10_000

const READS = ['get', 'list', 'listWaiting', 'listAll'] as const
const TICKS = ['reap', 'timeOut', 'comeDue'] as const

/** What was claimed is taken out again, so that the history stays as it is. */
const forget = ['messages', 'attempts', 'events', 'todos'].map((table) => {
  const id = table === 'todos' ? 'id' : 'todo_id'
  return `delete from ${table} where ${id} in (select id from todos where context_id like 'stock %')`
})

const variantsOn = async (lab: Lab, finished: number): Promise<Variant[]> => {
  const url = await lab.database()
  await lab.sql(url, makeQueue)
  await lab.sql(url, makeEndpoint)
  await seed(lab, url, { finished, waiting: WAITING })
  const store = await lab.start('store')
  const services = await lab.start('services')
  await services.call('open', { databaseUrl: url })
  const beside = `beside ${finished}`
  return [
    {
      name: `claim ${beside}`,
      run: async (seconds) => {
        await addStock(lab, url, Math.ceil(seconds * SINGLES))
        const way = { way: 'store', url, endpoint: ENDPOINT, workers: WORKERS, batch: 1 }
        const sample = await store.call<Sample>('drain', way)
        for (const statement of forget) await lab.sql(url, statement)
        return sample
      },
    },
    ...READS.map((read) => ({
      name: `${read} ${beside}`,
      run: (seconds: number) => services.call<Sample>(read, { seconds, clientId: CLIENT }),
    })),
    ...TICKS.map((sweep) => ({
      name: `${sweep} ${beside}`,
      run: (seconds: number) => services.call<Sample>('tick', { seconds, sweep }),
    })),
  ]
}

const open = async (lab: Lab): Promise<Setup> => {
  const few = await variantsOn(lab, FEW)
  const many = await variantsOn(lab, MANY)
  return {
    // By turns: the same work beside little and beside much.
    variants: few.flatMap((variant, index) => [variant, many[index]!]),
    ratios: few.map(({ name }, index) => ({
      of: many[index]!.name,
      to: name,
      metric: 'perSecond',
    })),
  }
}

export const history: Case = {
  name: 'history',
  title: 'history: beside 1,000,000 finished todos and beside 1,000',
  open,
}
