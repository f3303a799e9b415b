/**
 * The last hour in minutes: how much was finished, how long todos waited to be claimed, and how old
 * the oldest claimable one was. It is counted from the feed's events as they come, beginning with
 * those of the hour before, and only as long as somebody looks.
 */
import { Waiter } from '../../base/wait/waiter.ts'
import { isTransition, phaseOf } from '../../domain/lifecycle.ts'
import type { FeedEvent } from '../../domain/todo.ts'
import { readClock, readFeedBounds, readRecentFeed } from '../../store/todos/events.ts'
import type { Parts } from '../parts.ts'
import type { OpenFeed } from '../watch/subscription.ts'
import type { Watch } from '../watch/watch.ts'

/** What happened in one minute. */
interface ActivityMinute {
  at: Date
  /** How many todos ended, and how many of them as dead letters. */
  finished: number
  dead: number
  /** How long the claimed ones had been claimable, in seconds; null if none was claimed. */
  waited: { mean: number; max: number } | null
  /** How long the oldest claimable todo had been so at its end, in seconds. */
  oldest: number
}

export interface Activity {
  /** The last hour, oldest first, up to the current minute. Null means all queues. */
  read(queues: readonly string[] | null): Promise<{ minutes: ActivityMinute[] }>
}

const MINUTE_MS = 60_000
const MINUTES = 60
/** How many past events are read; of a busier hour we show less. */
const MAX_RECENT_EVENTS = 20_000
/** How many claimable todos of a queue are remembered: the oldest, which are those that matter. */
const MAX_CLAIMABLE = 50_000
const IDLE_MS = 10 * MINUTE_MS

const BLANK = { finished: 0, dead: 0, claims: 0, waitedMs: 0, longestMs: 0, oldestMs: 0 }
type Minute = typeof BLANK

/** One queue's minutes, by their number since the epoch, and its claimable todos. */
const createQueueActivity = () => {
  const minutes = new Map<number, Minute>()
  /** In the order in which they became claimable, so the first is the oldest. */
  const claimable = new Map<string, number>()
  let current: number | null = null

  const minute = (number: number): Minute => {
    const known = minutes.get(number) ?? { ...BLANK }
    minutes.set(number, known)
    return known
  }
  const oldestAt = (moment: number): number => {
    const [first] = claimable.values()
    return first === undefined ? 0 : Math.max(0, moment - first)
  }

  /** Closes the minutes before this one. */
  const advance = (number: number): void => {
    current ??= number
    current = Math.max(current, number - MINUTES)
    for (; current < number; current += 1) {
      minute(current).oldestMs = oldestAt((current + 1) * MINUTE_MS)
    }
    for (const old of minutes.keys()) {
      if (old > number - MINUTES) break
      minutes.delete(old)
    }
  }

  return {
    add(event: FeedEvent): void {
      const at = event.at.getTime()
      advance(Math.floor(at / MINUTE_MS))
      const now = minute(Math.floor(at / MINUTE_MS))
      if (isTransition(event.verb)) {
        const phase = phaseOf({ state: event.to, nextRetryAt: event.retrying || null })
        const since = claimable.get(event.todoId)
        if (phase === 'held' && since !== undefined) {
          const waited = Math.max(0, at - since)
          now.claims += 1
          now.waitedMs += waited
          now.longestMs = Math.max(now.longestMs, waited)
        }
        if (phase === 'ended') now.finished += 1
        if (phase === 'ended' && event.to === 'failed') now.dead += 1
        if (phase !== 'waiting') claimable.delete(event.todoId)
      }
      if (event.ready && claimable.size < MAX_CLAIMABLE) claimable.set(event.todoId, at)
    },
    read(number: number, nowMs: number): (Minute | undefined)[] {
      advance(number)
      minute(number).oldestMs = oldestAt(nowMs)
      return Array.from({ length: MINUTES }, (_, i) => minutes.get(number - MINUTES + 1 + i))
    },
  }
}

type QueueActivity = ReturnType<typeof createQueueActivity>

