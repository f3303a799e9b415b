/**
 * `GET /board/events` and `GET /agent/events`: who may read which part of the one feed, and from
 * where. Both go on after `Last-Event-ID` (or `?after=`), so nothing is missed between two
 * connections. A right that is withdrawn ends the stream it opened.
 */
import { type Request, type Response, Router } from 'express'
import type { Log } from '../../base/log.ts'
import { type Caller, endpointWith } from '../../domain/endpoint.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import type { BoardFilter } from '../../service/board/lanes.ts'
import type { OpenFeed } from '../../service/watch/subscription.ts'
import type { Watch } from '../../service/watch/watch.ts'
import type { Auth } from '../request/auth.ts'
import { callSignalOf } from '../request/call-signal.ts'
import { answerRefusal } from '../request/refusal.ts'
import { narrow, readFilter, readNames } from './feed-filter.ts'
import { type After, agentFrames, boardFrames } from './feed-frames.ts'
import { reauthorize } from './reauthorize.ts'
import {
  type Frame,
  type Source,
  type StreamObserver,
  type StreamOptions,
  type StreamOutcome,
  writeStream,
} from './sse.ts'

/** Reads the frame that a board which names no cursor is given first. */
export type ReadSnapshot = (of: BoardFilter, caller: Caller) => Promise<readonly Frame[]>

export interface FeedParts {
  watch: Pick<Watch, 'feed'>
  /** By the bearer token alone. */
  auth: Auth
  /** Also by the board's cookie (board.ts). */
  boardAuth: Auth
  /** What a board that names no cursor is given first; without it, nothing. */
  snapshots?: ReadSnapshot
  sseRetryMs: () => Promise<number>
  log: Pick<Log, 'error' | 'warn'>
  /** Fires when the server stops: its streams end, to be resumed elsewhere. */
  stopping?: AbortSignal
  onStream?: (feed: 'board' | 'agent') => StreamObserver
  sse?: Pick<StreamOptions, 'pingMs' | 'drainMs'>
  /** How often an open stream's right is looked at again. */
  recheckMs?: number
}

/** Of a node; each costs it some 20 kB. */
const MAX_STREAMS = 10_000

/** Positions are bigints in the database and exact as numbers up to here. */
const POSITION = /^\d{1,15}$/

/** A browser that reconnects repeats its first URL: the header is the newer of the two. */
const readAfter = (req: Request): After => {
  const header = req.get('last-event-id')
  const [name, value] = header ? ['Last-Event-ID', header] : ['after', req.query.after]
  if (value === undefined || value === '') return 'now'
  if (typeof value !== 'string' || !POSITION.test(value)) {
    throw invalid(name, 'must be the id of an event of this feed')
  }
  return Number(value)
}

/** What a caller may be shown of the feed. A stream ends when `granted` is not the same any more. */
interface FeedAccess {
  queues: readonly string[] | null
  granted: string
  frames: (feed: OpenFeed, after: After) => Source
}

/** Part of a feed that a program does not want, it says so: `?<part>=none`. */
const wants = (part: 'snapshot' | 'ready', req: Request): boolean => {
  const value = req.query[part]
  if (value !== undefined && value !== 'none') throw invalid(part, 'may be none')
  return value === undefined
}

const boardReach =
  (snapshots?: ReadSnapshot) =>
  (caller: Caller, req: Request): FeedAccess => {
    const filter = readFilter(req, caller)
    const read = snapshots && wants('snapshot', req) ? () => snapshots(filter, caller) : undefined
    return {
      queues: filter.queues,
      granted: JSON.stringify(filter.queues),
      frames: (feed, after) => boardFrames(feed, after, filter, read),
    }
  }

/** The doorbells it asked for, but the signals of whatever it holds in any of its queues. */
const agentReach = (caller: Caller, req: Request): FeedAccess => {
  const { id, queues } = endpointWith(caller, 'work')
  const asked = narrow(queues, readNames(req, 'queues')) ?? []
  const bells = wants('ready', req) ? asked : []
  return {
    queues,
    granted: JSON.stringify([id, queues, bells]),
    frames: (feed, after) => agentFrames(feed, after, id, bells),
  }
}

interface Kind {
  name: 'board' | 'agent'
  auth: Auth
  reach: (caller: Caller, req: Request) => FeedAccess
}

/** Keeps of a request what its right is looked at by. */
const letGo = (req: Request): void => {
  const { authorization, cookie } = req.headers
  req.headers = { ...(authorization && { authorization }), ...(cookie && { cookie }) }
  req.rawHeaders = []
  // Not deleted: an object that lost a property takes several times its room.
  Object.assign(req, { next: undefined })
}

/** Both feeds, at their paths. */
export const createFeeds = (parts: FeedParts): Router => {
  const { watch, log, stopping, recheckMs } = parts
  let open = 0

  const serve = (kind: Kind) => async (req: Request, res: Response) => {
    const reach = kind.reach(await kind.auth(req), req)
    if (stopping?.aborted) throw new Refusal('unavailable', { retryAfterSeconds: 1 })
    const after = readAfter(req)
    const retryMs = await parts.sseRetryMs()
    if (open >= MAX_STREAMS) throw new Refusal('unavailable')

    const { signal, revoke } = callSignalOf(res, stopping)
    const unwatch = reauthorize({
      stillAllowed: async () => kind.reach(await kind.auth(req), req).granted === reach.granted,
      revoke: revoke,
      onError: (error) =>
        log.warn({ err: error }, 'the right to a feed could not be looked at again'),
      ...(recheckMs !== undefined && { everyMs: recheckMs }),
    })
    open += 1
    const observer = parts.onStream?.(kind.name)
    observer?.opened()
    const end = (outcome?: StreamOutcome): void => {
      open -= 1
      unwatch()
      if (outcome) observer?.closed(outcome)
    }
    try {
      // Before the headers: what happens after them is part of what the reader asked for.
      const frames = reach.frames(await watch.feed(after, reach.queues, signal), after)
      const onError = (error: unknown): null => {
        log.error({ err: error, feed: kind.name }, 'a feed failed')
        return null
      }
      void writeStream(res, frames, { ...parts.sse, signal, retryMs, onError }).then(end)
    } catch (error) {
      end()
      throw error
    }
    // The stream may last for days: whatever led to it must not, and express would keep it all.
    letGo(req)
  }

  const { auth, boardAuth, snapshots } = parts
  const router = Router()
  router.get(
    '/board/events',
    serve({ name: 'board', auth: boardAuth, reach: boardReach(snapshots) }),
  )
  router.get('/agent/events', serve({ name: 'agent', auth, reach: agentReach }))
  router.use(answerRefusal(log))
  return router
}
