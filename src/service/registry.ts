/**
 * Queues, endpoints and settings as the hot paths need them: kept for a moment in the process, so
 * that no request pays a round trip for its credentials. A wake drops what changed at once on
 * every node; should it be lost, a copy is at most TTL_MS old. What must be exact (a claim by an
 * endpoint revoked this instant) is checked again in its statement.
 */

import type { Caller, Endpoint } from '../domain/endpoint.ts'
import type { Queue } from '../domain/queue.ts'
import { readEndpointByToken } from '../store/admin/endpoints.ts'
import { readQueues } from '../store/admin/queues.ts'
import { readSettings } from '../store/admin/settings.ts'
import type { Database } from '../store/postgres/database.ts'
import { topics } from '../store/wake/topics.ts'
import type { Wakes } from '../store/wake/wake.ts'

const TTL_MS = 2000
/** Tokens remembered at most; the oldest goes first. */
const TOKENS_AT_MOST = 10_000
/** A bearer token is never longer; a longer one is not worth a query. */
const TOKEN_LENGTH_AT_MOST = 512

export interface Registry {
  /** The live endpoint a bearer token belongs to, or null. */
  authenticate(token: string): Promise<Caller | null>
  /** A queue by name, or the default one for null: that of the settings row, else the oldest. */
  queue(name: string | null): Promise<Queue | null>
  queues(): Promise<ReadonlyMap<string, Queue>>
  settings(): Promise<ReadonlyMap<string, string>>
}

export interface RegistryParts {
  database: Database
  wakes: Wakes
}

/** One value, read at most once each TTL_MS however many ask. */
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

export const createRegistry = ({ database, wakes }: RegistryParts): Registry => {
  const queues = remembered(
    async () => new Map((await readQueues(database)).map((queue) => [queue.name, queue])),
  )
  const settings = remembered(() => readSettings(database))
  const endpoints = new Map<string, { reading: Promise<Endpoint | null>; readAt: number }>()

  wakes.on(topics.queues, queues.forget)
  wakes.on(topics.settings, settings.forget)
  wakes.on(topics.endpoints, () => endpoints.clear())
  const endpoint = (token: string): Promise<Endpoint | null> => {
    const known = endpoints.get(token)
    if (known && performance.now() - known.readAt < TTL_MS) return known.reading
    const reading = readEndpointByToken(database, token)
    endpoints.delete(token)
    endpoints.set(token, { reading, readAt: performance.now() })
    if (endpoints.size > TOKENS_AT_MOST) endpoints.delete(endpoints.keys().next().value!)
    reading.catch(() => endpoints.delete(token))
    return reading
  }

  return {
    authenticate: async (token) => {
      if (token === '' || token.length > TOKEN_LENGTH_AT_MOST) return null
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
  }
}
