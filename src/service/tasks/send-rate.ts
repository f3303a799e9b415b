/**
 * Limits how many new tasks an endpoint may send a minute. Each node counts for itself: this is a
 * brake on a client that runs wild, not an account. Tokens come back evenly, so a burst is followed
 * by calm.
 */
import type { Endpoint } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'

/** How many endpoints are remembered; a forgotten one starts again with a full minute's worth. */
const MAX_ENDPOINTS = 10_000

export interface SendRate {
  /** Spends one token. Refuses: rate_limited, with the seconds until one more is allowed. */
  spend(endpoint: Pick<Endpoint, 'id' | 'sendPerMinute'>): void
}

export const createSendRate = (now: () => number = () => performance.now()): SendRate => {
  const buckets = new Map<string, { tokens: number; at: number }>()
  return {
    spend: ({ id, sendPerMinute }) => {
      if (sendPerMinute === null) return
      const known = buckets.get(id) ?? { tokens: sendPerMinute, at: now() }
      const refilled = known.tokens + ((now() - known.at) / 60_000) * sendPerMinute
      const tokens = Math.min(sendPerMinute, refilled)
      const left = tokens < 1 ? tokens : tokens - 1
      buckets.delete(id)
      buckets.set(id, { tokens: left, at: now() })
      if (buckets.size > MAX_ENDPOINTS) buckets.delete(buckets.keys().next().value!)
      if (tokens >= 1) return
      const retryAfterSeconds = Math.max(1, Math.ceil(((1 - tokens) / sendPerMinute) * 60))
      throw new Refusal('rate_limited', { retryAfterSeconds })
    },
  }
}
