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
import { hangUpSignal } from './hang-up.ts'
import { requestIdOf } from './request-id.ts'
import { type StreamOptions, type StreamOutcome, writeStream } from './sse.ts'

/** What a call is made of, once its caller is known. */
type CallFacts = Pick<Call, 'caller' | 'signal' | 'lastEventId' | 'requestId'>

export interface RpcRouteParts<C extends Call> {
  rpc: Rpc<C>
  auth: Auth
  body: BodyOptions
  /** Which table serves the request and what its rows are given. */
  open(req: Request, facts: CallFacts): Pick<RpcCall<C>, 'serve' | 'enter'>
  sse?: Pick<StreamOptions, 'pingMs' | 'drainMs'>
  stopping?: AbortSignal
  onStream?: StreamObserver
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

/** A handler for every HTTP method of the endpoint's path; all but POST are answered 405. */
export const rpcRoute = <C extends Call>(parts: RpcRouteParts<C>): RequestHandler => {
  const { rpc, auth, body, open, sse, stopping, onStream } = parts

  const answerTo = async (req: Request, res: Response, signal: AbortSignal): Promise<RpcAnswer> => {
    const requestId = requestIdOf(res)
    try {
      const caller: Caller = await auth(req)
      // Another node, or this one after its restart, serves what has not begun.
      if (stopping?.aborted) throw new Refusal('unavailable', { retryAfterSeconds: 1 })
      const text = await readText(req, body)
      const facts = { caller, signal, lastEventId: lastEventId(req), requestId }
      return await rpc.answer({ text, requestId, ...open(req, facts) })
    } catch (error) {
      return rpc.refuse(error, requestId)
    }
  }

  const send = async (
    req: Request,
    res: Response,
    answer: RpcAnswer,
    signal: AbortSignal,
  ): Promise<void> => {
    if (answer.kind === 'json') return sendJson(req, res, answer)
    if (answer.kind === 'nothing') return void res.status(204).end()
    onStream?.opened()
    const { frames, onError } = answer
    onStream?.closed(await writeStream(res, frames, { ...sse, signal, onError }))
  }

  return async (req, res) => {
    if (req.method !== 'POST') {
      res
        .set('Allow', 'POST')
        .status(405)
        .json({ error: { code: 405, message: 'Use POST' } })
      return
    }
    const signal = hangUpSignal(res, stopping)
    const answer = await answerTo(req, res, signal)
    if (!res.closed || answer.kind === 'stream') await send(req, res, answer, signal)
  }
}
