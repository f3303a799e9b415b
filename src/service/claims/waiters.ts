/**
 * Claim or wait: the one way to wait for claimable todos. Waiting claims stand in a line; a wake
 * calls as many from it as todos became ready, or places within a limit, so one todo does not rouse a
 * hundred agents. A poll of the whole process backs the wakes up: one query, however many wait.
 */

import { CLAIMABLE_COUNTS } from '../../store/move/conditions.ts'
import type { Database } from '../../store/postgres/database.ts'
import { statement } from '../../store/postgres/database.ts'
import type { Wake } from '../../store/wake/wake.ts'

/** A place in the line. Taken before a claim is tried, so that no wake falls in between. */
interface Place {
  /** Resolves when called, at the time limit, or when the signal fires. */
  called(ms: number, signal: AbortSignal): Promise<void>
  /** It may claim no more: the call it heard goes to whoever is behind it and may. */
  pass(): void
  /** Gives the place up; a call it had already received goes to the next in line. */
  leave(): void
}

/** What a claim waits for: a todo in one of these queues, and a place within these limits. */
interface Wanted {
  queues: readonly string[]
  /** Queues among them that have a limit. */
  limited: readonly string[]
  /** The endpoint, where it has a limit. */
  endpoint: string | null
}

export interface Line {
  join(wanted: Wanted): Place
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
  topics: ReadonlySet<string>
  endpoint: string | null
  call: (() => void) | null
  /** The topic whose wake was spent on this ticket. */
  calledFor: string | null
  /** The one it heard last. */
  heard: string | null
}

const ticketOf = ({ queues, limited, endpoint }: Wanted): Ticket => ({
  queues,
  topics: new Set([
    ...queues.map((name) => `queue:${name}`),
    ...limited.map((name) => `room:${name}`),
    ...(endpoint === null ? [] : [`room:${endpoint}`]),
  ]),
  endpoint,
  call: null,
  calledFor: null,
  heard: null,
})

const counts = statement<{ queue: string; count: number }>('line_counts', CLAIMABLE_COUNTS)

export const createLine = ({ database, wake, pollMs }: LineParts): Line => {
  const line = new Set<Ticket>()
  const offs: (() => void)[] = []

  const call = (topic: string, times: number, among: Iterable<Ticket> = line): void => {
    let left = times
    for (const ticket of among) {
      if (left <= 0) return
      if (ticket.calledFor !== null || !ticket.topics.has(topic)) continue
      ticket.calledFor = topic
      ticket.call?.()
      left -= 1
    }
  }

  /** Behind it, and not of an endpoint that may claim no more. */
  const behind = (full: Ticket): Ticket[] => {
    const all = [...line]
    return all
      .slice(all.indexOf(full) + 1)
      .filter(({ endpoint }) => endpoint === null || endpoint !== full.endpoint)
  }

  const callByCounts = async (): Promise<void> => {
    const uncalled = [...line].filter((ticket) => ticket.calledFor === null)
    if (uncalled.length === 0) return
    const queues = [...new Set(uncalled.flatMap((ticket) => ticket.queues))]
    const found = await database.run(counts, { queues, limit: uncalled.length })
    for (const { queue, count } of found) call(`queue:${queue}`, count)
  }

  const poll = (): void => {
    callByCounts().catch(() => {}) // The database is away; the next poll asks again.
  }

  return {
    join: (wanted) => {
      const ticket = ticketOf(wanted)
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
              ticket.heard = ticket.calledFor
              ticket.calledFor = null
              done()
            }
            if (ticket.calledFor !== null) ticket.call()
            else if (signal.aborted) done()
            else signal.addEventListener('abort', done, { once: true })
          }),
        pass: () => {
          if (ticket.heard !== null) call(ticket.heard, 1, behind(ticket))
          ticket.heard = null
        },
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
      offs.push(() => clearInterval(timer), wake.onLost(poll))
      for (const kind of ['queue:', 'room:']) {
        offs.push(wake.onPrefix(kind, (name, count) => call(`${kind}${name}`, count)))
      }
    },
    stop: () => {
      for (const off of offs.splice(0)) off()
    },
  }
}
