/**
 * The one way to wait for claimable todos. Claims wait in the order they came. A wake calls as many
 * of them as todos became ready, or slots within a limit came free, so that one todo does not rouse
 * a hundred agents. A poll for the whole process backs the wakes up: one query, however many wait.
 */

import { Waiter } from '../../base/wait/waiter.ts'
import { CLAIMABLE_COUNTS } from '../../store/move/pick.ts'
import { statement } from '../../store/postgres/database.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Poll } from '../chores.ts'
import type { Parts } from '../parts.ts'

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
  /** Adds a claim that waits. Do so before it is tried, so that no wake falls in between. */
  add(wanted: Wanted): ClaimWaiter
  /**
   * What it heard of is not for it: the wake goes to the next one behind it that asks for other todos, or,
   * if it is `full` and may claim no more, to the next one that may.
   */
  handOn(waiter: ClaimWaiter, full: boolean): void
  /** It waits no longer; a wake that it has not looked after goes to the next one. */
  remove(waiter: ClaimWaiter): void
  count(): number
  /** Wakes as many as there are todos to claim. */
  poll: Poll
  start(): void
  stop(): void
}

/** A waiting claim. A wake is spent on one that has none yet, and on it alone. */
class ClaimWaiter extends Waiter {
  readonly queues: readonly string[]
  readonly topics: ReadonlySet<string>
  readonly endpoint: string | null
  /** Those that are alike in this are handed the same todos. */
  readonly effects: string
  /** The topic whose wake was spent on it, until it looks. */
  wokenBy: string | null = null
  /** The topic that it looked after last. */
  lastWake: string | null = null

  constructor({ queues, limited, endpoint, effects = [] }: Wanted) {
    super()
    this.queues = queues
    this.topics = new Set([
      ...queues.map(topics.queue),
      ...limited.map(topics.slots),
      ...(endpoint === null ? [] : [topics.slots(endpoint)]),
    ])
    this.endpoint = endpoint
    this.effects = JSON.stringify(effects)
  }

  override clear(): void {
    super.clear()
    if (this.wokenBy === null) return
    this.lastWake = this.wokenBy
    this.wokenBy = null
  }
}

const readClaimableCounts = statement<{ queue: string; count: number }>(
  'line_counts',
  CLAIMABLE_COUNTS,
)

export const createWaiters = ({
  database,
  wakes,
  pollMs,
}: Pick<Parts, 'database' | 'wakes' | 'pollMs'>): Waiters => {
  const entries = new Set<ClaimWaiter>()
  const offs: (() => void)[] = []

  const wakeUp = (topic: string, times: number, among: Iterable<ClaimWaiter> = entries): void => {
    let left = times
    for (const entry of among) {
      if (left <= 0) return
      if (entry.wokenBy !== null || !entry.topics.has(topic)) continue
      entry.wokenBy = topic
      entry.wake()
      left -= 1
    }
  }

  /** Those behind it that may claim what it may not. */
  const entriesBehind = (one: ClaimWaiter, full: boolean): ClaimWaiter[] => {
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

  return {
    add: (wanted) => {
      const entry = new ClaimWaiter(wanted)
      entries.add(entry)
      return entry
    },
    handOn: (entry, full) => {
      if (entry.lastWake !== null) wakeUp(entry.lastWake, 1, entriesBehind(entry, full))
      entry.lastWake = null
    },
    remove: (entry) => {
      entries.delete(entry)
      if (entry.wokenBy !== null) wakeUp(entry.wokenBy, 1)
    },
    count: () => entries.size,
    poll: { everyMs: pollMs, look: wakeByCounts },
    start: () => {
      for (const topic of [topics.queue, topics.slots]) {
        offs.push(wakes.onPrefix(topic.prefix, (name, count) => wakeUp(topic(name), count)))
      }
    },
    stop: () => {
      for (const off of offs.splice(0)) off()
    },
  }
}
