import { afterAll, expect, test } from 'vitest'
import { createLog } from '../../src/base/log.ts'
import { createClaimCooldown } from '../../src/service/claims/cooldown.ts'
import { silentBus } from '../../src/store/wake/bus.ts'
import { createWakes } from '../../src/store/wake/wake.ts'
import { until } from '../support/until.ts'

const wakes = createWakes({ bus: silentBus, log: createLog('silent') })
const cooldown = createClaimCooldown({ wakes })
cooldown.start()
afterAll(cooldown.stop)

const wake = (topic: string): void => wakes.wake([{ topic, count: 1 }])
const rests = (kind: string, queues = ['a', 'b']): boolean => cooldown.remainingMs(kind, queues) > 0

test('a claim that found nothing need not look again until one of its queues is rung', () => {
  expect(rests('one')).toBe(false)
  cooldown.foundLess('one', performance.now())
  expect(rests('one')).toBe(true)
  expect(rests('other')).toBe(false)
  wake('queue:c')
  expect(rests('one')).toBe(true)
  wake('queue:b')
  expect(rests('one')).toBe(false)
})

test('what was rung while it looked is not taken for seen', () => {
  const began = performance.now()
  wake('queue:a')
  cooldown.foundLess('one', began)
  expect(rests('one')).toBe(false)
})

test('it looks again after a while all the same: a lapsed lease rings nobody', async () => {
  cooldown.foundLess('one', performance.now())
  const rest = cooldown.remainingMs('one', ['a'])
  expect(rest).toBeGreaterThan(0)
  expect(rest).toBeLessThanOrEqual(250)
  await until(() => !rests('one'), { what: 'the rest is over' })
})
