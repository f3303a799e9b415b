/** One JSON-RPC endpoint over HTTP: the body goes to the dispatcher, all but POST is refused. */
import type { Request, RequestHandler } from 'express'
import type { Call } from '../protocol/method.ts'
import type { Rpc, RpcCall } from '../rpc/server.ts'
import { type BodyOptions, readText } from './body.ts'
import { type CallFacts, type ExchangeParts, exchange } from './exchange.ts'

export interface RpcRouteParts<C extends Call> extends ExchangeParts {
  rpc: Rpc<C>
  body: BodyOptions
  /** Which table serves the request and what its rows are given. */
  open(req: Request, facts: CallFacts): Pick<RpcCall<C>, 'serve' | 'enter'>
}

/** Says by `Accept` that it reads event streams, and nothing else. */
const wantsEventsOnly = ({ headers: { accept } }: Request): boolean =>
  accept?.split(',').every((range) => /^\s*text\/event-stream\s*(;|$)/i.test(range)) ?? false

/** A handler for every HTTP method of the endpoint's path; all but POST are answered 405. */
export const rpcRoute = <C extends Call>(parts: RpcRouteParts<C>): RequestHandler => {
  const { rpc, body, open } = parts
  const answered = exchange(parts, {
    answer: async (req, facts) => {
      const text = await readText(req, body)
      return rpc.answer({
        text,
        requestId: facts.requestId,
        eventsOnly: wantsEventsOnly(req),
        ...open(req, facts),
      })
    },
    refuse: (_req, error, requestId) => rpc.refuse(error, requestId),
  })
  return async (req, res) => {
    if (req.method === 'POST') return answered(req, res)
    res
      .set('Allow', 'POST')
      .status(405)
      .json({ error: { code: 405, message: 'Use POST' } })
  }
}
