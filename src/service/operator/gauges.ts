/** The gauges, which are read from the database and the pool at each scrape. */
import { INTERRUPT_STATES } from '../../domain/lifecycle.ts'
import { readGauges, readQueues, readUnservedQueues } from '../../store/admin/queues.ts'
import { readScheduleGauges } from '../../store/admin/schedules.ts'
import { readDeliveryGauges } from '../../store/push/delivery-log.ts'
import type { Waiters } from '../claims/waiters.ts'
import type { Parts } from '../parts.ts'
import { LIVE_STATES } from '../sweeps/revocation.ts'

interface GaugesParts extends Pick<Parts, 'database' | 'metrics'> {
  waiters: Pick<Waiters, 'count'>
  /** How the background fares. */
  workers: () => readonly { name: string; up: boolean }[]
}

const isInterrupt = (state: string): boolean =>
  (INTERRUPT_STATES as readonly string[]).includes(state)

/** What /metrics prints. While the database is away, the counters are still there. */
export const createGauges = ({ database, waiters, metrics, workers }: GaugesParts) => {
  const refresh = async (): Promise<void> => {
    const { total, idle, waiting } = database.counts()
    metrics.poolConnections.set({ state: 'busy' }, total - idle)
    metrics.poolConnections.set({ state: 'idle' }, idle)
    metrics.poolWaiting.set(waiting)
    metrics.waitingClaims.set(waiters.count())
    for (const { name, up } of workers()) metrics.workerUp.set({ worker: name }, up ? 1 : 0)
    const [queues, counts, unserved, deliveries, schedules] = await Promise.all([
      readQueues(database),
      readGauges(database),
      readUnservedQueues(database),
      readDeliveryGauges(database),
      readScheduleGauges(database),
    ])
    for (const state of ['active', 'paused', 'failing'] as const) {
      metrics.schedules.set({ state }, schedules[state])
    }
    metrics.scheduleOverdueSeconds.set(Math.max(0, schedules.overdueSeconds ?? 0))
    metrics.pushDeliveries.set({ state: 'pending' }, deliveries?.pending ?? 0)
    metrics.pushDeliveries.set({ state: 'dead' }, deliveries?.dead ?? 0)
    metrics.pushOldestPendingSeconds.set(Math.max(0, deliveries?.oldestSeconds ?? 0))
    const { queueTodos, queueUnserved, interruptOldestSeconds } = metrics
    const { queueOldestPendingSeconds: oldestPending, queueOldestIdleSeconds: oldestIdle } = metrics
    const ages = [oldestPending, oldestIdle, interruptOldestSeconds]
    for (const gauge of [queueTodos, queueUnserved, ...ages]) gauge.reset()
    for (const { name: queue } of queues) {
      // The queue may have been added on another node.
      metrics.seedQueue(queue)
      for (const state of LIVE_STATES) queueTodos.set({ queue, state }, 0)
      for (const age of ages) age.set({ queue }, 0)
      queueUnserved.set({ queue }, 0)
    }
    for (const { queue, todos } of unserved) queueUnserved.set({ queue }, todos)
    const oldestInterrupt = new Map<string, number>()
    for (const { queue, state, count, oldestSeconds, idleSeconds } of counts) {
      queueTodos.set({ queue, state }, count)
      const oldest = Math.max(0, oldestSeconds ?? 0)
      if (idleSeconds !== null) oldestIdle.set({ queue }, Math.max(0, idleSeconds))
      if (state === 'pending') oldestPending.set({ queue }, oldest)
      if (isInterrupt(state)) {
        oldestInterrupt.set(queue, Math.max(oldest, oldestInterrupt.get(queue) ?? 0))
      }
    }
    for (const [queue, oldest] of oldestInterrupt) interruptOldestSeconds.set({ queue }, oldest)
  }

  return {
    contentType: metrics.registry.contentType,
    metrics: async (): Promise<string> => {
      await refresh().catch(() => {})
      return metrics.registry.metrics()
    },
  }
}
