/** The operator's queues: each has a card and a policy, whose members can be changed one by one. */
import { defined } from '../../base/defined.ts'
import { DEFAULT_POLICY, type QueuePolicy } from '../../domain/policy.ts'
import type { Queue, QueueCard } from '../../domain/queue.ts'
import { putQueue, readQueues, removeQueue } from '../../store/admin/queues.ts'
import type { Parts } from '../parts.ts'

/** Null removes the limit. */
interface Limits {
  concurrency?: number | null
  retentionDays?: number | null
  highestPriority?: number | null
  lowestPriority?: number | null
}

export interface QueueService {
  putQueue(put: {
    name: string
    card?: Partial<QueueCard>
    policy?: Partial<Omit<QueuePolicy, keyof Limits>> & Limits
  }): Promise<Queue>
  listQueues(): Promise<Queue[]>
  removeQueue(name: string): Promise<void>
}

const BLANK_CARD: Omit<QueueCard, 'name'> = {
  description: 'An agent behind switchboard',
  version: '1.0.0',
  skills: [],
}

export const createQueues = ({
  database,
  metrics,
}: Pick<Parts, 'database' | 'metrics'>): QueueService => ({
  putQueue: async ({ name, card, policy }) => {
    const before = (await readQueues(database)).find((queue) => queue.name === name)
    const { concurrency, retentionDays, highestPriority, lowestPriority, ...merged } = {
      ...DEFAULT_POLICY,
      ...before?.policy,
      ...policy,
      backoff: { ...DEFAULT_POLICY.backoff, ...before?.policy.backoff, ...policy?.backoff },
      timeouts: { ...before?.policy.timeouts, ...policy?.timeouts },
    }
    const limits = defined({
      concurrency: concurrency ?? undefined,
      retentionDays: retentionDays ?? undefined,
      highestPriority: highestPriority ?? undefined,
      lowestPriority: lowestPriority ?? undefined,
    })
    const queue = await putQueue(database, {
      name,
      card: { ...BLANK_CARD, name, ...before?.card, ...card },
      policy: { ...merged, ...limits },
    })
    metrics.seedQueue(name)
    return queue
  },
  listQueues: () => readQueues(database),
  removeQueue: (name) => removeQueue(database, name),
})
