/**
 * The last hour in minutes: how much was finished, how long todos waited to be claimed, and how old
 * the oldest claimable one was. Counted from the feed's events as they come, beginning with those
 * of the hour before; kept only as long as somebody looks.
 */
import type { Log } from '../../base/log.ts'
import { isTransition, phaseOf } from '../../domain/lifecycle.ts'
import type { FeedEvent } from '../../domain/todo.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readClock, readFeedBounds, readRecentFeed } from '../../store/todos/events.ts'
import type { Watch } from '../watch/watch.ts'

/** One minute of what went on. */
interface ActivityMinute {
  at: Date
  /** Todos that ended, and how many of them as dead letters. */
  finished: number
  dead: number
  /** How long those claimed in it had been claimable, in seconds; null where none was. */
  waited: { mean: number; max: number } | null
  /** At its end: since when the oldest claimable todo was so, in seconds. */
  oldest: number
}

export interface Activity {
  /** The last hour, oldest first; the minute that runs is the last one. Null: all queues. */
  read(queues: readonly string[] | null): Promise<{ minutes: ActivityMinute[] }>
}

const MINUTE_MS = 60_000
const MINUTES = 60
/** How many events of before are read at most; of a busier hour less of it is shown. */
const RECENT_EVENTS = 20_000
/** Claimable todos remembered in a queue; the oldest are, and those matter. */
const CLAIMABLE_KEPT = 50_000
const UNWATCHED_MS = 10 * MINUTE_MS

interface Minute {
  finished: number
  dead: number
  claims: number
  waitedMs: number
  longestMs: number
  oldestMs: number
}

const blank = (): Minute => ({
  finished: 0,
  dead: 0,
  claims: 0,
  waitedMs: 0,
  longestMs: 0,
  oldestMs: 0,
})

/** One queue's minutes, by number since the epoch, and what may be claimed from it. */
const createQueuePulse = () => {
  const minutes = new Map<number, Minute>()
  /** In the order in which they became claimable: the first is the oldest. */
  const claimable = new Map<string, number>()
  let current: number | null = null

  const minute = (number: number): Minute => {
    const known = minutes.get(number) ?? blank()
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
    take(event: FeedEvent): void {
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
      if (event.ready && claimable.size < CLAIMABLE_KEPT) claimable.set(event.todoId, at)
    },
    read(number: number, nowMs: number): (Minute | undefined)[] {
      advance(number)
      minute(number).oldestMs = oldestAt(nowMs)
      return Array.from({ length: MINUTES }, (_, i) => minutes.get(number - MINUTES + 1 + i))
    },
  }
}

type QueuePulse = ReturnType<typeof createQueuePulse>

const merge = (all: readonly (Minute | undefined)[], number: number): ActivityMinute => {
  const sum = blank()
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

export interface ActivityParts {
  database: Database
  watch: Pick<Watch, 'feed'>
  log: Pick<Log, 'warn'>
}

export interface RunningPulse extends Activity {
  stop(): void
}

/** What one following of the feed has counted so far. */
interface Counted {
  queues: Map<string, QueuePulse>
  /** By the database's clock. */
  nowMs: () => number
}

export const createActivity = ({ database, watch, log }: ActivityParts): RunningPulse => {
  let current: { counting: Promise<Counted>; ending: AbortController } | null = null
  let lookedAt = 0

  const take = (queues: Counted['queues'], event: FeedEvent): void => {
    const pulse = queues.get(event.queue) ?? createQueuePulse()
    queues.set(event.queue, pulse)
    pulse.take(event)
  }

  const begin = async (ending: AbortController): Promise<Counted> => {
    const queues: Counted['queues'] = new Map()
    const { newest } = await readFeedBounds(database)
    const feed = await watch.feed(newest + 1, null, ending.signal)
    const [clock, recent] = await Promise.all([
      readClock(database),
      readRecentFeed(database, newest, RECENT_EVENTS),
    ])
    for (const event of recent) take(queues, event)
    void (async () => {
      for await (const event of feed.events) {
        if ('gap' in event || event.position <= newest) continue
        take(queues, event)
        if (performance.now() - lookedAt > UNWATCHED_MS) break
      }
    })()
      .catch((error: unknown) => log.warn({ err: error }, 'the pulse of the board broke off'))
      .finally(() => end(ending))
    const readAt = performance.now()
    return { queues, nowMs: () => clock.getTime() + performance.now() - readAt }
  }

  const end = (ending: AbortController): void => {
    ending.abort()
    if (current?.ending === ending) current = null
  }

  const count = (): Promise<Counted> => {
    if (current) return current.counting
    const ending = new AbortController()
    const counting = begin(ending)
    current = { counting, ending }
    counting.catch(() => end(ending))
    return counting
  }

  return {
    read: async (names) => {
      lookedAt = performance.now()
      const { queues, nowMs } = await count()
      const now = nowMs()
      const number = Math.floor(now / MINUTE_MS)
      const shown = [...queues].filter(([name]) => names === null || names.includes(name))
      const read = shown.map(([, pulse]) => pulse.read(number, now))
      return {
        minutes: Array.from({ length: MINUTES }, (_, i) =>
          merge(
            read.map((minutes) => minutes[i]),
            number - MINUTES + 1 + i,
          ),
        ),
      }
    },
    stop: () => current && end(current.ending),
  }
}
