/**
 * Queues, endpoints and settings for the hot paths: kept in the process for a moment, so that no
 * request pays a round trip for its credentials. A wake drops what has changed at once on every
 * node; should it be lost, a copy is at most TTL_MS old. What must be exact (a claim by an endpoint
 * that was revoked this instant) is checked again in its statement.
 */

import type { Caller, Endpoint } from '../domain/endpoint.ts'
import type { Queue } from '../domain/queue.ts'
import { readEndpointByToken } from '../store/admin/endpoints.ts'
import { readQueues } from '../store/admin/queues.ts'
import { readSettings } from '../store/admin/settings.ts'
import { topics } from '../store/wake/topics.ts'
import type { Parts } from './parts.ts'

/** Who a bearer token belongs to; null if it belongs to nobody, is revoked or has expired. */
export type Authenticate = (token: string) => Promise<Caller | null>

/** A queue by name, or null if there is none. `null` asks for the default: the setting's, else the oldest. */
export type ReadQueue = (name: string | null) => Promise<Queue | null>

export const TTL_MS = 2000
/** How many tokens are remembered; the oldest goes first. */
const MAX_TOKENS = 10_000
/** No bearer token of ours is longer, so a longer one is not worth a query. */
const MAX_TOKEN_LENGTH = 512

export interface Registry {
  authenticate: Authenticate
  queue: ReadQueue
  queues(): Promise<ReadonlyMap<string, Queue>>
  settings(): Promise<ReadonlyMap<string, string>>
  /** Calls back when the token of an endpoint that was used lately has expired. */
  onExpired(listener: (endpointId: string) => void): void
}

interface Kept {
  reading: Promise<Endpoint | null>
  readAt: number
  /** Fires when the token expires. */
  timer?: NodeJS.Timeout
}

/** The longest that a timer can wait. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** One value, which is read at most once each TTL_MS however many ask. */
const remembered = <T>(read: () => Promise<T>): { get(): Promise<T>; forget(): void } => {
  let value: Promise<T> | null = null
  let readAt = 0
  return {
    get: () => {
      if (value && performance.now() - readAt < TTL_MS) return value
      readAt = performance.now()
      const reading = read()
      value = reading
      reading.catch(() => {
        if (value === reading) value = null
      })
      return reading
    },
    forget: () => {
      value = null
    },
  }
}

export const createRegistry = ({
  database,
  wakes,
}: Pick<Parts, 'database' | 'wakes'>): Registry => {
  const queues = remembered(
    async () => new Map((await readQueues(database)).map((queue) => [queue.name, queue])),
  )
  const settings = remembered(() => readSettings(database))
  const endpoints = new Map<string, Kept>()
  let onExpired: (endpointId: string) => void = () => {}

  wakes.on(topics.queues, queues.forget)
  wakes.on(topics.settings, settings.forget)
  wakes.on(topics.endpoints, () => {
    for (const { timer } of endpoints.values()) clearTimeout(timer)
    endpoints.clear()
  })
  const forget = (token: string): void => {
    clearTimeout(endpoints.get(token)?.timer)
    endpoints.delete(token)
  }

  const read = async (token: string, kept: () => Kept): Promise<Endpoint | null> => {
    const found = await readEndpointByToken(database, token)
    if (!found) return null
    const { endpoint, expiresInMs } = found
    if (expiresInMs === null || expiresInMs > MAX_TIMER_MS) return endpoint
    const expire = (): void => {
      if (endpoints.get(token) === kept()) endpoints.delete(token)
      onExpired(endpoint.id)
    }
    // It may have been dropped meanwhile, and whoever reads it next has a timer of its own.
    if (endpoints.get(token) === kept()) {
      kept().timer = setTimeout(expire, Math.ceil(expiresInMs) + 1).unref()
    }
    return endpoint
  }

  const endpoint = (token: string): Promise<Endpoint | null> => {
    const known = endpoints.get(token)
    if (known && performance.now() - known.readAt < TTL_MS) return known.reading
    forget(token)
    const kept: Kept = { reading: read(token, () => kept), readAt: performance.now() }
    endpoints.set(token, kept)
    if (endpoints.size > MAX_TOKENS) forget(endpoints.keys().next().value!)
    kept.reading.catch(() => endpoints.delete(token))
    return kept.reading
  }

  return {
    authenticate: async (token) => {
      if (token === '' || token.length > MAX_TOKEN_LENGTH) return null
      const found = await endpoint(token)
      return found && { kind: 'endpoint', endpoint: found }
    },
    queue: async (name) => {
      const all = await queues.get()
      if (name !== null) return all.get(name) ?? null
      const chosen = (await settings.get()).get('default_queue')
      return (chosen && all.get(chosen)) || (all.values().next().value ?? null)
    },
    queues: queues.get,
    settings: settings.get,
    onExpired: (listener) => {
      onExpired = listener
    },
  }
}