const merge = (all: readonly (Minute | undefined)[], number: number): ActivityMinute => {
  const sum = { ...BLANK }
  for (const each of all) {
    if (!each) continue
    sum.finished += each.finished
    sum.dead += each.dead
    sum.claims += each.claims
    sum.waitedMs += each.waitedMs
    sum.longestMs = Math.max(sum.longestMs, each.longestMs)
    sum.oldestMs = Math.max(sum.oldestMs, each.oldestMs)
  }
  const { finished, dead, claims, waitedMs, longestMs, oldestMs } = sum
  const waited = claims > 0 ? { mean: waitedMs / claims / 1000, max: longestMs / 1000 } : null
  return { at: new Date(number * MINUTE_MS), finished, dead, waited, oldest: oldestMs / 1000 }
}

interface ActivityParts extends Pick<Parts, 'database'> {
  watch: Pick<Watch, 'feed'>
}

export interface RunningActivity extends Activity {
  /**
   * Counts for those who look, until the signal fires; `onCounted` is called when nobody looks any more.
   * Rejects when the events break off; whoever looks next begins anew.
   */
  run(signal: AbortSignal, onCounted: () => void): Promise<void>
}

/** What was counted so far from one opening of the feed. */
interface Counts {
  queues: Map<string, QueueActivity>
  /** By the database's clock. */
  nowMs: () => number
}

/** What was opened for somebody who looks, and is to be counted as it comes. */
interface Opened {
  events: OpenFeed['events']
  /** Everything up to here has been counted. */
  newest: number
  queues: Counts['queues']
  ending: AbortController
}

export const createActivity = ({ database, watch }: ActivityParts): RunningActivity => {
  let current: { counting: Promise<Counts>; ending: AbortController } | null = null
  let opened: Opened | null = null
  const waiter = new Waiter()
  let readAt = 0

  const add = (queues: Counts['queues'], event: FeedEvent): void => {
    const queue = queues.get(event.queue) ?? createQueueActivity()
    queues.set(event.queue, queue)
    queue.add(event)
  }

  const begin = async (ending: AbortController): Promise<Counts> => {
    const queues: Counts['queues'] = new Map()
    const { newest } = await readFeedBounds(database)
    const feed = await watch.feed(newest + 1, null, ending.signal)
    const [clock, recent] = await Promise.all([
      readClock(database),
      readRecentFeed(database, newest, MAX_RECENT_EVENTS),
    ])
    for (const event of recent) add(queues, event)
    opened = { events: feed.events, newest, queues, ending }
    waiter.wake()
    const openedAt = performance.now()
    return { queues, nowMs: () => clock.getTime() + performance.now() - openedAt }
  }

  const end = (ending: AbortController): void => {
    ending.abort()
    if (current?.ending === ending) current = null
  }

  const countOn = async (
    { events, newest, queues, ending }: Opened,
    signal: AbortSignal,
  ): Promise<void> => {
    const stop = (): void => ending.abort()
    signal.addEventListener('abort', stop, { once: true })
    try {
      for await (const event of events) {
        if ('gap' in event || event.position <= newest) continue
        add(queues, event)
        if (performance.now() - readAt > IDLE_MS) break
      }
    } finally {
      signal.removeEventListener('abort', stop)
      end(ending)
    }
  }

  const count = (): Promise<Counts> => {
    if (current) return current.counting
    const ending = new AbortController()
    const counting = begin(ending)
    current = { counting, ending }
    counting.catch(() => end(ending))
    return counting
  }

  return {
    read: async (names) => {
      readAt = performance.now()
      const { queues, nowMs } = await count()
      const now = nowMs()
      const number = Math.floor(now / MINUTE_MS)
      const shown = [...queues].filter(([name]) => names === null || names.includes(name))
      const read = shown.map(([, queue]) => queue.read(number, now))
      return {
        minutes: Array.from({ length: MINUTES }, (_, i) =>
          merge(
            read.map((minutes) => minutes[i]),
            number - MINUTES + 1 + i,
          ),
        ),
      }
    },
    run: async (signal, onCounted) => {
      while (!signal.aborted) {
        waiter.clear()
        const next = opened
        opened = null
        if (next) {
          await countOn(next, signal)
          onCounted()
        } else await waiter.sleep(Number.POSITIVE_INFINITY, signal)
      }
    },
  }
}
