/**
 * One JSON-RPC endpoint over HTTP: who asks, the body, the dispatcher, and its answer as JSON or
 * as an event stream. Decides nothing but HTTP: methods, headers, and that a client which hangs up
 * ends its own waiting and nothing else.
 */
import type { Request, RequestHandler, Response } from 'express'
import { Refusal } from '../domain/errors.ts'
import type { Caller } from '../domain/scope.ts'
import type { Call } from '../protocol/method.ts'
import type { Rpc, RpcAnswer, RpcCall } from '../rpc/server.ts'
import { type Auth, challengeFor } from './auth.ts'
import { type BodyOptions, readText } from './body.ts'
import { type Attention, attentionOf } from './hang-up.ts'
import { idempotencyKeyOf } from './idempotency-key.ts'
import { requestIdOf } from './request-id.ts'
import { watchRight } from './right.ts'
import { type StreamOptions, type StreamOutcome, writeStream } from './sse.ts'

/** What a call is made of, once its caller is known. */
type CallFacts = Pick<Call, 'caller' | 'signal' | 'lastEventId' | 'idempotencyKey' | 'requestId'>

export interface RpcRouteParts<C extends Call> {
  rpc: Rpc<C>
  auth: Auth
  body: BodyOptions
  /** Which table serves the request and what its rows are given. */
  open(req: Request, facts: CallFacts): Pick<RpcCall<C>, 'serve' | 'enter'>
  sse?: Pick<StreamOptions, 'pingMs' | 'drainMs'>
  stopping?: AbortSignal
  onStream?: StreamObserver
  /** How often an open stream's right is looked at again. */
  recheckMs?: number
}

/** Counts streams: `opened` once, then `closed` once with how it ended. */
export interface StreamObserver {
  opened(): void
  closed(outcome: StreamOutcome): void
}

const lastEventId = (req: Request): string | null => {
  const value = req.headers['last-event-id']
  return typeof value === 'string' ? value : null
}

const setRefusalHeaders = (req: Request, res: Response, status: number): void => {
  if (status === 401) res.set('WWW-Authenticate', challengeFor(req))
  // What is left of the body is not read, so the next request could not be found behind it.
  if (status === 413 || status === 408) res.set('Connection', 'close')
}

const sendJson = (
  req: Request,
  res: Response,
  { status, body, retryAfterSeconds }: Extract<RpcAnswer, { kind: 'json' }>,
): void => {
  setRefusalHeaders(req, res, status)
  if (retryAfterSeconds !== undefined && (status === 429 || status === 503)) {
    res.set('Retry-After', String(retryAfterSeconds))
  }
  // Not res.json: express would look at the request, its own settings and the type once more.
  const text = JSON.stringify(body)
  res.statusCode = status
  res.setHeader('Cache-Control', 'no-store')
  res.setHeader('Content-Type', 'application/json; charset=utf-8')
  res.setHeader('Content-Length', Buffer.byteLength(text))
  res.end(text)
}

/** What a caller may do: a stream ends when that is not the same any more. */
const rightsOf = (caller: Caller): string =>
  caller.kind === 'operator'
    ? caller.kind
    : JSON.stringify([caller.endpoint.id, caller.endpoint.queues, caller.endpoint.verbs])

/** A handler for every HTTP method of the endpoint's path; all but POST are answered 405. */
export const rpcRoute = <C extends Call>(parts: RpcRouteParts<C>): RequestHandler => {
  const { rpc, auth, body, open, sse, stopping, onStream, recheckMs } = parts

  /** Also who asks, where that is known. */
  const answerTo = async (
    req: Request,
    res: Response,
    signal: AbortSignal,
  ): Promise<[RpcAnswer, Caller?]> => {
    const requestId = requestIdOf(res)
    try {
      const caller: Caller = await auth(req)
      // Another node, or this one after its restart, serves what has not begun.
      if (stopping?.aborted) throw new Refusal('unavailable', { retryAfterSeconds: 1 })
      const text = await readText(req, body)
      const idempotencyKey = idempotencyKeyOf(req)
      const facts = { caller, signal, lastEventId: lastEventId(req), idempotencyKey, requestId }
      return [await rpc.answer({ text, requestId, ...open(req, facts) }), caller]
    } catch (error) {
      return [rpc.refuse(error, requestId)]
    }
  }

  const sendStream = async (
    req: Request,
    res: Response,
    { frames, onError }: Extract<RpcAnswer, { kind: 'stream' }>,
    { signal, withdraw }: Attention,
    caller: Caller,
  ): Promise<void> => {
    const granted = rightsOf(caller)
    const unwatch = watchRight({
      holds: async () => rightsOf(await auth(req)) === granted,
      withdraw,
      ...(recheckMs !== undefined && { everyMs: recheckMs }),
    })
    onStream?.opened()
    const outcome = await writeStream(res, frames, { ...sse, signal, onError })
    unwatch()
    onStream?.closed(outcome)
  }

  return async (req, res) => {
    if (req.method !== 'POST') {
      res
        .set('Allow', 'POST')
        .status(405)
        .json({ error: { code: 405, message: 'Use POST' } })
      return
    }
    const attention = attentionOf(res, stopping)
    const [answer, caller] = await answerTo(req, res, attention.signal)
    if (answer.kind === 'stream') await sendStream(req, res, answer, attention, caller!)
    else if (res.closed) return
    else if (answer.kind === 'json') sendJson(req, res, answer)
    else res.status(204).end()
  }
}
