/**
 * `GET /board/events` and `GET /agent/events`: who may read which part of the one feed, and from
 * where. Both resume after `Last-Event-ID` (or `?after=`), so nothing is missed between two
 * connections. Withdrawing a right ends the streams it opened.
 */
import { type Request, type Response, Router } from 'express'
import type { Log } from '../../base/log.ts'
import { type Caller, endpointWith } from '../../domain/endpoint.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import type { BoardFilter } from '../../service/board/lanes.ts'
import type { OpenFeed } from '../../service/watch/subscription.ts'
import type { Watch } from '../../service/watch/watch.ts'
import { createBounds, type HttpBounds } from '../bounds/bounds.ts'
import { ownerOf } from '../bounds/callers.ts'
import type { Auth } from '../request/auth.ts'
import { callSignalOf } from '../request/call-signal.ts'
import { answerRefusal } from '../request/refusal.ts'
import { narrow, readFilter, readNames } from './feed-filter.ts'
import { type After, agentFrames, boardFrames } from './feed-frames.ts'
import type { Reauthorizer } from './reauthorize.ts'
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
  /** Accepts the bearer token alone. */
  auth: Auth
  /** Accepts the board's cookie as well (board/routes.ts). */
  boardAuth: Auth
  /** Without it, a board that names no cursor gets no snapshot first. */
  snapshots?: ReadSnapshot
  sseRetryMs: () => Promise<number>
  log: Pick<Log, 'error' | 'warn'>
  /** Fires when the server stops: its streams end and are resumed elsewhere. */
  stopping?: AbortSignal
  onStream?: (feed: 'board' | 'agent') => StreamObserver
  sse?: Pick<StreamOptions, 'pingMs' | 'drainMs'>
  /** Ends a stream when the right to it is withdrawn. */
  reauthorizer: Reauthorizer
  /** What is shared with the other event streams. */
  bounds?: HttpBounds
}

/** The limit of a node; each stream costs it some 20 kB. */
export const MAX_STREAMS = 10_000

/** Positions are bigints in the database and exact as numbers up to here. */
const POSITION = /^\d{1,15}$/

/** A browser that reconnects repeats its first URL, so the header is the newer of the two. */
const readAfter = (req: Request): After => {
  const header = req.get('last-event-id')
  const [name, value] = header ? ['Last-Event-ID', header] : ['after', req.query.after]
  if (value === undefined || value === '') return 'now'
  if (typeof value !== 'string' || !POSITION.test(value)) {
    throw invalid(name, 'must be the id of an event of this feed')
  }
  return Number(value)
}

/** What a caller may see of the feed. A stream ends when `granted` changes. */
interface FeedAccess {
  queues: readonly string[] | null
  granted: string
  frames: (feed: OpenFeed, after: After) => Source
}

/** A program that does not want a part of the feed says `?<part>=none`. */
const wants = (part: 'snapshot' | 'ready', req: Request): boolean => {
  const value = req.query[part]
  if (value !== undefined && value !== 'none') throw invalid(part, 'may be none')
  return value === undefined
}

const boardAccess =
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

/** The doorbells of the queues it asks for, and the signals for all it holds in any queue. */
const agentAccess = (caller: Caller, req: Request): FeedAccess => {
  const { id, queues } = endpointWith(caller, 'work')
  const requested = narrow(queues, readNames(req, 'queues')) ?? []
  const bells = wants('ready', req) ? requested : []
  return {
    queues,
    granted: JSON.stringify([id, queues, bells]),
    frames: (feed, after) => agentFrames(feed, after, id, bells),
  }
}

interface Kind {
  name: 'board' | 'agent'
  auth: Auth
  access: (caller: Caller, req: Request) => FeedAccess
}

/** Drops everything of a request but what its right is checked by. */
const letGo = (req: Request): void => {
  const { authorization, cookie } = req.headers
  req.headers = { ...(authorization && { authorization }), ...(cookie && { cookie }) }
  req.rawHeaders = []
  // Not deleted, since an object that lost a property takes several times its memory.
  Object.assign(req, { next: undefined })
}

/** Both feeds, at their paths. */
export const createFeeds = (parts: FeedParts): Router => {
  const { watch, log, stopping, reauthorizer } = parts
  const { callers, unread } = parts.bounds ?? createBounds()
  let open = 0

  const serve = (kind: Kind) => async (req: Request, res: Response) => {
    const caller = await kind.auth(req)
    const access = kind.access(caller, req)
    if (stopping?.aborted) throw new Refusal('unavailable', { retryAfterSeconds: 1 })
    const after = readAfter(req)
    const retryMs = await parts.sseRetryMs()
    if (open >= MAX_STREAMS) {
      throw new Refusal('unavailable', { limit: MAX_STREAMS }, 'This node has too many feeds open')
    }
    const owner = ownerOf(caller)
    const leave = callers.openStream(owner)

    const { signal, revoke } = callSignalOf(res, stopping)
    const unwatch = reauthorizer.watch({
      caller,
      authenticate: () => kind.auth(req),
      isAllowed: (now) => kind.access(now, req).granted === access.granted,
      revoke,
    })
    open += 1
    const observer = parts.onStream?.(kind.name)
    observer?.opened()
    const end = (outcome?: StreamOutcome): void => {
      open -= 1
      leave()
      unwatch()
      if (outcome) observer?.closed(outcome)
    }
    try {
      // The feed opens before the headers leave, so what happens after them reaches the reader.
      const frames = access.frames(await watch.feed(after, access.queues, signal), after)
      const onError = (error: unknown): null => {
        log.error({ err: error, feed: kind.name }, 'a feed failed')
        return null
      }
      void writeStream(res, frames, {
        ...parts.sse,
        signal,
        retryMs,
        onError,
        unread,
        owner,
      }).then(end)
    } catch (error) {
      end()
      throw error
    }
    // The stream may last for days, and express would keep all that led to it.
    letGo(req)
  }

  const { auth, boardAuth, snapshots } = parts
  const router = Router()
  router.get(
    '/board/events',
    serve({ name: 'board', auth: boardAuth, access: boardAccess(snapshots) }),
  )
  router.get('/agent/events', serve({ name: 'agent', auth, access: agentAccess }))
  router.use(answerRefusal(log))
  return router
}
