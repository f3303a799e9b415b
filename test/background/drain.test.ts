import { expect, test } from 'vitest'
import { drain } from '../../src/background/drain.ts'
import { createLog } from '../../src/base/log.ts'
import { scaled } from '../support/timeouts.ts'

const logTo = (logged: object[]) =>
  createLog('info', { write: (line: string) => void logged.push(JSON.parse(line)) })

test('parts stop in order; one that fails or hangs is named and keeps no other from being stopped', async () => {
  const said: string[] = []
  const logged: object[] = []
  const started = performance.now()
  await drain(
    [
      { part: 'one', owedMs: 0, run: () => void said.push('one') },
      {
        part: 'two',
        owedMs: 0,
        run: () => {
          throw new Error('no')
        },
      },
      { part: 'three', owedMs: 0, run: () => new Promise(() => {}) },
      { part: 'four', owedMs: 50, run: async () => void said.push('four') },
    ],
    200,
    logTo(logged),
  )
  expect(performance.now() - started).toBeLessThan(scaled(2000))
  expect(said).toEqual(['one', 'four'])
  expect(logged).toMatchObject([
    { part: 'two', err: { message: 'no' } },
    { part: 'three', msg: 'a part did not stop in time' },
  ])
})

test('each is told how long it may take: what is left but for what the ones behind are owed', async () => {
  const told: number[] = []
  await drain(
    [
      { part: 'calls', owedMs: 0, run: (ms) => void told.push(ms) },
      { part: 'workers', owedMs: 2000, run: (ms) => void told.push(ms) },
      { part: 'database', owedMs: 1000, run: (ms) => void told.push(ms) },
    ],
    10_000,
    logTo([]),
  )
  const [calls, workers, database] = told as [number, number, number]
  expect(Math.abs(calls - 7000)).toBeLessThan(500)
  expect(Math.abs(workers - 9000)).toBeLessThan(500)
  expect(Math.abs(database - 10_000)).toBeLessThan(500)
})
