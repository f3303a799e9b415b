/** One JSON-RPC endpoint over HTTP: the body goes to the dispatcher, all but POST is refused. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { defined } from '../../base/defined.ts'
import type { Call } from '../../protocol/wire/method.ts'
import type { Rpc, RpcCall } from '../../rpc/server.ts'
import { takesOnly } from '../request/accept.ts'
import { type BodyOptions, readText } from '../request/body.ts'
import { type Binding, type CallFacts, type ExchangeParts, exchange, sendJson } from './exchange.ts'

export interface RpcRouteParts<C extends Call>
  extends ExchangeParts,
    Pick<Binding<IncomingMessage>, 'queueOf'> {
  rpc: Rpc<C>
  body: BodyOptions
  /** The HTTP methods of the path, if others than this route answer some. */
  allow?: string
  /** Which table serves the request, and what its rows are given. */
  open(
    req: IncomingMessage,
    facts: CallFacts,
    res: ServerResponse,
  ): Pick<RpcCall<C>, 'serve' | 'enter'>
}

/** Answers one request, without express. */
export type Route = (req: IncomingMessage, res: ServerResponse) => Promise<void>

const usePost = (allow: string) => ({
  kind: 'json' as const,
  status: 405,
  allow,
  body: { error: { code: 405, message: 'Use POST' } },
})

/** For every HTTP method that nobody else answers at the endpoint's path: all but POST are 405. */
export const rpcRoute = <C extends Call>(parts: RpcRouteParts<C>): Route => {
  const { rpc, body, open, queueOf, allow = 'POST' } = parts
  const answered = exchange(parts, {
    answer: async (req, facts, res, admission) => {
      const text = await readText(req, body, admission)
      return rpc.answer({
        text,
        requestId: facts.requestId,
        eventsOnly: takesOnly(req.headers.accept, 'text/event-stream'),
        begin: (row) => admission.begin(row),
        ...open(req, facts, res),
      })
    },
    refuse: (_req, error, requestId) => rpc.refuse(error, requestId),
    ...defined({ queueOf }),
  })
  return async (req, res) => {
    if (req.method === 'POST') await answered(req, res)
    else sendJson(req, res, usePost(allow))
  }
}
