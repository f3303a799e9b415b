/** What HTTP reports about itself, as metrics. */
import type { Metrics } from '../base/metrics.ts'
import type { HttpObserver } from '../http/server.ts'
import type { StreamOutcome } from '../http/stream/sse.ts'

export const streamObserver = (metrics: Metrics, kind: string) => ({
  opened: () => metrics.streamsOpen.inc({ kind }),
  closed: (outcome: StreamOutcome) => {
    metrics.streamsOpen.dec({ kind })
    if (outcome === 'stalled' || outcome === 'too_slow') metrics.streamsDropped.inc({ kind })
  },
})

export const httpObserver = (metrics: Metrics): HttpObserver => ({
  answered: (surface, { method, code, seconds }) => {
    metrics.requests.inc({ surface, method, code: String(code ?? 'ok') })
    metrics.requestSeconds.observe({ surface, method }, seconds)
  },
  streamOpened: (surface) => streamObserver(metrics, surface).opened(),
  streamClosed: (surface, outcome) => streamObserver(metrics, surface).closed(outcome),
  unauthenticated: () => metrics.authFailures.inc(),
})
