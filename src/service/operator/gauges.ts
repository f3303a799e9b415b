/** The gauges that are read from the database and the pool when somebody scrapes. */
import type { Metrics } from '../../base/metrics.ts'
import { INTERRUPT_STATES, phaseOf, STATE_NAMES, type State } from '../../domain/lifecycle.ts'
import { readGauges, readQueues } from '../../store/admin/queues.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readDeliveryGauges } from '../../store/push/delivery-log.ts'
import type { Waiters } from '../claims/waiters.ts'

export interface GaugesParts {
  database: Database
  waiters: Waiters
  metrics: Metrics
  /** How the background fares. */
  workers: () => readonly { name: string; up: boolean }[]
}

const LIVE: readonly State[] = STATE_NAMES.filter(
  (state) => phaseOf({ state, nextRetryAt: state === 'failed' ? true : null }) !== 'ended',
)

/** What /metrics prints. While the database is away the counters are still there. */
export const createGauges = ({ database, waiters, metrics, workers }: GaugesParts) => {
  const refresh = async (): Promise<void> => {
    const { total, idle, waiting } = database.counts()
    metrics.poolConnections.set({ state: 'busy' }, total - idle)
    metrics.poolConnections.set({ state: 'idle' }, idle)
    metrics.poolWaiting.set(waiting)
    metrics.waitingClaims.set(waiters.count())
    for (const { name, up } of workers()) metrics.workerUp.set({ worker: name }, up ? 1 : 0)
    const [queues, counts, deliveries] = await Promise.all([
      readQueues(database),
      readGauges(database),
      readDeliveryGauges(database),
    ])
    metrics.pushDeliveries.set({ state: 'pending' }, deliveries?.pending ?? 0)
    metrics.pushDeliveries.set({ state: 'dead' }, deliveries?.dead ?? 0)
    metrics.pushOldestPendingSeconds.set(Math.max(0, deliveries?.oldestSeconds ?? 0))
    metrics.queueTodos.reset()
    metrics.queueOldestPendingSeconds.reset()
    metrics.queueOldestIdleSeconds.reset()
    metrics.interruptOldestSeconds.reset()
    for (const { name: queue } of queues) {
      // It may have been made on another node.
      metrics.seedQueue(queue)
      for (const state of LIVE) metrics.queueTodos.set({ queue, state }, 0)
      metrics.queueOldestPendingSeconds.set({ queue }, 0)
      metrics.queueOldestIdleSeconds.set({ queue }, 0)
      metrics.interruptOldestSeconds.set({ queue }, 0)
    }
    const oldestInterrupt = new Map<string, number>()
    for (const { queue, state, count, oldestSeconds, idleSeconds } of counts) {
      metrics.queueTodos.set({ queue, state }, count)
      const oldest = Math.max(0, oldestSeconds ?? 0)
      if (idleSeconds !== null) {
        metrics.queueOldestIdleSeconds.set({ queue }, Math.max(0, idleSeconds))
      }
      if (state === 'pending') metrics.queueOldestPendingSeconds.set({ queue }, oldest)
      if ((INTERRUPT_STATES as readonly string[]).includes(state)) {
        oldestInterrupt.set(queue, Math.max(oldest, oldestInterrupt.get(queue) ?? 0))
      }
    }
    for (const [queue, oldest] of oldestInterrupt) {
      metrics.interruptOldestSeconds.set({ queue }, oldest)
    }
  }

  return {
    contentType: metrics.registry.contentType,
    metrics: async (): Promise<string> => {
      await refresh().catch(() => {})
      return metrics.registry.metrics()
    },
  }
}
