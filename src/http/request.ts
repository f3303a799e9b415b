/** What a request says in its URL and headers, read without a router: of JSON-RPC, whose paths are few. */
import type { IncomingMessage } from 'node:http'

/** A parameter of the query; sent more than once, all of them. */
const queryParameter = ({ url = '' }: IncomingMessage, name: string): string | string[] => {
  const mark = url.indexOf('?')
  const all = mark < 0 ? [] : new URLSearchParams(url.slice(mark)).getAll(name)
  return all.length === 1 ? all[0]! : all
}

/** The version that is asked for, by the header and by the query (A2A 3.6.1). */
export const requestedVersion = (
  req: IncomingMessage,
): [header: string | undefined, query: string | string[]] => {
  const header = req.headers['a2a-version']
  return [typeof header === 'string' ? header : undefined, queryParameter(req, 'A2A-Version')]
}

/** Of `/a2a/<queue>`, also where the whole URL is the target (RFC 9112 3.2.2). */
export const requestedQueue = ({ url = '' }: IncomingMessage): string =>
  decodeURIComponent(/^(?:[a-z]+:\/\/[^/?#]*)?\/a2a\/([^/?#]+)/i.exec(url)?.[1] ?? '')
