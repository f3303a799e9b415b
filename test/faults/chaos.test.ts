/**
 * The chaos run (docs/chaos.md) in its short form: the whole of test/chaos for some seconds, under
 * a fixed seed. `npm run chaos` is the long one. Which faults come is the seed's; what they meet is
 * the moment's.
 */
import { expect, test } from 'vitest'
import { runChaos } from '../chaos/run.ts'
import { scaled } from '../support/timeouts.ts'

const SEED = Number(process.env.CHAOS_SEED ?? 7)

test(
  `nodes, agents and database are killed, frozen and cut off; every promise holds (CHAOS_SEED=${SEED})`,
  async () => {
    const { violations, summary } = await runChaos({ seed: SEED, seconds: scaled(10_000) / 1000 })
    expect(violations).toEqual([])
    // It was not a quiet time: on a busy machine, which is given longer, less happens in a second.
    for (const count of ['tasks', 'streams', 'deliveries', 'takeovers', 'series compared']) {
      expect(summary[count], count).toBeGreaterThan(0)
    }
    expect(summary['node lives']).toBeGreaterThan(summary.nodes!)
  },
  scaled(300_000),
)
