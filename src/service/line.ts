/**
 * Claim or wait: the one way to wait for claimable todos. Waiting claims stand in a line; a wake
 * calls as many from it as todos became ready, so one todo does not rouse a hundred agents. A poll
 * of the whole process backs the wakes up: one query, however many wait.
 */
import type { Database } from '../store/database.ts'
import { statement } from '../store/database.ts'
import { CLAIMABLE_COUNTS } from '../store/lease.ts'
import type { Wake } from '../store/wake.ts'

/** A place in the line. Taken before a claim is tried, so that no wake falls in between. */
interface Place {
  /** Resolves when called, at the time limit, or when the signal fires. */
  called(ms: number, signal: AbortSignal): Promise<void>
  /** Gives the place up; a call it had already received goes to the next in line. */
  leave(): void
}

export interface Line {
  join(queues: readonly string[]): Place
  waiting(): number
  start(): void
  stop(): void
}

export interface LineParts {
  database: Database
  wake: Wake
  pollMs: number
}

interface Ticket {
  queues: readonly string[]
  call: (() => void) | null
  /** The queue whose wake was spent on this ticket. */
  calledFor: string | null
}

const counts = statement<{ queue: string; count: number }>('line_counts', CLAIMABLE_COUNTS)

export const createLine = ({ database, wake, pollMs }: LineParts): Line => {
  const line = new Set<Ticket>()
  const offs: (() => void)[] = []

  const call = (queue: string, times: number): void => {
    let left = times
    for (const ticket of line) {
      if (left <= 0) return
      if (ticket.calledFor !== null || !ticket.queues.includes(queue)) continue
      ticket.calledFor = queue
      ticket.call?.()
      left -= 1
    }
  }

  const callByCounts = async (): Promise<void> => {
    const uncalled = [...line].filter((ticket) => ticket.calledFor === null)
    if (uncalled.length === 0) return
    const queues = [...new Set(uncalled.flatMap((ticket) => ticket.queues))]
    const found = await database.run(counts, { queues, limit: uncalled.length })
    for (const { queue, count } of found) call(queue, count)
  }

  const poll = (): void => {
    callByCounts().catch(() => {}) // The database is away; the next poll asks again.
  }

  return {
    join: (queues) => {
      const ticket: Ticket = { queues, call: null, calledFor: null }
      line.add(ticket)
      return {
        called: (ms, signal) =>
          new Promise((resolve) => {
            const done = (): void => {
              clearTimeout(timer)
              signal.removeEventListener('abort', done)
              ticket.call = null
              resolve()
            }
            const timer = setTimeout(done, ms)
            // A call is spent by whoever hears it: it will look for a todo now.
            ticket.call = () => {
              ticket.calledFor = null
              done()
            }
            if (ticket.calledFor !== null) ticket.call()
            else if (signal.aborted) done()
            else signal.addEventListener('abort', done, { once: true })
          }),
        leave: () => {
          line.delete(ticket)
          if (ticket.calledFor !== null) call(ticket.calledFor, 1)
        },
      }
    },
    waiting: () => line.size,
    start: () => {
      const timer = setInterval(poll, pollMs)
      timer.unref()
      offs.push(() => clearInterval(timer), wake.onPrefix('queue:', call), wake.onLost(poll))
    },
    stop: () => {
      for (const off of offs.splice(0)) off()
    },
  }
}
