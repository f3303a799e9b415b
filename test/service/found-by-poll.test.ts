/**
 * A blocking wait whose read fails, and one whose wake never comes.
 * Field case: a wake that was lost.
 */
import { expect, test } from 'vitest'
import { createLog } from '../../src/base/log.ts'
import { createSettle } from '../../src/service/watch/settle.ts'
import { tryTransition } from '../../src/store/move/move.ts'
import type { Database } from '../../src/store/postgres/database.ts'
import { silentBus } from '../../src/store/wake/bus.ts'
import { topics } from '../../src/store/wake/topics.ts'
import { createWakes } from '../../src/store/wake/wake.ts'
import { openStore } from '../support/database/store.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const store = await openStore()

const waiting = async (database: Database = store.database) => {
  const wakes = createWakes({ bus: silentBus, log: createLog('silent') })
  let found = 0
  const settle = createSettle({
    database,
    isUnchanged: () => true,
    onFoundByPoll: () => {
      found += 1
    },
  })
  settle.start(wakes)
  const id = await store.add()
  const settled = settle.settle(id, 1, AbortSignal.timeout(scaled(20_000)))
  settled.catch(() => {})
  const end = () => tryTransition(store.database, 'cancel', id, {})
  const wake = () => wakes.wake([{ topic: topics.settled(id), count: 1 }])
  return { settle, settled, end, wake, found: () => found }
}

test('a read that failed is made again soon, without a poll', async () => {
  let failures = 0
  const failing: Database = {
    ...store.database,
    run: async (...args) => {
      failures += 1
      if (failures <= 2) throw new Error('the database is away')
      return store.database.run(...args)
    },
  }
  const wait = await waiting(failing)
  await wait.end()
  wait.wake()
  expect((await wait.settled).todo.state).toBe('canceled')
  expect(failures).toBe(3)
})

test('an answer that only the poll finds is counted, one whose wake comes a moment later is not', async () => {
  const lost = await waiting()
  await lost.end()
  lost.settle.poll()
  expect((await lost.settled).todo.state).toBe('canceled')
  expect(lost.found()).toBe(0)
  const late = await waiting()
  await late.end()
  late.settle.poll()
  expect((await late.settled).todo.state).toBe('canceled')
  late.wake()
  const woken = await waiting()
  await woken.end()
  woken.wake()
  await woken.settled
  woken.settle.poll()
  await until(() => lost.found() === 1)
  expect([late.found(), woken.found()]).toEqual([0, 0])
})
