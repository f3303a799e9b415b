/**
 * What dead rows cost a claim: fresh, after 55,000 claims without a vacuum, and after claims while
 * an old snapshot was held open, which keeps every dead row. One at a time by 16 workers, and 50 at
 * a time by 4; claims only, with autovacuum off.
 */
import type { Lab } from '../lab.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'
import { ENDPOINT, makeEndpoint, stock, WORKERS } from './claim.ts'
import { makeQueue } from './send.ts'

/** Claimed before the measurement, at the pace of 2.5 s; what is measured is a tenth of it. */
const CLAIMED_A_SECOND = 22_000
const MEASURED = 0.1

const WAYS = { single: { workers: WORKERS, batch: 1 }, batch: { workers: 4, batch: 50 } } as const
type Way = keyof typeof WAYS
const AGES = ['fresh', 'aged', 'old snapshot'] as const

const open = async (lab: Lab): Promise<Setup> => {
  const url = await lab.database()
  await lab.sql(url, makeQueue)
  await lab.sql(url, makeEndpoint)
  await lab.sql(url, 'alter table todos set (autovacuum_enabled = off)')
  const store = await lab.start('store')
  const take = (way: Way, count: number) =>
    store.call<Sample>('take', { way: 'store', url, endpoint: ENDPOINT, ...WAYS[way], count })

  const variant = (way: Way, age: (typeof AGES)[number]): Variant => ({
    name: `${way} ${age}`,
    run: async (seconds) => {
      const before = age === 'fresh' ? 0 : Math.ceil(seconds * CLAIMED_A_SECOND)
      const count = Math.ceil(seconds * CLAIMED_A_SECOND * MEASURED)
      await stock(lab, url, before + count)
      const release = age === 'old snapshot' ? await lab.hold(url) : async () => {}
      try {
        if (before > 0) await take('batch', before)
        return { ...(await take(way, count)), claimedBefore: before }
      } finally {
        await release()
      }
    },
  })
  const ways = Object.keys(WAYS) as Way[]
  return {
    variants: ways.flatMap((way) => AGES.map((age) => variant(way, age))),
    ratios: ways.flatMap((way) =>
      AGES.slice(1).map((age) => ({
        of: `${way} ${age}`,
        to: `${way} fresh`,
        metric: 'perSecond',
      })),
    ),
  }
}

export const dead: Case = { name: 'dead', title: 'dead: claims among dead rows', open }
