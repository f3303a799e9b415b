/** One JSON-RPC endpoint over HTTP: the body goes to the dispatcher, all but POST is refused. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Call } from '../../protocol/wire/method.ts'
import type { Rpc, RpcCall } from '../../rpc/server.ts'
import { type BodyOptions, readText } from '../request/body.ts'
import { type CallFacts, type ExchangeParts, exchange, sendJson } from './exchange.ts'

export interface RpcRouteParts<C extends Call> extends ExchangeParts {
  rpc: Rpc<C>
  body: BodyOptions
  /** Which table serves the request, and what its rows are given. */
  open(
    req: IncomingMessage,
    facts: CallFacts,
    res: ServerResponse,
  ): Pick<RpcCall<C>, 'serve' | 'enter'>
}

/** Answers one request, without express. */
export type Route = (req: IncomingMessage, res: ServerResponse) => Promise<void>

/** Whether `Accept` names event streams and nothing else. */
const wantsEventsOnly = ({ headers: { accept } }: IncomingMessage): boolean =>
  accept?.split(',').every((range) => /^\s*text\/event-stream\s*(;|$)/i.test(range)) ?? false

const USE_POST = {
  kind: 'json' as const,
  status: 405,
  allow: 'POST',
  body: { error: { code: 405, message: 'Use POST' } },
}

/** For every HTTP method of the endpoint's path; all but POST are answered 405. */
export const rpcRoute = <C extends Call>(parts: RpcRouteParts<C>): Route => {
  const { rpc, body, open } = parts
  const answered = exchange(parts, {
    answer: async (req, facts, res, admission) => {
      const text = await readText(req, body, admission)
      return rpc.answer({
        text,
        requestId: facts.requestId,
        eventsOnly: wantsEventsOnly(req),
        begin: (row) => admission.begin(row),
        ...open(req, facts, res),
      })
    },
    refuse: (_req, error, requestId) => rpc.refuse(error, requestId),
  })
  return async (req, res) => {
    if (req.method === 'POST') await answered(req, res)
    else sendJson(req, res, USE_POST)
  }
}
