/** How this node calls webhooks: the courier, with the outbox it reads and the poster it sends with. */

import { createCourier } from '../background/courier.ts'
import type { Log } from '../base/log.ts'
import { PUSH_LIMITS } from '../domain/push.ts'
import { fromOwed as fromOwedV1 } from '../protocol/v1/translate.ts'
import { fromOwed as fromOwedV03 } from '../protocol/v03/push.ts'
import type { Parts } from '../service/parts.ts'
import { createOutbox } from '../service/push/outbox.ts'
import type { Sealing } from '../service/push/sealing.ts'
import { topics } from '../store/wake/topics.ts'
import type { Guard } from '../webhook/guard.ts'
import { createPoster } from '../webhook/post.ts'
import { signatureOf } from '../webhook/signature.ts'
import type { PushOptions } from './options.ts'

const DEFAULTS = { connectMs: 10_000, concurrency: 64, perHost: 8 } as const
/** A webhook that is slow to answer does not keep a node from stopping. */
const DRAIN_MS = 5000

interface WebhooksParts extends Omit<Parts, 'log'> {
  log: Log
  guard: Guard
  sealing: Sealing
  stopping: AbortSignal
}

export const createWebhooks = (options: PushOptions | undefined, parts: WebhooksParts) => {
  const { database, wakes, registry, guard, metrics, log, stopping, pollMs } = parts
  const pushing = { ...DEFAULTS, ...PUSH_LIMITS, ...options }
  const poster = createPoster({ ...pushing, guard })
  const payloads = { '1.0': fromOwedV1, '0.3': fromOwedV03 }
  const courier = createCourier({
    ...pushing,
    outbox: createOutbox({
      database,
      registry,
      limits: pushing,
      metrics,
      log,
      payloads,
      sealing: parts.sealing,
    }),
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
