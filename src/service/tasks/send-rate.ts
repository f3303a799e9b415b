/**
 * Limits how many new tasks an endpoint may send a minute, and messages to live ones, over all nodes: a
 * brake on a client that runs wild, not an account.
 */
import type { Endpoint } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { createRateLimit, type RateLimit } from '../../store/admin/rate-limits.ts'
import type { Parts } from '../parts.ts'

/** How many different limits are kept ready. */
const MAX_LIMITS = 1000

export interface SendRate {
  /**
   * Counts one; undefined, at once, for an endpoint without a limit. Refuses: rate_limited, with the
   * seconds until more are let in.
   */
  spend(endpoint: Pick<Endpoint, 'id' | 'sendPerMinute'>): Promise<void> | undefined
}

export const createSendRate = ({ database }: Pick<Parts, 'database'>): SendRate => {
  const limits = new Map<number, RateLimit>()

  const limitOf = (perMinute: number): RateLimit => {
    const limit = limits.get(perMinute) ?? createRateLimit(database, 'send', perMinute)
    if (limits.size >= MAX_LIMITS) limits.clear()
    limits.set(perMinute, limit)
    return limit
  }

  const spend = async (id: string, perMinute: number): Promise<void> => {
    const waitMs = await limitOf(perMinute).spend(id)
    if (waitMs === 0) return
    throw new Refusal('rate_limited', { retryAfterSeconds: Math.ceil(waitMs / 1000) })
  }

  return {
    spend: ({ id, sendPerMinute }) =>
      sendPerMinute === null ? undefined : spend(id, sendPerMinute),
  }
}
