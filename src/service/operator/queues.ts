/** The operator's queues: each has a card and a policy, whose members can be changed one by one. */
import { DEFAULT_POLICY, type QueuePolicy } from '../../domain/policy.ts'
import type { Queue, QueueCard } from '../../domain/queue.ts'
import { putQueue, readQueues, removeQueue } from '../../store/admin/queues.ts'
import type { Parts } from '../parts.ts'

/** Each member may be null, which unsets it. */
type Unsettable<T> = { [K in keyof T]?: T[K] | null }

/** A change of a policy: null puts the default back, or removes a limit that has none. */
type PolicyChange = Unsettable<Omit<QueuePolicy, 'backoff' | 'timeouts'>> & {
  backoff?: Unsettable<QueuePolicy['backoff']> | null
  timeouts?: Unsettable<QueuePolicy['timeouts']> | null
}

export interface QueueService {
  putQueue(put: { name: string; card?: Partial<QueueCard>; policy?: PolicyChange }): Promise<Queue>
  listQueues(): Promise<Queue[]>
  removeQueue(name: string): Promise<void>
}

const BLANK_CARD: Omit<QueueCard, 'name'> = {
  description: 'An agent behind switchboard',
  version: '1.0.0',
  skills: [],
}

/** `base` with what was there before and what is changed over it; what is null falls back to `base`. */
const layered = <T extends object>(base: T, before: Partial<T> = {}, change: object = {}): T => {
  const members = Object.entries({ ...before, ...change }).filter(([, value]) => value !== null)
  return { ...base, ...Object.fromEntries(members) }
}

const policyAfter = (before?: QueuePolicy, change: PolicyChange = {}): QueuePolicy => ({
  ...layered(DEFAULT_POLICY, before, change),
  backoff:
    change.backoff === null
      ? DEFAULT_POLICY.backoff
      : layered(DEFAULT_POLICY.backoff, before?.backoff, change.backoff),
  timeouts: change.timeouts === null ? {} : layered({}, before?.timeouts, change.timeouts),
})

export const createQueues = ({
  database,
  metrics,
}: Pick<Parts, 'database' | 'metrics'>): QueueService => ({
  putQueue: async ({ name, card, policy }) => {
    const before = (await readQueues(database)).find((queue) => queue.name === name)
    const queue = await putQueue(database, {
      name,
      card: { ...BLANK_CARD, name, ...before?.card, ...card },
      policy: policyAfter(before?.policy, policy),
    })
    metrics.seedQueue(name)
    return queue
  },
  listQueues: () => readQueues(database),
  removeQueue: (name) => removeQueue(database, name),
})
