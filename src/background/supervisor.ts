/**
 * Runs what works without being asked. Each worker is a name and a loop that ends when its signal
 * fires; one that returns or throws before that has crashed: it is counted, logged and started
 * again after a backoff, and its siblings never notice. Stopping goes in reverse order.
 */
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import { backoffMs, sleep } from '../base/time.ts'

export interface Worker {
  name: string
  run(signal: AbortSignal): Promise<void>
}

export interface Supervisor {
  start(): void
  /** Resolves once all have ended, or at the deadline. */
  stop(deadlineMs: number): Promise<void>
}

/** A worker that ran this long had recovered: its next crash is a first one. */
const RECOVERED_MS = 60_000

export const createSupervisor = (
  workers: readonly Worker[],
  { log, metrics }: { log: Log; metrics: Metrics },
): Supervisor => {
  const running: { stop: AbortController; ended: Promise<void> }[] = []

  const keep = async ({ name, run }: Worker, signal: AbortSignal): Promise<void> => {
    for (let crashes = 0; !signal.aborted; ) {
      const startedAt = performance.now()
      try {
        await run(signal)
        if (signal.aborted) return
        log.error({ worker: name }, 'a worker ended that should not')
      } catch (error) {
        if (signal.aborted) return
        log.error({ worker: name, err: error }, 'a worker crashed')
      }
      metrics.workerRestarts.inc({ worker: name })
      crashes = performance.now() - startedAt > RECOVERED_MS ? 1 : crashes + 1
      await sleep(backoffMs(crashes), signal).catch(() => {})
    }
  }

  return {
    start: () => {
      for (const worker of workers) {
        const stop = new AbortController()
        metrics.workerRestarts.inc({ worker: worker.name }, 0)
        running.push({ stop, ended: keep(worker, stop.signal) })
      }
    },
    stop: async (deadlineMs) => {
      const late = new AbortController()
      const deadline = sleep(deadlineMs, late.signal).catch(() => {})
      for (const { stop, ended } of running.splice(0).reverse()) {
        stop.abort()
        await Promise.race([ended, deadline])
      }
      late.abort()
    },
  }
}
