/**
 * What services leave to the workers of the background: the polls behind wakes, and checks that are
 * to be made soon. A service says what is to be done and when; the worker does it, and what follows
 * from failing is decided there.
 */
import { Waiter } from '../base/wait/waiter.ts'

/** Finds what a lost wake has not told of. */
export interface Poll {
  everyMs: number
  /** Rejects where it could not look. */
  look(): Promise<void>
}

/** How a service fares while a worker runs it. */
export interface Reports {
  ok(): void
  failed(): void
}

export interface Checks {
  /** What is checked, as the log has it. */
  readonly of: 'line' | 'todo'
  /** Asks for a check of this id after each of these times, in ms. */
  ask(id: string, delaysMs: readonly number[]): void
  /** Checks it now. Rejects where that failed: a sweep finds what was missed. */
  check(id: string): Promise<unknown>
  /** Calls `checking`, which never rejects, for each in its time and side by side, until the signal fires. */
  run(checking: (id: string) => Promise<unknown>, signal: AbortSignal): Promise<void>
}

interface Due {
  id: string
  at: number
}

/** What is asked for while no worker runs waits for the next one. */
export const createChecks = ({ of, check }: Pick<Checks, 'of' | 'check'>): Checks => {
  const waiter = new Waiter()
  /** By delay, so that each list is in the order of its times. */
  const lists = new Map<number, Due[]>()

  const takeDue = (): Due[] => {
    const now = performance.now()
    return [...lists.values()].flatMap((list) => {
      const later = list.findIndex(({ at }) => at > now)
      return list.splice(0, later < 0 ? list.length : later)
    })
  }

  const msToNext = (): number => {
    const firsts = [...lists.values()].map(([first]) => first?.at ?? Number.POSITIVE_INFINITY)
    return Math.min(...firsts) - performance.now()
  }

  return {
    of,
    check,
    ask: (id, delaysMs) => {
      const now = performance.now()
      for (const ms of delaysMs) {
        const list = lists.get(ms) ?? []
        lists.set(ms, list)
        list.push({ id, at: now + ms })
      }
      waiter.wake()
    },
    run: async (checking, signal) => {
      const underWay = new Set<Promise<unknown>>()
      while (!signal.aborted) {
        waiter.clear()
        for (const { id } of takeDue()) {
          const checked = checking(id).finally(() => underWay.delete(checked))
          underWay.add(checked)
        }
        await waiter.sleep(msToNext(), signal)
      }
      await Promise.all(underWay)
    },
  }
}
