/**
 * Reads that may bring tens of megabytes take turns: each takes several times its size of the memory until
 * it is written out, whoever asked for it and by whichever way. Turns go round over those whose reads wait,
 * so that a hundred of one delay another by one.
 */
import { getHeapStatistics } from 'node:v8'
import { Refusal } from '../../domain/errors.ts'

/** Where there is little memory one at a time, else the next is read while one is parsed. */
const AT_ONCE = getHeapStatistics().heap_size_limit < 1024 ** 3 ? 1 : 2
const WAIT_MS = 30_000

type Begin = () => void

export interface LargeReads {
  /** Runs `read` when it is the turn of `owner`. Refuses after a while: unavailable. */
  take<T>(owner: string, read: () => Promise<T>): Promise<T>
}

export const createLargeReads = (atOnce = AT_ONCE, waitMs = WAIT_MS): LargeReads => {
  /** Whoever is next stands first. */
  const waiting = new Map<string, Set<Begin>>()
  let running = 0

  const forget = (owner: string, begin: Begin): void => {
    const others = waiting.get(owner)
    others?.delete(begin)
    if (others?.size === 0) waiting.delete(owner)
  }

  const turn = (owner: string): Promise<void> | undefined => {
    if (running < atOnce) {
      running += 1
      return
    }
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        clearTimeout(timer)
        forget(owner, begin)
        resolve()
      }
      const timer = setTimeout(() => {
        forget(owner, begin)
        const why = 'Too many reads of large tasks wait on this node'
        reject(new Refusal('unavailable', { limit: atOnce, retryAfterSeconds: 1 }, why))
      }, waitMs)
      waiting.set(owner, (waiting.get(owner) ?? new Set()).add(begin))
    })
  }

  const give = (): void => {
    const [next] = waiting
    if (!next) {
      running -= 1
      return
    }
    const [owner, all] = next
    // The others of its owner go behind those of everybody else.
    waiting.delete(owner)
    waiting.set(owner, all)
    const [begin] = all
    begin!()
  }

  return {
    take: async (owner, read) => {
      const mine = turn(owner)
      if (mine) await mine
      try {
        return await read()
      } finally {
        // What was read is written out first, so that its memory is free again.
        setImmediate(give)
      }
    },
  }
}
