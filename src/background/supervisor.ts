/**
 * Runs what works without being asked. Each worker is a name and a loop that ends when its signal
 * fires; one that returns or throws before that is counted, logged and started again after a
 * backoff, and its siblings never notice. What a failure means is decided in worker-failures.ts.
 * Starting goes in order, stopping in reverse.
 */
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import { backoffMs, sleep } from '../base/time.ts'
import { createCircuit } from './worker-circuit.ts'
import { FAILURES, type Failure, type Regime } from './worker-failures.ts'

/** How a worker tells how it fares while it runs. */
export interface Health {
  /** It has done what it is for. */
  ok(): void
  /** It could not, and goes on trying. */
  failed(): void
}

export interface Worker {
  name: string
  regime: Regime
  run(signal: AbortSignal, health: Health): Promise<void>
}

interface WorkerState {
  name: string
  required: boolean
  /** It runs, and is not failing. */
  up: boolean
  failing: boolean
}

export interface Supervisor {
  /** Does nothing while running. One that has not ended since its stop is started once it has. */
  start(): void
  /** Resolves once all have ended, or at the deadline; what has not ended by then is logged. */
  stop(deadlineMs: number): Promise<void>
  workers(): WorkerState[]
}

/** A worker that ran this long had recovered: its next crash is a first one. */
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
    circuit: createCircuit(worker.regime),
    runs: false,
    /** When its life before this one was over: there are never two at once. */
    over: Promise.resolve(),
  }))
  type Kept = (typeof kept)[number]
  let running: Running[] = []
  let stopped: Promise<void> | null = null

  const fail = ({ worker: { name }, circuit }: Kept, failure: Failure, err?: unknown): void => {
    const { counts, told } = FAILURES[failure]
    const before = circuit.failing()
    if (counts) circuit.fail()
    if (FAILURES[failure].restart)
      log.error({ worker: name, ...(err !== undefined && { err }) }, told)
    if (!before && circuit.failing()) log.error({ worker: name }, 'a worker keeps failing')
  }

  const healthOf = (one: Kept, signal: AbortSignal): Health => ({
    ok: () => {
      if (one.circuit.failing()) log.warn({ worker: one.worker.name }, 'a worker is well again')
      one.circuit.ok()
    },
    // What fails because it is being stopped is no failure.
    failed: () => signal.aborted || fail(one, 'failed'),
  })

  /** One life of the worker; answers with how it went wrong, or null where it was told to end. */
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
    const { name, regime } = one.worker
    for (let crashes = 0; !signal.aborted; ) {
      const startedAt = performance.now()
      const failure = await live(one, signal)
      if (failure === null || !FAILURES[failure].restart) return
      metrics.workerRestarts.inc({ worker: name })
      crashes = performance.now() - startedAt > RECOVERED_MS ? 1 : crashes + 1
      const spacing = { initialMs: FIRST_BACKOFF_MS, maxMs: regime.maxBackoffMs }
      await sleep(backoffMs(crashes, spacing), signal).catch(() => {})
    }
  }

  /** Each gets its share of the time, so that one that hangs does not take its siblings'. */
  const stopAll = async (deadlineMs: number): Promise<void> => {
    const deadline = performance.now() + deadlineMs
    const late: string[] = []
    const left = running.toReversed()
    running = []
    for (const [place, { name, stop, ended }] of left.entries()) {
      stop.abort()
      const share = Math.max(0, deadline - performance.now()) / (left.length - place)
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
      kept.map(({ worker: { name, regime }, circuit, runs }) => {
        const failing = circuit.failing()
        return { name, required: regime.required, up: runs && !failing, failing }
      }),
  }
}

/** True where it has ended by then; what had ended before counts, also with no time left. */
const endsWithin = async (ended: Promise<void>, ms: number): Promise<boolean> => {
  const limit = new AbortController()
  const over = sleep(ms, limit.signal).then(
    () => false,
    () => false,
  )
  const inTime = await Promise.race([ended.then(() => true), over])
  limit.abort()
  return inTime
}
