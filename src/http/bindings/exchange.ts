/**
 * One request and its answer, whichever binding reads it: who the caller is, and how the answer
 * leaves as JSON or as an event stream. A client that hangs up ends its own waiting and nothing
 * else. Only HTTP is decided here.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { exactText } from '../../base/exact-json.ts'
import { type Caller, may } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Call } from '../../protocol/wire/method.ts'
import type { Answer } from '../../rpc/answer.ts'
import { type Admission, type Callers, ownerOf } from '../bounds/callers.ts'
import { contentOf, guardUnread, type UnreadAnswers } from '../bounds/unread.ts'
import { type Auth, challengeFor } from '../request/auth.ts'
import { discardBody } from '../request/body.ts'
import { type CallSignal, callSignalOf } from '../request/call-signal.ts'
import { isPeerThere } from '../request/half-closed.ts'
import { headerOf, requestIdOf } from '../request/request.ts'
import type { Reauthorizer } from '../stream/reauthorize.ts'
import { type StreamObserver, type StreamOptions, writeStream } from '../stream/sse.ts'

/** What a call is made of, once its caller is known. */
export type CallFacts = Pick<
  Call,
  | 'caller'
  | 'signal'
  | 'isPeerThere'
  | 'rest'
  | 'host'
  | 'lastEventId'
  | 'idempotencyKey'
  | 'traceparent'
  | 'requestId'
>

export interface ExchangeParts {
  auth: Auth
  callers: Callers
  unread: UnreadAnswers
  sse?: Pick<StreamOptions, 'pingMs' | 'drainMs'>
  stopping?: AbortSignal
  onStream?: StreamObserver
  /** Ends what waits when the right to it is withdrawn. */
  reauthorizer: Reauthorizer
}

/** What a binding answers, and how it words what HTTP itself refuses. */
export interface Binding<Req extends IncomingMessage> {
  /** May throw what reading the request refuses. */
  answer(req: Req, facts: CallFacts, res: ServerResponse, admission: Admission): Promise<Answer>
  refuse(req: Req, error: unknown, requestId: string): Answer
  /** The queue whose A2A interface is called; absent: another surface is. */
  queueOf?(req: Req): string
}

/** What another part of the answer varies by stays: caches would mix up origins without it. */
const addVary = (res: ServerResponse, name: string): void => {
  const before = res.getHeader('Vary')
  res.setHeader('Vary', before === undefined ? name : `${before}, ${name}`)
}

export const sendJson = (
  req: IncomingMessage,
  res: ServerResponse,
  { status, body, mediaType, retryAfterSeconds, allow, vary }: Extract<Answer, { kind: 'json' }>,
): void => {
  if (status === 401) res.setHeader('WWW-Authenticate', challengeFor(req))
  // The rest of the body is not read, so the next request could not be found behind it.
  if (status === 413 || status === 408) res.setHeader('Connection', 'close')
  if (allow !== undefined) res.setHeader('Allow', allow)
  if (vary !== undefined) addVary(res, vary)
  if (retryAfterSeconds !== undefined && (status === 429 || status === 503)) {
    res.setHeader('Retry-After', String(retryAfterSeconds))
  }
  // Not res.json, for which express would check the request, its own settings and the type again.
  const content = contentOf(exactText(body))
  res.statusCode = status
  res.setHeader('Cache-Control', 'no-store')
  res.setHeader('Content-Type', mediaType ?? 'application/json; charset=utf-8')
  res.setHeader('Content-Length', Buffer.byteLength(content))
  res.end(content)
}

/** What is known of one request as it goes on. */
interface Visit {
  call: CallSignal
  admission?: Admission
  unwatch?: () => void
}

/** Whether `now` may do all that `before` might: on this queue's A2A interface, or at all. */
const keepsRights = (before: Caller, now: Caller, queue: string | undefined): boolean => {
  if (before.kind === 'operator' || now.kind === 'operator') return before.kind === now.kind
  if (before.endpoint.id !== now.endpoint.id) return false
  const { verbs, queues } = now.endpoint
  if (queue === undefined) {
    return (
      before.endpoint.verbs.every((verb) => verbs.includes(verb)) &&
      before.endpoint.queues.every((name) => queues.includes(name))
    )
  }
  return A2A_VERBS.every((verb) => !may(before, verb, queue) || may(now, verb, queue))
}

const A2A_VERBS = ['send', 'answer'] as const

/** Answers requests of a binding. */
export const exchange = <Req extends IncomingMessage = IncomingMessage>(
  parts: ExchangeParts,
  { answer, refuse, queueOf }: Binding<Req>,
) => {
  const { auth, callers, unread, sse, stopping, onStream, reauthorizer } = parts

  const watchRights = (req: Req, caller: Caller, { revoke }: CallSignal): (() => void) =>
    reauthorizer.watch({
      caller,
      authenticate: () => auth(req),
      isAllowed: (now) => keepsRights(caller, now, queueOf?.(req)),
      revoke,
    })

  const answerTo = async (req: Req, res: ServerResponse, visit: Visit): Promise<Answer> => {
    const requestId = requestIdOf(res)
    try {
      const caller: Caller = await auth(req)
      visit.unwatch = watchRights(req, caller, visit.call)
      // What has not begun is left to another node, or to this one after its restart.
      if (stopping?.aborted) throw new Refusal('unavailable', { retryAfterSeconds: 1 })
      const owner = ownerOf(caller)
      unread.check(owner)
      const admission = callers.enter(owner)
      visit.admission = admission
      const facts = {
        caller,
        signal: visit.call.signal,
        isPeerThere: () => isPeerThere(res),
        rest: (wait: Promise<void>) => admission.rest(wait),
        host: req.headers.host,
        lastEventId: headerOf(req, 'last-event-id') ?? null,
        idempotencyKey: headerOf(req, 'idempotency-key') ?? null,
        traceparent: headerOf(req, 'traceparent') ?? null,
        requestId,
      }
      return await answer(req, facts, res, admission)
    } catch (error) {
      return refuse(req, error, requestId)
    }
  }

  const sendStream = async (
    res: ServerResponse,
    { frames, onError }: Extract<Answer, { kind: 'stream' }>,
    { call: { signal }, admission }: Visit,
  ): Promise<void> => {
    admission!.endCall()
    onStream?.opened()
    const { owner } = admission!
    onStream?.closed(await writeStream(res, frames, { ...sse, signal, onError, unread, owner }))
  }

  return async (req: Req, res: ServerResponse): Promise<void> => {
    const visit: Visit = { call: callSignalOf(res, stopping) }
    try {
      const answered = await answerTo(req, res, visit)
      // The connection is closed behind the answer.
      if (stopping?.aborted) await discardBody(req)
      if (answered.kind === 'stream') await sendStream(res, answered, visit)
      else if (res.closed || req.socket.destroyed) return
      else if (answered.kind === 'json') {
        sendJson(req, res, answered)
        if (res.writableLength > 0) guardUnread(unread, res, visit.admission?.owner)
      } else res.writeHead(204).end()
    } finally {
      visit.unwatch?.()
      visit.admission?.end()
    }
  }
}
