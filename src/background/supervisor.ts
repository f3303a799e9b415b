/**
 * Runs the background workers. Each worker is a name and a loop that ends when its signal fires.
 * One that returns or throws before that is counted, logged and started again after a backoff, and
 * its siblings never notice. What a failure leads to is decided in worker-failures.ts. Workers
 * start in order and stop in reverse.
 */
import { defined } from '../base/defined.ts'
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import { backoffMs, sleep, withTimeout } from '../base/time.ts'
import { createCircuit } from './worker-circuit.ts'
import { FAILURES, type Failure, type FailurePolicy } from './worker-failures.ts'

/** How a worker reports on itself while it runs. */
export interface Health {
  /** It has done its work. */
  ok(): void
  /** It could not do its work, and goes on trying. */
  failed(): void
}

export interface Worker {
  name: string
  policy: FailurePolicy
  run(signal: AbortSignal, health: Health): Promise<void>
}

interface WorkerState {
  name: string
  required: boolean
  /** It is running and not failing. */
  up: boolean
  failing: boolean
}

export interface Supervisor {
  /** Does nothing while running. A worker still ending since the last stop starts after it. */
  start(): void
  /** Resolves once all have ended, or at the deadline. Workers that have not ended are logged. */
  stop(deadlineMs: number): Promise<void>
  workers(): WorkerState[]
}

/** A worker that ran this long had recovered, so its next crash counts as the first. */
const RECOVERED_MS = 60_000
const FIRST_BACKOFF_MS = 200

interface Running {
  name: string
  stop: AbortController
  ended: Promise<void>
}

export interface SupervisorParts {
  log: Pick<Log, 'error' | 'warn'>
  metrics: Pick<Metrics, 'workerRestarts'>
}

export const createSupervisor = (
  workers: readonly Worker[],
  { log, metrics }: SupervisorParts,
): Supervisor => {
  const kept = workers.map((worker) => ({
    worker,
    circuit: createCircuit(worker.policy),
    runs: false,
    /** Resolves when its previous life is over, since there are never two at once. */
    over: Promise.resolve(),
  }))
  type Kept = (typeof kept)[number]
  let running: Running[] = []
  let stopped: Promise<void> | null = null

  const fail = ({ worker: { name }, circuit }: Kept, failure: Failure, err?: unknown): void => {
    const { counts, restart, message } = FAILURES[failure]
    const before = circuit.failing()
    if (counts) circuit.fail()
    if (restart) log.error(defined({ worker: name, err }), message)
    if (!before && circuit.failing()) log.error({ worker: name }, 'a worker keeps failing')
  }

  const healthOf = (one: Kept, signal: AbortSignal): Health => ({
    ok: () => {
      if (one.circuit.failing()) log.warn({ worker: one.worker.name }, 'a worker is well again')
      one.circuit.ok()
    },
    // A worker that fails because it is being stopped has not failed.
    failed: () => signal.aborted || fail(one, 'failed'),
  })

  /** One life of the worker. Resolves to how it went wrong, or to null where it was told to end. */
  const live = async (one: Kept, signal: AbortSignal): Promise<Failure | null> => {
    one.runs = true
    try {
      await one.worker.run(signal, healthOf(one, signal))
      if (signal.aborted) return null
      fail(one, 'returned')
      return 'returned'
    } catch (error) {
      if (signal.aborted) return null
      fail(one, 'crashed', error)
      return 'crashed'
    } finally {
      one.runs = false
    }
  }

  const keep = async (one: Kept, signal: AbortSignal): Promise<void> => {
    const { name, policy } = one.worker
    for (let crashes = 0; !signal.aborted; ) {
      const startedAt = performance.now()
      const failure = await live(one, signal)
      if (failure === null || !FAILURES[failure].restart) return
      metrics.workerRestarts.inc({ worker: name })
      crashes = performance.now() - startedAt > RECOVERED_MS ? 1 : crashes + 1
      const spacing = { initialMs: FIRST_BACKOFF_MS, maxMs: policy.maxBackoffMs }
      await sleep(backoffMs(crashes, spacing), signal).catch(() => {})
    }
  }

  /** Each gets its share of the time, so a worker that hangs takes none of its siblings'. */
  const stopAll = async (deadlineMs: number): Promise<void> => {
    const deadline = performance.now() + deadlineMs
    const late: string[] = []
    const left = running.toReversed()
    running = []
    for (const [index, { name, stop, ended }] of left.entries()) {
      stop.abort()
      const share = Math.max(0, deadline - performance.now()) / (left.length - index)
      if (!(await endsWithin(ended, share))) late.push(name)
    }
    if (late.length > 0) log.error({ workers: late, deadlineMs }, 'workers did not end in time')
  }

  return {
    start: () => {
      if (running.length > 0) return
      running = kept.map((one) => {
        const { name } = one.worker
        const stop = new AbortController()
        metrics.workerRestarts.inc({ worker: name }, 0)
        one.over = one.over.then(() => keep(one, stop.signal))
        return { name, stop, ended: one.over }
      })
    },
    stop: (deadlineMs) => {
      stopped ??= stopAll(deadlineMs).finally(() => {
        stopped = null
      })
      return stopped
    },
    workers: () =>
      kept.map(({ worker: { name, policy }, circuit, runs }) => {
        const failing = circuit.failing()
        return { name, required: policy.required, up: runs && !failing, failing }
      }),
  }
}

/** Whether it has ended by then. What had ended before counts, even with no time left. */
const endsWithin = (ended: Promise<void>, ms: number): Promise<boolean> =>
  withTimeout(ms, 'a worker', () => ended).then(
    () => true,
    () => false,
  )
