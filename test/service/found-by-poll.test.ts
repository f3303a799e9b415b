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

const waiting = async (database: Database = store.database, isUnchanged = true) => {
  const wakes = createWakes({ bus: silentBus, log: createLog('silent') })
  let found = 0
  const settle = createSettle({
    database,
    isUnchanged: () => isUnchanged,
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

/** Until what the poll has found so far has been counted, if it is at all. */
const countsNow = async (): Promise<void> => {
  const last = await waiting()
  await last.end()
  void last.settle.poll()
  await until(() => last.found() === 1)
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
  void lost.settle.poll()
  expect((await lost.settled).todo.state).toBe('canceled')
  expect(lost.found()).toBe(0)
  const late = await waiting()
  await late.end()
  void late.settle.poll()
  expect((await late.settled).todo.state).toBe('canceled')
  late.wake()
  const woken = await waiting()
  await woken.end()
  woken.wake()
  await woken.settled
  void woken.settle.poll()
  // After a connection was lost everybody is told to look.
  const told = await waiting()
  await told.end()
  told.settle.lookAtAll()
  await told.settled
  await until(() => lost.found() === 1)
  await countsNow()
  expect([late.found(), woken.found(), told.found()]).toEqual([0, 0, 0])
})

/** A database whose first read is answered late. */
const holdFirst = () => {
  let release: () => void = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  let reads = 0
  const database: Database = {
    ...store.database,
    run: async (...args) => {
      const rows = await store.database.run(...args)
      reads += 1
      if (reads === 1) await held
      return rows
    },
  }
  return { database, reads: () => reads, release: () => release() }
}

test('an answer whose wake is still being read after is not counted, though the poll asks for it, too', async () => {
  const slow = holdFirst()
  const wait = await waiting(slow.database)
  await wait.end()
  wait.wake()
  await until(() => slow.reads() === 1)
  void wait.settle.poll()
  slow.release()
  expect((await wait.settled).todo.state).toBe('canceled')
  await countsNow()
  expect(wait.found()).toBe(0)
})

test('an answer that was there before its waiter is not counted, though the poll overtakes its read', async () => {
  const slow = holdFirst()
  const early = await waiting(slow.database, false)
  await until(() => slow.reads() === 1)
  await early.end()
  void early.settle.poll()
  await until(() => slow.reads() === 2)
  await countsNow()
  slow.release()
  expect((await early.settled).todo.state).toBe('canceled')
  expect(early.found()).toBe(0)
})
