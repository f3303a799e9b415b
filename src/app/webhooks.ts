/** How this node tells webhooks: the courier, with what it takes from and what it sends with. */

import { createCourier } from '../background/courier.ts'
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import { PUSH_LIMITS } from '../domain/push.ts'
import { fromOwed as fromOwedV1 } from '../protocol/v1/translate.ts'
import { fromOwed as fromOwedV03 } from '../protocol/v03/push.ts'
import { createOutbox } from '../service/push/outbox.ts'
import type { Registry } from '../service/registry.ts'
import type { Database } from '../store/postgres/database.ts'
import { topics } from '../store/wake/topics.ts'
import type { Wakes } from '../store/wake/wake.ts'
import type { Guard } from '../webhook/guard.ts'
import { createPoster } from '../webhook/post.ts'
import { signatureOf } from '../webhook/signature.ts'
import type { PushOptions } from './options.ts'

const DEFAULTS = { connectMs: 10_000, concurrency: 64, perHost: 8 } as const
/** A webhook that is slow to answer keeps no node from stopping. */
const DRAIN_MS = 5000

interface WebhooksParts {
  database: Database
  wakes: Pick<Wakes, 'on'>
  registry: Registry
  guard: Guard
  metrics: Metrics
  log: Log
  stopping: AbortSignal
  pollMs: number
}

export const createWebhooks = (options: PushOptions | undefined, parts: WebhooksParts) => {
  const { database, wakes, registry, guard, metrics, log, stopping, pollMs } = parts
  const pushing = { ...DEFAULTS, ...PUSH_LIMITS, ...options }
  const poster = createPoster({ ...pushing, guard })
  const courier = createCourier({
    ...pushing,
    outbox: createOutbox({ database, registry, limits: pushing, metrics, log }),
    payloads: { '1.0': fromOwedV1, '0.3': fromOwedV03 },
    post: poster.post,
    sign: signatureOf,
    onOwed: (listener) => wakes.on(topics.deliveries, listener),
    stopping,
    log,
    pollMs,
  })
  return {
    run: courier.run,
    stop: async (ms: number): Promise<void> => {
      await courier.drain(Math.min(ms, DRAIN_MS))
      await poster.close()
    },
  }
}
