/**
 * The two busiest paths, answered without going through express: a POST to `/agent` or to
 * `/a2a/<queue>` that is spelled in the plainest way. Everything else goes through express, which
 * leads to the same routes, so all that is decided here is how a request gets there.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Route } from './bindings/rpc-route.ts'

export interface FastPathParts {
  a2a: Route
  agent: Route
  /** What express would do before a route; a POST is never answered by it. */
  prepare(req: IncomingMessage, res: ServerResponse): unknown
  /** What express would do with an error that a route lets through. */
  fail(error: unknown, res: ServerResponse): void
  viaExpress: RequestListener
}

/** No query, nothing encoded, nothing in capitals that express would read as the same. */
const PLAIN_QUEUE = /^\/a2a\/[a-z0-9._~-]+\/?$/

export const fastPath = ({
  a2a,
  agent,
  prepare,
  fail,
  viaExpress,
}: FastPathParts): RequestListener => {
  const routeOf = ({ method, url = '' }: IncomingMessage): Route | null => {
    if (method !== 'POST') return null
    if (url === '/agent') return agent
    return PLAIN_QUEUE.test(url) ? a2a : null
  }
  return (req, res) => {
    const route = routeOf(req)
    if (!route) return viaExpress(req, res)
    prepare(req, res)
    route(req, res).catch((error: unknown) => fail(error, res))
  }
}
