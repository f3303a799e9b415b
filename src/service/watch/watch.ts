/**
 * All waiting for what others do: until a todo settles (settle.ts), for a todo's events
 * (follow.ts), and for the feed (feed.ts). A process reads once for everybody who waits for the
 * same. A wake says when to read, and a poll backs it up.
 */
import type { Event, FeedEvent, TodoView } from '../../domain/todo.ts'
import type { Poll } from '../chores.ts'
import type { Parts } from '../parts.ts'
import { createFeed } from './feed.ts'
import { createFollow } from './follow.ts'
import { createRecentWakes } from './recent-wakes.ts'
import { createSettle } from './settle.ts'
import type { OpenFeed } from './subscription.ts'

export interface Watch {
  /** The todo once it is settled by an event after `after`. Rejects when the signal fires. */
  settle(id: string, after: number, signal: AbortSignal): Promise<TodoView>
  /**
   * The todo's events after `after`, in order, until the terminal one. `justRead`: the caller has
   * read or made the todo this moment, so that nothing lies behind `after` unless a wake has come
   * since.
   */
  follow(
    id: string,
    after: number,
    signal: AbortSignal,
    options?: { justRead?: boolean },
  ): AsyncIterable<Event>
  /**
   * Opens the feed after a position (`now`: from here on). `null` queues means every queue. Where
   * it begins is settled when this resolves, however much later the first event is asked for.
   */
  feed(
    after: number | 'now',
    queues: readonly string[] | null,
    signal: AbortSignal,
  ): Promise<OpenFeed>
  /** Where the feed is now: everything up to here can be read by others. */
  position(): Promise<number>
}

interface RunningWatch extends Watch {
  /** These events were given their positions by this node. */
  sequenced(events: readonly FeedEvent[]): void
  /** Each by itself, so that one which hangs holds up no other. */
  polls: readonly Poll[]
  start(): void
  stop(): void
}

export const createWatch = ({
  database,
  wakes,
  metrics,
  pollMs,
}: Pick<Parts, 'database' | 'wakes' | 'metrics' | 'pollMs'>): RunningWatch => {
  const recent = createRecentWakes()
  const settle = createSettle({
    database,
    isUnchanged: recent.isUnchanged,
    onFoundByPoll: () => metrics.answersFoundByPoll.inc(),
  })
  const follow = createFollow({ database, isUnchanged: recent.isUnchanged, pollMs })
  const feed = createFeed(database, pollMs)
  const offs: (() => void)[] = []

  const lookAtAll = (): void => {
    settle.lookAtAll()
    follow.nudge()
    feed.nudge()
  }

  return {
    settle: settle.settle,
    follow: follow.follow,
    feed: feed.feed,
    position: feed.position,
    sequenced: feed.sequenced,
    polls: [
      { everyMs: pollMs, look: settle.poll },
      ...recent.polls,
      ...follow.polls,
      ...feed.polls,
    ],
    start: () => {
      // The recent wakes come first: what follows asks them what has changed.
      for (const part of [recent, settle, follow, feed]) offs.push(...part.start(wakes))
      offs.push(wakes.onLost(lookAtAll))
    },
    stop: () => {
      for (const off of offs.splice(0)) off()
    },
  }
}
