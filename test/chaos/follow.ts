/**
 * How a client follows a task to its end: by a stream that it takes up again after the frame it had
 * last, however often it breaks, or by asking. Questions are answered on the way.
 */
import type { Frame, Stream } from '../support/clients/actors.ts'
import { ASKS, type Dialect, ENDED } from './dialect.ts'
import type { Order } from './order.ts'
import { isLost, isStream, type Reach } from './reach.ts'

/** A task that is there, and the stream that showed it. */
export interface Opened {
  id: string
  first: Frame | null
  stream: Stream | null
}

export interface FollowParts {
  dialect: Dialect
  reaches: Readonly<Record<Order['queue'], Reach>>
  /** A message to the task. */
  tell: (queue: Order['queue'], id: string, text: string) => Promise<void>
}

export interface Follow {
  /** All frames there were, null where no stream was read from its beginning. */
  task(order: Order, opened: Opened): Promise<Frame[] | null>
  /** How often a stream was taken up again. */
  resumed(): number
}

/** After so many frames the client breaks off by itself. */
const HANG_UP_EACH = 7

export const createFollow = ({ dialect, reaches, tell }: FollowParts): Follow => {
  let resumed = 0

  /** Each question is answered once, or none is. */
  const answersOf = ({ queue, answers }: Order, id: string) => {
    const seen = new Set<string>()
    const answering: Promise<void>[] = []
    return {
      /** False where nothing more will come of it. */
      see: (said: string | null): boolean => {
        if (!answers) return false
        if (said !== null && !seen.has(said)) {
          seen.add(said)
          answering.push(tell(queue, id, 'answer'))
        }
        return true
      },
      done: () => Promise.all(answering),
    }
  }

  const resubscribe = async (reach: Reach, id: string, lastEventId: string): Promise<Stream> => {
    for (;;) {
      const stream = await reach.stream(dialect.methods.resubscribe, { id }, { lastEventId })
      if (!isLost(stream)) {
        resumed += 1
        if (isStream(stream)) return stream
        throw new Error(`${id} cannot be followed after ${lastEventId}: ${JSON.stringify(stream)}`)
      }
      await reach.pause()
    }
  }

  const byStream = async (order: Order, id: string, first: Frame, begun: Stream) => {
    const reach = reaches[order.queue]
    const answers = answersOf(order, id)
    const frames: Frame[] = []
    let hangUp = false
    let stream = begun
    for (let frame: Frame | null = first; ; frame = await stream.next()) {
      if (frame?.json.result) {
        frames.push(frame)
        hangUp = frames.length % HANG_UP_EACH === 0
        const shown = dialect.shown(frame)
        if (shown.kind !== 'chunk') {
          if (ENDED.includes(shown.state)) break
          const { result } = frame.json
          const { status } = result.task ?? result.statusUpdate ?? result
          if (ASKS.includes(shown.state) && !answers.see(dialect.said(status))) break
        }
        if (!hangUp) continue
      }
      stream.close()
      await reach.pause(50)
      stream = await resubscribe(reach, id, frames.at(-1)!.id!)
    }
    stream.close()
    await answers.done()
    return frames
  }

  const byAsking = async (order: Order, id: string): Promise<void> => {
    const reach = reaches[order.queue]
    const answers = answersOf(order, id)
    for (;;) {
      const { result } = await reach.persistently(dialect.methods.get, { id })
      const state = dialect.state(result)
      if (ENDED.includes(state)) break
      if (ASKS.includes(state) && !answers.see(dialect.said(result.status))) break
      await reach.pause(200)
    }
    await answers.done()
  }

  return {
    resumed: () => resumed,
    task: async (order, { id, first, stream }) => {
      if (first && stream) return byStream(order, id, first, stream)
      await byAsking(order, id)
      return null
    },
  }
}
