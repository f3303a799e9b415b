/**
 * Pages of other origins that may call the APIs from a browser (Fetch standard, 3.2). By default there
 * are none. Callers are known by their token alone, so nothing is ever answered to a page's cookies,
 * and the board, which has one, stays its own.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { EXTENSION_HEADERS } from '../../protocol/a2a/extensions.ts'

/** `/a2a/…`, `/agent`, `/agent/events` and `/operator`, also as express spells them. */
const API_PATHS = /^\/(?:a2a|agent|operator)(?:[/?]|$)/i

const METHODS = 'GET, HEAD, POST, DELETE'

const REQUEST_HEADERS = [
  'Authorization',
  'Content-Type',
  'Accept',
  'A2A-Version',
  ...EXTENSION_HEADERS,
  'Idempotency-Key',
  'Last-Event-ID',
  'X-Request-Id',
].join(', ')

const EXPOSED_HEADERS = [
  ...EXTENSION_HEADERS,
  'Allow',
  'Retry-After',
  'Switchboard-Webhook-Secret',
  'WWW-Authenticate',
  'X-Request-Id',
].join(', ')

const PREFLIGHT_SECONDS = '86400'

/** What an answer to a page of an allowed origin says. True where the request was a preflight and is answered. */
export type Cors = (req: IncomingMessage, res: ServerResponse) => boolean

/** Whether this is only a browser's question whether it may send what it names. */
const isPreflight = ({ method, headers }: IncomingMessage): boolean =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined

const allowNobody: Cors = () => false

/** `origins`: as browsers write them, or `*` for any. */
export const createCors = (origins: readonly string[]): Cors => {
  if (origins.length === 0) return allowNobody
  const allowed = new Set(origins)
  const any = allowed.has('*')
  return (req, res) => {
    if (!API_PATHS.test(req.url ?? '')) return false
    if (!any) res.setHeader('Vary', 'Origin')
    const { origin } = req.headers
    if (origin === undefined || !(any || allowed.has(origin))) return false
    res.setHeader('Access-Control-Allow-Origin', any ? '*' : origin)
    if (!isPreflight(req)) {
      res.setHeader('Access-Control-Expose-Headers', EXPOSED_HEADERS)
      return false
    }
    res.setHeader('Access-Control-Allow-Methods', METHODS)
    res.setHeader('Access-Control-Allow-Headers', REQUEST_HEADERS)
    res.setHeader('Access-Control-Max-Age', PREFLIGHT_SECONDS)
    res.writeHead(204).end()
    return true
  }
}
