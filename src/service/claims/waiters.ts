/**
 * The one way to wait for claimable todos. Claims wait in the order they came. A wake calls as many
 * of them as todos became ready, or slots within a limit came free, so that one todo does not rouse
 * a hundred agents. A poll for the whole process backs the wakes up: one query, however many wait.
 */

import { CLAIMABLE_COUNTS } from '../../store/move/pick.ts'
import { statement } from '../../store/postgres/database.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Parts } from '../parts.ts'

/** A waiting claim. It is added before the claim is tried, so that no wake falls in between. */
interface Waiter {
  /** Resolves when it is woken, at the time limit, or when the signal fires. */
  wait(ms: number, signal: AbortSignal): Promise<void>
  /**
   * What it heard of is not for it: the wake goes to the next one behind it that asks for other todos, or,
   * if it is `full` and may claim no more, to the next one that may.
   */
  handOn(full: boolean): void
  /** Stops waiting; a wake that it has received already goes to the next one. */
  remove(): void
}

/** What a claim waits for: a todo in one of these queues, and a slot within these limits. */
interface Wanted {
  queues: readonly string[]
  /** The queues among them that have a limit. */
  limited: readonly string[]
  /** The endpoint, if it has a limit. */
  endpoint: string | null
  /** Only todos that may use all of these; absent: any. */
  effects?: readonly string[]
}

export interface Waiters {
  add(wanted: Wanted): Waiter
  count(): number
  start(): void
  stop(): void
}

interface Entry {
  queues: readonly string[]
  topics: ReadonlySet<string>
  endpoint: string | null
  /** Those that are alike in this are handed the same todos. */
  effects: string
  wake: (() => void) | null
  /** The topic whose wake was spent on this entry, until it hears of it. */
  wokenBy: string | null
  /** The topic that it heard of last. */
  lastWake: string | null
}

const entryOf = ({ queues, limited, endpoint, effects = [] }: Wanted): Entry => ({
  queues,
  topics: new Set([
    ...queues.map(topics.queue),
    ...limited.map(topics.slots),
    ...(endpoint === null ? [] : [topics.slots(endpoint)]),
  ]),
  endpoint,
  effects: JSON.stringify(effects),
  wake: null,
  wokenBy: null,
  lastWake: null,
})

const readClaimableCounts = statement<{ queue: string; count: number }>(
  'line_counts',
  CLAIMABLE_COUNTS,
)

export const createWaiters = ({
  database,
  wakes,
  pollMs,
}: Pick<Parts, 'database' | 'wakes' | 'pollMs'>): Waiters => {
  const entries = new Set<Entry>()
  const offs: (() => void)[] = []

  const wakeUp = (topic: string, times: number, among: Iterable<Entry> = entries): void => {
    let left = times
    for (const entry of among) {
      if (left <= 0) return
      if (entry.wokenBy !== null || !entry.topics.has(topic)) continue
      entry.wokenBy = topic
      entry.wake?.()
      left -= 1
    }
  }

  /** Those behind it that may claim what it may not. */
  const entriesBehind = (one: Entry, full: boolean): Entry[] => {
    const all = [...entries]
    return all
      .slice(all.indexOf(one) + 1)
      .filter(({ endpoint, effects }) =>
        full ? endpoint === null || endpoint !== one.endpoint : effects !== one.effects,
      )
  }

  const wakeByCounts = async (): Promise<void> => {
    const unwoken = [...entries].filter((entry) => entry.wokenBy === null)
    if (unwoken.length === 0) return
    const queues = [...new Set(unwoken.flatMap((entry) => entry.queues))]
    const found = await database.run(readClaimableCounts, { queues, limit: unwoken.length })
    for (const { queue, count } of found) wakeUp(`queue:${queue}`, count)
  }

  const poll = (): void => {
    wakeByCounts().catch(() => {}) // The database is away; the next poll asks again.
  }

  return {
    add: (wanted) => {
      const entry = entryOf(wanted)
      entries.add(entry)
      return {
        wait: (ms, signal) =>
          new Promise((resolve) => {
            const done = (): void => {
              clearTimeout(timer)
              signal.removeEventListener('abort', done)
              entry.wake = null
              resolve()
            }
            const timer = setTimeout(done, ms)
            // Whoever hears a wake has spent it: it will look for a todo now.
            entry.wake = () => {
              entry.lastWake = entry.wokenBy
              entry.wokenBy = null
              done()
            }
            if (entry.wokenBy !== null) entry.wake()
            else if (signal.aborted) done()
            else signal.addEventListener('abort', done, { once: true })
          }),
        handOn: (full) => {
          if (entry.lastWake !== null) wakeUp(entry.lastWake, 1, entriesBehind(entry, full))
          entry.lastWake = null
        },
        remove: () => {
          entries.delete(entry)
          if (entry.wokenBy !== null) wakeUp(entry.wokenBy, 1)
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
