/** The operator's endpoints: credentials, each with the queues and verbs that it is good for. */
import type { Endpoint, EndpointVerb } from '../../domain/endpoint.ts'
import { invalid, orNotFound } from '../../domain/errors.ts'
import { LEASE } from '../../domain/policy.ts'
import {
  addEndpoint,
  newToken,
  readEndpoints,
  revokeEndpoint,
  rotateEndpoint,
  updateEndpoint,
} from '../../store/admin/endpoints.ts'
import { readQueues } from '../../store/admin/queues.ts'
import type { Parts } from '../parts.ts'
import type { Revocation } from '../sweeps/revocation.ts'

interface Vend {
  name: string
  queues: string[]
  verbs: EndpointVerb[]
  defaultLeaseSeconds?: number
  interruptTtlSeconds?: number
  effects?: string[]
  expiresInSeconds?: number
  sendPerMinute?: number
  /** How many todos it may hold claimed at once. */
  concurrency?: number
  /** The priorities that its sends may name. */
  highestPriority?: number
  lowestPriority?: number
}

/** What `null` removes. */
type Removable = 'concurrency' | 'highestPriority' | 'lowestPriority'

export interface EndpointService {
  vend(vend: Vend): Promise<{ endpoint: Endpoint; token: string }>
  listEndpoints(): Promise<Endpoint[]>
  revoke(id: string, cancelTasks: boolean): Promise<Endpoint>
  rotate(id: string): Promise<{ endpoint: Endpoint; token: string }>
  updateEndpoint(
    id: string,
    change: Partial<Omit<Vend, 'expiresInSeconds' | Removable>> & {
      [Limit in Removable]?: number | null
    },
  ): Promise<Endpoint>
}

interface EndpointParts extends Pick<Parts, 'database'> {
  revocation: Revocation
}

export const createEndpoints = ({ database, revocation }: EndpointParts): EndpointService => {
  const requireQueues = async (queues: readonly string[] | undefined): Promise<void> => {
    if (!queues) return
    const known = new Set((await readQueues(database)).map(({ name }) => name))
    const unknown = queues.filter((queue) => !known.has(queue))
    if (unknown.length > 0) throw invalid('queues', `there is no queue ${unknown.join(', ')}`)
  }

  return {
    vend: async (vend) => {
      await requireQueues(vend.queues)
      const token = newToken()
      const endpoint = await addEndpoint(database, token, {
        name: vend.name,
        queues: vend.queues,
        verbs: vend.verbs,
        defaultLeaseSeconds: vend.defaultLeaseSeconds ?? LEASE.defaultSeconds,
        interruptTtlSeconds: vend.interruptTtlSeconds ?? null,
        effects: vend.effects ?? null,
        sendPerMinute: vend.sendPerMinute ?? null,
        concurrency: vend.concurrency ?? null,
        highestPriority: vend.highestPriority ?? null,
        lowestPriority: vend.lowestPriority ?? null,
        expiresInSeconds: vend.expiresInSeconds ?? null,
      })
      return { endpoint, token }
    },
    listEndpoints: () => readEndpoints(database),
    revoke: async (id, cancelTasks) => {
      const endpoint = orNotFound(await revokeEndpoint(database, id))
      await revocation.settle(id)
      if (cancelTasks) await revocation.cancelAllOf(endpoint)
      return endpoint
    },
    rotate: async (id) => {
      const token = newToken()
      return { endpoint: orNotFound(await rotateEndpoint(database, id, token)), token }
    },
    updateEndpoint: async (id, change) => {
      await requireQueues(change.queues)
      const endpoint = orNotFound(await updateEndpoint(database, id, change))
      if (change.verbs !== undefined && !endpoint.verbs.includes('work')) {
        await revocation.settleIdle(id)
      }
      return endpoint
    },
  }
}
