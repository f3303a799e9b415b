import { expect, test } from 'vitest'
import { createSupervisor, type Worker } from '../../src/background/supervisor.ts'
import type { FailurePolicy } from '../../src/background/worker-failures.ts'
import { createLog } from '../../src/base/log.ts'
import { createMetrics } from '../../src/base/metrics.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const POLICY: FailurePolicy = { required: true, failures: 3, windowMs: 60_000, maxBackoffMs: 1 }

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })

const worker = (name: string, run: Worker['run'], policy: Partial<FailurePolicy> = {}): Worker => ({
  name,
  policy: { ...POLICY, ...policy },
  run,
})

/** A worker that does its work until it is told to end, and says which lives it had. */
const steady = (name: string, said: string[] = []) =>
  worker(name, async (signal, health) => {
    said.push(`${name} starts`)
    health.ok()
    await aborted(signal)
    said.push(`${name} ends`)
  })

const supervise = (workers: Worker[]) => {
  const metrics = createMetrics()
  const logged: { msg: string; worker?: string; err?: { message: string } }[] = []
  const log = createLog('info', { write: (line: string) => void logged.push(JSON.parse(line)) })
  const supervisor = createSupervisor(workers, { log, metrics })
  return {
    ...supervisor,
    logged,
    restarts: async (name: string) => {
      const { values } = await metrics.workerRestarts.get()
      return values.find(({ labels }) => labels.worker === name)?.value
    },
    stateOf: (name: string) => supervisor.workers().find((state) => state.name === name),
  }
}

test('a worker that throws is logged, counted and started again; its siblings go on in their first life', async () => {
  const said: string[] = []
  let lives = 0
  const crashing = worker('crashing', async (signal) => {
    lives += 1
    if (lives <= 2) throw new Error(`crash ${lives}`)
    await aborted(signal)
  })
  const it = supervise([steady('before', said), crashing, steady('behind', said)])
  it.start()
  await until(() => lives === 3)
  expect(await it.restarts('crashing')).toBe(2)
  expect(await it.restarts('before')).toBe(0)
  expect(it.logged.map(({ worker, err }) => [worker, err?.message])).toEqual([
    ['crashing', 'crash 1'],
    ['crashing', 'crash 2'],
  ])
  expect(said).toEqual(['before starts', 'behind starts'])
  await it.stop(1000)
  expect(said.slice(2)).toEqual(['behind ends', 'before ends'])
})

test('a worker that throws before it has awaited anything is no different', async () => {
  let lives = 0
  const sync = worker('sync', () => {
    lives += 1
    throw new Error('at once')
  })
  const it = supervise([sync, steady('sibling')])
  it.start()
  await until(() => lives >= 3)
  expect(it.stateOf('sibling')).toMatchObject({ up: true })
  await it.stop(1000)
})

test('a worker that returns is started again, as if it had crashed', async () => {
  let lives = 0
  const it = supervise([
    worker('short', async () => {
      lives += 1
    }),
  ])
  it.start()
  await until(() => lives >= 3)
  expect(it.logged[0]).toMatchObject({
    worker: 'short',
    msg: 'a worker ended that should not',
  })
  await until(() => it.stateOf('short')?.failing)
  await it.stop(1000)
  const ended = lives
  expect(await it.restarts('short')).toBeGreaterThanOrEqual(2)
  await new Promise((resolve) => setImmediate(resolve))
  expect(lives).toBe(ended)
})

test('one that keeps crashing is failing from its third crash on, and up again once it says that it is well', async () => {
  let broken = true
  const it = supervise([
    worker('flaky', async (signal, health) => {
      if (broken) throw new Error('no')
      health.ok()
      await aborted(signal)
    }),
    steady('sibling'),
  ])
  it.start()
  await until(() => it.stateOf('flaky')?.failing)
  expect(it.stateOf('flaky')).toMatchObject({ required: true, up: false })
  expect(it.stateOf('sibling')).toMatchObject({ up: true, failing: false })
  expect(it.logged.filter(({ msg }) => msg === 'a worker keeps failing')).toHaveLength(1)
  broken = false
  await until(() => it.stateOf('flaky')?.up)
  expect(it.stateOf('flaky')).toMatchObject({ failing: false })
  await it.stop(1000)
})

test('one that goes on but reports failures is failing without a restart', async () => {
  let health: Parameters<Worker['run']>[1] | undefined
  const it = supervise([
    worker('sweeper', async (signal, given) => {
      health = given
      await aborted(signal)
    }),
  ])
  it.start()
  await until(() => health)
  health!.failed()
  health!.ok()
  health!.failed()
  expect(it.stateOf('sweeper')).toMatchObject({ up: true, failing: false })
  // Being well in between forgives nothing before it is failing.
  health!.failed()
  expect(it.stateOf('sweeper')).toMatchObject({ up: false, failing: true })
  health!.ok()
  expect(it.stateOf('sweeper')).toMatchObject({ up: true, failing: false })
  expect(await it.restarts('sweeper')).toBe(0)
  await it.stop(1000)
})

test('workers end in reverse order; one that hangs costs its share of the time, is named in the log, and no other', async () => {
  const said: string[] = []
  const it = supervise([
    steady('first', said),
    worker('hanging', () => new Promise(() => {})),
    steady('last', said),
  ])
  it.start()
  await until(() => said.length === 2)
  const started = performance.now()
  await it.stop(200)
  expect(performance.now() - started).toBeLessThan(scaled(2000))
  expect(said).toEqual(['first starts', 'last starts', 'last ends', 'first ends'])
  expect(it.logged).toMatchObject([
    { workers: ['hanging'], deadlineMs: 200, msg: 'workers did not end in time' },
  ])
})

test('a hanging worker is not started a second time before its first life is over', async () => {
  let lives = 0
  let release = () => {}
  const it = supervise([
    worker('hanging', () => {
      lives += 1
      return new Promise((resolve) => {
        release = resolve
      })
    }),
  ])
  it.start()
  await until(() => lives === 1)
  await it.stop(10)
  it.start()
  await new Promise((resolve) => setImmediate(resolve))
  expect(lives).toBe(1)
  release()
  await until(() => lives === 2)
  const stopped = it.stop(1000)
  release()
  await stopped
})

test('started and stopped a hundred times, also twice at once, each worker lives once at a time and is gone after', async () => {
  let living = 0
  let most = 0
  const busy = (name: string) =>
    worker(name, async (signal, health) => {
      living += 1
      most = Math.max(most, living)
      health.ok()
      if (Math.random() < 0.3) {
        living -= 1
        throw new Error('by chance')
      }
      await aborted(signal)
      living -= 1
    })
  const it = supervise(['a', 'b', 'c', 'd'].map(busy))
  for (let round = 0; round < 100; round += 1) {
    it.start()
    it.start()
    if (round % 3 === 0) await new Promise((resolve) => setImmediate(resolve))
    await Promise.all([it.stop(5000), it.stop(5000)])
    expect(living).toBe(0)
  }
  expect(most).toBeLessThanOrEqual(4)
  expect(it.logged.some(({ msg }) => msg === 'workers did not end in time')).toBe(false)
})
