import { afterAll, expect, test } from 'vitest'
import { createLog } from '../../src/base/log.ts'
import { createDry } from '../../src/service/claims/cooldown.ts'
import { silentBus } from '../../src/store/wake/bus.ts'
import { createWake } from '../../src/store/wake/wake.ts'
import { until } from '../support/until.ts'

const wake = createWake({ bus: silentBus, log: createLog('silent') })
const dry = createDry({ wake })
dry.start()
afterAll(dry.stop)

const ring = (topic: string): void => wake.ring([{ topic, count: 1 }])
const rests = (kind: string, queues = ['a', 'b']): boolean => dry.restMs(kind, queues) > 0

test('a claim that found nothing need not look again until one of its queues is rung', () => {
  expect(rests('one')).toBe(false)
  dry.ranDry('one', performance.now())
  expect(rests('one')).toBe(true)
  expect(rests('other')).toBe(false)
  ring('queue:c')
  expect(rests('one')).toBe(true)
  ring('queue:b')
  expect(rests('one')).toBe(false)
})

test('what was rung while it looked is not taken for seen', () => {
  const began = performance.now()
  ring('queue:a')
  dry.ranDry('one', began)
  expect(rests('one')).toBe(false)
})

test('it looks again after a while all the same: a lapsed lease rings nobody', async () => {
  dry.ranDry('one', performance.now())
  const rest = dry.restMs('one', ['a'])
  expect(rest).toBeGreaterThan(0)
  expect(rest).toBeLessThanOrEqual(250)
  await until(() => !rests('one'), { what: 'the rest is over' })
})
