/**
 * What the two feeds say of a fact (api.md, Server-sent events), and under which id. One event of
 * the feed makes at most two frames, each with a cursor of its own (protocol/feed.ts): who resumes
 * after the first still gets the second, and neither twice.
 */
import type { FeedEvent } from '../domain/todo.ts'
import { readyOf, transitionOf } from '../protocol/feed.ts'
import type { BoardFilter, Gap, OpenFeed } from '../service/contract.ts'
import type { Frame, Source } from './sse.ts'

/** Without an id: a reader that breaks off here must be told of the gap again. */
const gap = ({ oldest }: Gap): Frame => ({ event: 'gap', data: { oldest } })

/** The tail hands every follower the same event, so its frames are made once and encoded once. */
const boardFramesOf = new WeakMap<FeedEvent, Frame[]>()

const boardFrame = (event: FeedEvent): Frame[] => {
  const known = boardFramesOf.get(event)
  if (known) return known
  const frames = makeBoardFrames(event)
  boardFramesOf.set(event, frames)
  return frames
}

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

/** By state: what enters one of these, leaves one, or becomes claimable in one. */
const passes = ({ states, contextId }: FrameFilter, event: FeedEvent): boolean =>
  (contextId === null || event.contextId === contextId) &&
  (states === null ||
    states.includes(event.to) ||
    (event.from !== null && states.includes(event.from)))

/** What the holder of a todo is told of it; hints only, the todo is the truth. */
const signal = (event: FeedEvent): Pick<Frame, 'event' | 'data'> | null => {
  const { todoId: id, fence, seq } = event
  switch (event.verb) {
    case 'cancel':
      return { event: 'canceled', data: { id, fence } }
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
  const told = event.owner === endpointId ? signal(event) : null
  if (told) frames.push({ id: String(event.position), ...told })
  if (event.ready && bells.includes(event.queue)) {
    const { todoId: id, queue, ready: reason } = event
    frames.push({ id: String(event.position + 1), event: 'ready', data: { id, queue, reason } })
  }
  return frames
}

/**
 * A reader that named no id is given one at once, with the snapshot or in a frame of its own: should
 * its connection break before the first event, it goes on from there.
 */
async function* framesOf(
  { from, events }: OpenFeed,
  after: After,
  frames: (event: FeedEvent) => Frame[],
  snapshot?: () => Promise<readonly Frame[]>,
) {
  let seen = after === 'now' ? 0 : after
  if (after === 'now') {
    const first = (await snapshot?.()) ?? [{ id: String(from) }]
    yield first
    // A snapshot was read after the feed was opened, and holds what happened between the two.
    if (snapshot) seen = Number(first[0]?.id)
  }
  for await (const item of events) {
    if ('gap' in item) {
      yield gap(item)
      continue
    }
    const made = frames(item)
    const fresh = Number(made[0]?.id) > seen ? made : made.filter(({ id }) => Number(id) > seen)
    if (fresh.length > 0) yield fresh
  }
}

/** `after`: the id of the last frame the reader saw; `now` when it saw none. */
export type After = number | 'now'

type FrameFilter = Pick<BoardFilter, 'states' | 'contextId'>

const NOTHING: Frame[] = []

export const boardFrames = (
  feed: OpenFeed,
  after: After,
  filter: FrameFilter,
  snapshot?: () => Promise<readonly Frame[]>,
): Source =>
  framesOf(feed, after, (event) => (passes(filter, event) ? boardFrame(event) : NOTHING), snapshot)

/** `bells`: the queues whose ready doorbell the agent wants; signals come for all it holds. */
export const agentFrames = (
  feed: OpenFeed,
  after: After,
  endpointId: string,
  bells: readonly string[],
): Source => framesOf(feed, after, (event) => agentFrame(event, endpointId, bells))
