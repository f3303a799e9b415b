/**
 * How often something happened within a minute, counted on the database, so that a limit holds over all
 * nodes. What is past its limit is refused from memory until its minute is over, and costs the database
 * nothing. While the database is away each node counts for itself.
 */
import { RateLimiterMemory, RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible'
import type { Database, Session } from '../postgres/database.ts'
import { statement } from '../postgres/database.ts'
import { $, sql } from '../postgres/sql.ts'

const MINUTE_SECONDS = 60

export interface RateLimit {
  /** Counts one. How many milliseconds it has to wait where that was one too many, else 0. */
  spend(key: string): Promise<number>
  /** The same for the next one, and counts nothing. */
  ask(key: string): Promise<number>
}

/** Of what the library asks for: each statement goes the way of all others, and fails by the same rules. */
const clientOf = (database: Pick<Database, 'query'>) => ({
  query: async ({ text, values }: { text: string; values: unknown[] }) => {
    const rows = await database.query(text, values)
    return { rows, rowCount: rows.length }
  },
})

/** `perMinute` of each key, under `name`. A minute begins with the first of its key. */
export const createRateLimit = (
  database: Pick<Database, 'query'>,
  name: string,
  perMinute: number,
): RateLimit => {
  const limit = { keyPrefix: name, points: perMinute, duration: MINUTE_SECONDS }
  const limiter = new RateLimiterPostgres({
    ...limit,
    storeClient: clientOf(database),
    storeType: 'client',
    tableName: 'rate_limits',
    tableCreated: true,
    inMemoryBlockOnConsumed: perMinute,
    insuranceLimiter: new RateLimiterMemory(limit),
    // Rows are deleted where all that has expired is.
    clearExpiredByTimeout: false,
  })
  return {
    spend: async (key) => {
      try {
        await limiter.consume(key)
        return 0
      } catch (refused) {
        if (refused instanceof RateLimiterRes) return Math.max(1, refused.msBeforeNext)
        throw refused
      }
    },
    ask: async (key) => {
      const counted = await limiter.get(key)
      return counted && counted.consumedPoints >= perMinute ? Math.max(1, counted.msBeforeNext) : 0
    },
  }
}

const expireStatement = statement<{ count: number }>(
  'rate_limits_expire',
  sql`with gone as (
    delete from rate_limits where key in (
      select key from rate_limits where expire < extract(epoch from now()) * 1000 - 60000
      limit ${$.limit}::int)
    returning 1)
  select count(*)::int as count from gone`,
)

/** Deletes up to `limit` counts of minutes that are over for a minute; how many. */
export const expireRateLimits = async (session: Session, limit: number): Promise<number> =>
  (await session.run(expireStatement, { limit }))[0]!.count
