/**
 * Which claims have just found everything gone. Until something is rung a claim like that one would
 * find nothing again, so one that may wait does so before it looks. What comes free without a ring, a
 * lapsed lease say, is found this much later.
 */
import type { Wake } from '../../store/wake/wake.ts'

const REST_MS = 250
const KEPT_AT_MOST = 1000

export interface Dry {
  /** How long a claim of this kind need not look, in ms. */
  restMs(kind: string, queues: readonly string[]): number
  /** A claim of this kind, which began to look at this moment, found less than it asked for. */
  ranDry(kind: string, sinceMs: number): void
  start(): void
  stop(): void
}

export const createDry = ({ wake }: { wake: Wake }): Dry => {
  const since = new Map<string, number>()
  /** When each queue was last rung. */
  const rung = new Map<string, number>()
  const offs: (() => void)[] = []

  return {
    restMs: (kind, queues) => {
      const began = since.get(kind)
      if (began === undefined) return 0
      const rest = began + REST_MS - performance.now()
      if (rest > 0 && queues.every((queue) => (rung.get(queue) ?? 0) < began)) return rest
      since.delete(kind)
      return 0
    },
    ranDry: (kind, sinceMs) => {
      if (since.size >= KEPT_AT_MOST && !since.has(kind)) since.clear()
      since.set(kind, sinceMs)
    },
    start: () => {
      offs.push(
        wake.onPrefix('queue:', (queue) => void rung.set(queue, performance.now())),
        wake.onLost(() => since.clear()),
      )
    },
    stop: () => {
      for (const off of offs.splice(0)) off()
    },
  }
}
