/** What a client of the run wants done, drawn from the seed, and what it wrote down of it. */
import type { Answer, Frame } from '../support/clients/actors.ts'
import type { Dialect } from './dialect.ts'
import { QUEUES, WORKS, type Work } from './work.ts'

export interface Order {
  messageId: string
  contextId: string
  queue: keyof typeof QUEUES
  work: Work
  how: 'blocking' | 'at once' | 'stream'
  /** An Idempotency-Key. */
  key?: string
  /** Sent twice at the same moment, under one key. */
  twin: boolean
  /** The path of its webhook. */
  hook?: string
  cancelAfterMs?: number
  /** Whether its questions are answered. */
  answers: boolean
  /** A message that nobody asked for, into the task at work. */
  unasked: boolean
}

/** The same send again makes nothing twice: by its key, or by its queue's policy. */
export const isRepeatable = ({ key, queue }: Order): boolean =>
  key !== undefined || 'dedupe' in QUEUES[queue]

export interface Record_ {
  order: Order
  client: number
  version: Dialect['version']
  /** Null: its answer was lost, and no task of it was found. */
  id: string | null
  /** Read from its streams, one after the other; null where there was none. */
  frames: Frame[] | null
  /** As its client saw it in the end. */
  final: Answer
  cancel: 'canceled' | 'refused' | null
  /** What another send of the same moment was answered with. */
  twinId: string | null
}

export const drawOrder = (
  random: () => number,
  { client, number, lane }: { client: number; number: number; lane: string },
  version: Dialect['version'],
): Order => {
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!
  const messageId = `m-${client}-${number}`
  const queue = random() < 0.6 ? 'desk' : 'bulk'
  const work = pick(WORKS)
  const how = pick(['blocking', 'at once', 'stream', 'stream'] as const)
  // Only 1.0 has a list, by which a task is found whose answer was lost.
  const wantsKey = random() < 0.6 || (version === '0.3' && queue === 'desk')
  const twin = random() < 0.15
  const hooked = random() < 0.35
  const cancelAfterMs = Math.round(random() * 1500)
  const cancels = random() < 0.15
  const answers = random() < 0.96
  const unasked = random() < 0.25
  return {
    messageId,
    contextId: lane,
    queue,
    work,
    how,
    ...(wantsKey && { key: `key-${messageId}` }),
    twin: wantsKey && twin,
    ...(hooked && { hook: `/hook/${messageId}` }),
    ...(cancels && { cancelAfterMs }),
    answers,
    unasked,
  }
}
