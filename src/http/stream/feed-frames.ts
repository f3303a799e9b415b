/**
 * What the two feeds say of a fact (docs/board-feed.md), and under which id. One event of the feed
 * makes at most two frames, each with a cursor of its own (protocol/json/feed.ts): who resumes
 * after the first still gets the second, and neither twice.
 */
import { defined } from '../../base/defined.ts'
import { createMemo } from '../../base/memo.ts'
import type { FeedEvent } from '../../domain/todo.ts'
import { readyOf, transitionOf } from '../../protocol/json/feed.ts'
import type { BoardFilter } from '../../service/board/lanes.ts'
import type { Gap, OpenFeed } from '../../service/watch/subscription.ts'
import type { Frame, Source } from './sse.ts'

/** It has no id, since a reader that breaks off here must be told of the gap again. */
const gap = ({ oldest }: Gap): Frame => ({ event: 'gap', data: { oldest } })

/** The tail hands every follower the same event, so its frames are made once and encoded once. */
const boardFramesOf = createMemo<FeedEvent, Frame[]>()

const boardFrame = (event: FeedEvent): Frame[] =>
  boardFramesOf(event, '', () => makeBoardFrames(event))

const makeBoardFrames = (event: FeedEvent): Frame[] => {
  const transition = transitionOf(event)
  const ready = readyOf(event)
  return [
    ...(transition
      ? [{ id: String(transition.position), event: 'transition', data: transition }]
      : []),
    ...(ready ? [{ id: String(ready.position), event: 'ready', data: ready }] : []),
  ]
}

/** A filter by state passes what enters one of them, leaves one, or becomes claimable in one. */
const passes = ({ states, contextId }: FrameFilter, event: FeedEvent): boolean =>
  (contextId === null || event.contextId === contextId) &&
  (states === null ||
    states.includes(event.to) ||
    (event.from !== null && states.includes(event.from)))

/** What the holder of a todo is told of it. These are only hints; the todo is the truth. */
const signal = (event: FeedEvent): Pick<Frame, 'event' | 'data'> | null => {
  const { todoId: id, fence, seq } = event
  switch (event.verb) {
    case 'cancel':
      return { event: 'canceled', data: defined({ id, fence, reason: event.detail?.text }) }
    case 'message':
      return { event: 'message', data: { id, seq } }
    case 'resume':
    case 'resumeLater':
      return { event: 'answered', data: { id } }
    default:
      return null
  }
}

const agentFrame = (event: FeedEvent, endpointId: string, bells: readonly string[]): Frame[] => {
  const frames: Frame[] = []
  const hint = event.owner === endpointId ? signal(event) : null
  if (hint) frames.push({ id: String(event.position), ...hint })
  if (event.ready && bells.includes(event.queue)) {
    const { todoId: id, queue, ready: reason } = event
    frames.push({ id: String(event.position + 1), event: 'ready', data: { id, queue, reason } })
  }
  return frames
}

/** The frames of events that came together are made once as well, for each filter. */
const boardFramesOfAll = createMemo<readonly FeedEvent[], readonly Frame[]>()

/** Makes the frames of one event, and of several that came together. */
interface Framing {
  one(event: FeedEvent): readonly Frame[]
  all(events: readonly FeedEvent[]): readonly Frame[]
}

/**
 * A reader that named no id is given one at once, with the snapshot or in a frame of its own, so
 * that it can resume from there should its connection break before the first event.
 */
const sourceOf = (
  feed: OpenFeed,
  after: After,
  { one, all }: Framing,
  snapshot?: () => Promise<readonly Frame[]>,
): Source => {
  let seen = after === 'now' ? 0 : after
  let begun = after !== 'now'

  const unseen = (frames: readonly Frame[]): readonly Frame[] =>
    Number(frames[0]?.id) > seen ? frames : frames.filter(({ id }) => Number(id) > seen)

  async function* pulled(): AsyncGenerator<Frame | readonly Frame[]> {
    if (after === 'now') {
      const first = (await snapshot?.()) ?? [{ id: String(feed.from) }]
      // The snapshot was read after the feed was opened, and holds what happened between the two.
      if (snapshot) seen = Number(first[0]?.id)
      begun = true
      yield first
    }
    for await (const item of feed.events) {
      const frames = 'gap' in item ? [gap(item)] : unseen(one(item))
      if (frames.length > 0) yield frames
    }
  }

  return {
    [Symbol.asyncIterator]: pulled,
    live: (push, end) => {
      if (!begun || !feed.live) return null
      const pushFrames = (events: readonly FeedEvent[]): boolean => {
        const frames = unseen(all(events))
        return frames.length === 0 || push(frames)
      }
      return feed.live(pushFrames, end)
    },
  }
}

/** `after`: the id of the last frame the reader saw; `now` when it saw none. */
export type After = number | 'now'

type FrameFilter = Pick<BoardFilter, 'states' | 'contextId'>

const NOTHING: Frame[] = []

const EVERYTHING: Framing = {
  one: boardFrame,
  all: (events) => boardFramesOfAll(events, '', () => events.flatMap(boardFrame)),
}

const boardFraming = (filter: FrameFilter): Framing => {
  if (filter.states === null && filter.contextId === null) return EVERYTHING
  const way = JSON.stringify([filter.states, filter.contextId])
  const one = (event: FeedEvent): Frame[] => (passes(filter, event) ? boardFrame(event) : NOTHING)
  return { one, all: (events) => boardFramesOfAll(events, way, () => events.flatMap(one)) }
}

export const boardFrames = (
  feed: OpenFeed,
  after: After,
  filter: FrameFilter,
  snapshot?: () => Promise<readonly Frame[]>,
): Source => sourceOf(feed, after, boardFraming(filter), snapshot)

/** `bells`: the queues whose ready doorbell the agent wants; signals come for all it holds. */
export const agentFrames = (
  feed: OpenFeed,
  after: After,
  endpointId: string,
  bells: readonly string[],
): Source => {
  const one = (event: FeedEvent): Frame[] => agentFrame(event, endpointId, bells)
  return sourceOf(feed, after, { one, all: (events) => events.flatMap(one) })
}
