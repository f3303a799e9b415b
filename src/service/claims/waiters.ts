/**
 * Claim or wait: the one way to wait for claimable todos. Waiting claims stand in a line; a wake
 * calls as many from it as todos became ready, or places within a limit, so one todo does not rouse a
 * hundred agents. A poll of the whole process backs the wakes up: one query, however many wait.
 */

import { CLAIMABLE_COUNTS } from '../../store/move/conditions.ts'
import type { Database } from '../../store/postgres/database.ts'
import { statement } from '../../store/postgres/database.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Wakes } from '../../store/wake/wake.ts'

/** A place in the line. Taken before a claim is tried, so that no wake falls in between. */
interface Waiter {
  /** Resolves when called, at the time limit, or when the signal fires. */
  wait(ms: number, signal: AbortSignal): Promise<void>
  /** It may claim no more: the call it heard goes to whoever is behind it and may. */
  handOn(): void
  /** Gives the place up; a call it had already received goes to the next in line. */
  remove(): void
}

/** What a claim waits for: a todo in one of these queues, and a place within these limits. */
interface Wanted {
  queues: readonly string[]
  /** Queues among them that have a limit. */
  limited: readonly string[]
  /** The endpoint, where it has a limit. */
  endpoint: string | null
}

export interface Waiters {
  add(wanted: Wanted): Waiter
  count(): number
  start(): void
  stop(): void
}

export interface WaitersParts {
  database: Database
  wakes: Wakes
  pollMs: number
}

interface Entry {
  queues: readonly string[]
  topics: ReadonlySet<string>
  endpoint: string | null
  wake: (() => void) | null
  /** The topic whose wake was spent on this ticket. */
  wokenBy: string | null
  /** The one it heard last. */
  lastWake: string | null
}

const entryOf = ({ queues, limited, endpoint }: Wanted): Entry => ({
  queues,
  topics: new Set([
    ...queues.map(topics.queue),
    ...limited.map(topics.slots),
    ...(endpoint === null ? [] : [topics.slots(endpoint)]),
  ]),
  endpoint,
  wake: null,
  wokenBy: null,
  lastWake: null,
})

const readClaimableCounts = statement<{ queue: string; count: number }>(
  'line_counts',
  CLAIMABLE_COUNTS,
)

export const createWaiters = ({ database, wakes, pollMs }: WaitersParts): Waiters => {
  const entries = new Set<Entry>()
  const offs: (() => void)[] = []

  const wakeUp = (topic: string, times: number, among: Iterable<Entry> = entries): void => {
    let left = times
    for (const ticket of among) {
      if (left <= 0) return
      if (ticket.wokenBy !== null || !ticket.topics.has(topic)) continue
      ticket.wokenBy = topic
      ticket.wake?.()
      left -= 1
    }
  }

  /** Behind it, and not of an endpoint that may claim no more. */
  const entriesBehind = (full: Entry): Entry[] => {
    const all = [...entries]
    return all
      .slice(all.indexOf(full) + 1)
      .filter(({ endpoint }) => endpoint === null || endpoint !== full.endpoint)
  }

  const wakeByCounts = async (): Promise<void> => {
    const uncalled = [...entries].filter((ticket) => ticket.wokenBy === null)
    if (uncalled.length === 0) return
    const queues = [...new Set(uncalled.flatMap((ticket) => ticket.queues))]
    const found = await database.run(readClaimableCounts, { queues, limit: uncalled.length })
    for (const { queue, count } of found) wakeUp(topics.queue(queue), count)
  }

  const poll = (): void => {
    wakeByCounts().catch(() => {}) // The database is away; the next poll asks again.
  }

  return {
    add: (wanted) => {
      const ticket = entryOf(wanted)
      entries.add(ticket)
      return {
        wait: (ms, signal) =>
          new Promise((resolve) => {
            const done = (): void => {
              clearTimeout(timer)
              signal.removeEventListener('abort', done)
              ticket.wake = null
              resolve()
            }
            const timer = setTimeout(done, ms)
            // A call is spent by whoever hears it: it will look for a todo now.
            ticket.wake = () => {
              ticket.lastWake = ticket.wokenBy
              ticket.wokenBy = null
              done()
            }
            if (ticket.wokenBy !== null) ticket.wake()
            else if (signal.aborted) done()
            else signal.addEventListener('abort', done, { once: true })
          }),
        handOn: () => {
          if (ticket.lastWake !== null) wakeUp(ticket.lastWake, 1, entriesBehind(ticket))
          ticket.lastWake = null
        },
        remove: () => {
          entries.delete(ticket)
          if (ticket.wokenBy !== null) wakeUp(ticket.wokenBy, 1)
        },
      }
    },
    count: () => entries.size,
    start: () => {
      const timer = setInterval(poll, pollMs)
      timer.unref()
      offs.push(() => clearInterval(timer), wakes.onLost(poll))
      for (const topic of [topics.queue, topics.slots]) {
        offs.push(wakes.onPrefix(topic.prefix, (name, count) => wakeUp(topic(name), count)))
      }
    },
    stop: () => {
      for (const off of offs.splice(0)) off()
    },
  }
}
