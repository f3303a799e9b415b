/**
 * Remembers which claims have just found everything gone. Until a wake comes, a claim of the same
 * kind would find nothing again, so it waits before it looks. What comes free without a wake, such as
 * a lapsed lease, is found this much later.
 */
import { topics } from '../../store/wake/topics.ts'
import type { Parts } from '../parts.ts'

const COOLDOWN_MS = 250
const MAX_KINDS = 1000

export interface ClaimCooldown {
  /** How long a claim of this kind need not look, in ms. */
  remainingMs(kind: string, queues: readonly string[]): number
  /** A claim of this kind, which began at this moment, found less than it asked for. */
  foundLess(kind: string, sinceMs: number): void
  start(): void
  stop(): void
}

export const createClaimCooldown = ({ wakes }: Pick<Parts, 'wakes'>): ClaimCooldown => {
  const since = new Map<string, number>()
  /** When each queue was last woken. */
  const lastWoken = new Map<string, number>()
  const offs: (() => void)[] = []

  return {
    remainingMs: (kind, queues) => {
      const began = since.get(kind)
      if (began === undefined) return 0
      const rest = began + COOLDOWN_MS - performance.now()
      if (rest > 0 && queues.every((queue) => (lastWoken.get(queue) ?? 0) < began)) return rest
      since.delete(kind)
      return 0
    },
    foundLess: (kind, sinceMs) => {
      if (since.size >= MAX_KINDS && !since.has(kind)) since.clear()
      since.set(kind, sinceMs)
    },
    start: () => {
      offs.push(
        wakes.onPrefix(
          topics.queue.prefix,
          (queue) => void lastWoken.set(queue, performance.now()),
        ),
        wakes.onLost(() => since.clear()),
      )
    },
    stop: () => {
      for (const off of offs.splice(0)) off()
    },
  }
}
