import { expect, test } from 'vitest'
import { createMetrics } from '../../src/base/metrics.ts'
import { createSweep, type SweepParts } from '../../src/service/sweeps/sweeps.ts'

/** A sweep of parts that are nothing but what they answer. */
const sweepOf = (fails: string) => {
  const swept: string[] = []
  const part = (name: string) => async () => {
    if (name === fails) throw new Error(`${name} failed`)
    swept.push(name)
    return 1
  }
  const parts = {
    registry: { settings: async () => new Map() },
    sweepRunner: (verb: string) => part(verb)(),
    conversations: { sweep: part('lines') },
    childTasks: { sweep: part('family') },
    revocation: { settleDead: part('revoked'), settleIdle: part('idle') },
    metrics: createMetrics(),
    log: { info: ({ count }: { count: number }) => swept.push(`logged ${count}`) },
  } as unknown as SweepParts
  return { swept, sweep: createSweep(parts) }
}

/** In their order. */
const STEPS = ['reapLease', 'reapInterrupt', 'park', 'lines', 'family']

test.each(STEPS)(
  'where %s fails the others are swept and logged all the same, and the failure is told',
  async (fails) => {
    const { swept, sweep } = sweepOf(fails)
    await expect(sweep.reap()).rejects.toThrow(`${fails} failed`)
    const [reapLease, reapInterrupt, park, ...rest] = STEPS.map((name) =>
      name === fails ? [] : [name],
    )
    const parked = fails === 'park' ? [] : ['logged 1']
    const reaped = fails.startsWith('reap') ? 1 : 2
    expect(swept).toEqual(
      [
        'revoked',
        'idle',
        reapLease,
        reapInterrupt,
        park,
        parked,
        ...rest,
        `logged ${reaped}`,
      ].flat(),
    )
  },
)

test('without knowing who is revoked nothing is requeued', async () => {
  const { swept, sweep } = sweepOf('revoked')
  await expect(sweep.reap()).rejects.toThrow('revoked failed')
  expect(swept).toEqual([])
})
