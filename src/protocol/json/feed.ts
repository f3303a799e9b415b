/**
 * A fact of the feed as docs/board-feed.md describes it, over server-sent events and in process
 * alike. One event is at most two facts: the sequencer numbers events in steps of two, so the
 * transition at `position` and the ready at `position + 1` are both exact cursors.
 */
import { isTransition, phaseOf, stampsProgress } from '../../domain/lifecycle.ts'
import type { FeedEvent } from '../../domain/todo.ts'
import { fromEvent, fromTime } from './todo.ts'

/** A todo was sent, or its state changed. Null for an event that is neither. */
export const transitionOf = (event: FeedEvent) =>
  isTransition(event.verb)
    ? {
        position: event.position,
        ...fromEvent(event),
        phase: phaseOf({ state: event.to, nextRetryAt: event.retrying ? event.at : null }),
        // A failure that is left was one with a retry scheduled, and so was waiting.
        fromPhase: event.from && phaseOf({ state: event.from, nextRetryAt: event.at }),
        // As this transition left it. Later progress is no transition: a list of todos tells it.
        progressAt: stampsProgress(event.verb) ? fromTime(event.at) : null,
      }
    : null

/** A todo became claimable, and why. Null for an event that made none so. */
export const readyOf = (event: FeedEvent) =>
  event.ready
    ? {
        position: event.position + 1,
        id: event.todoId,
        queue: event.queue,
        reason: event.ready,
        at: fromTime(event.at),
      }
    : null

export type Transition = NonNullable<ReturnType<typeof transitionOf>>
export type Ready = NonNullable<ReturnType<typeof readyOf>>
