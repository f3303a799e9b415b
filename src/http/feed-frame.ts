/**
 * What the two feeds say of a fact (api.md, Server-sent events), and under which id. One event of
 * the feed makes at most two frames. The placer numbers events in steps of two, so the transition
 * at `position` and the ready at `position + 1` are both exact cursors: who resumes after the
 * first still gets the second, and neither twice.
 */
import { isTransition, phaseOf, stampsProgress } from '../domain/lifecycle.ts'
import type { FeedEvent } from '../domain/todo.ts'
import { fromEvent, fromTime } from '../protocol/todo.ts'
import type { Gap, OpenFeed } from '../service/contract.ts'
import type { Frame, Source } from './sse.ts'

const transition = (event: FeedEvent): Frame => ({
  id: String(event.position),
  event: 'transition',
  data: {
    position: event.position,
    ...fromEvent(event),
    phase: phaseOf({ state: event.to, nextRetryAt: event.retrying ? event.at : null }),
    // A failure that is left was one with a retry scheduled, and so was waiting.
    fromPhase: event.from && phaseOf({ state: event.from, nextRetryAt: event.at }),
    // As this transition left it. Later progress is no transition: a list of todos tells it.
    progressAt: stampsProgress(event.verb) ? fromTime(event.at) : null,
  },
})

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
  const frames: Frame[] = []
  if (isTransition(event.verb)) frames.push(transition(event))
  if (event.ready) {
    const position = event.position + 1
    const { todoId: id, queue, ready: reason, at } = event
    frames.push({
      id: String(position),
      event: 'ready',
      data: { position, id, queue, reason, at: fromTime(at) },
    })
  }
  return frames
}

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
 * A reader that named no id is given one at once, in a frame of its own: should its connection
 * break before the first event, it goes on from here.
 */
async function* framesOf(
  { from, events }: OpenFeed,
  after: After,
  frames: (event: FeedEvent) => Frame[],
) {
  if (after === 'now') yield { id: String(from) }
  const seen = after === 'now' ? 0 : after
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

export const boardFrames = (feed: OpenFeed, after: After): Source =>
  framesOf(feed, after, boardFrame)

/** `bells`: the queues whose ready doorbell the agent wants; signals come for all it holds. */
export const agentFrames = (
  feed: OpenFeed,
  after: After,
  endpointId: string,
  bells: readonly string[],
): Source => framesOf(feed, after, (event) => agentFrame(event, endpointId, bells))
