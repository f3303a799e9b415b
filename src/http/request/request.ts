/**
 * What a request says in its URL and headers. Values are read here and judged elsewhere, and no
 * router is involved: JSON-RPC has few paths, and express would decode a path before it is known
 * where a segment ends, and would read a broken escape as text.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { invalid } from '../../domain/errors.ts'
import { EXTENSION_HEADERS } from '../../protocol/a2a/extensions.ts'
import type { Query } from '../../protocol/wire/path.ts'

/** A header, by its lower-case name. Sent more than once, its values come joined by commas. */
export const headerOf = ({ headers }: IncomingMessage, name: string): string | undefined => {
  const value = headers[name]
  return typeof value === 'string' ? value : value?.join(', ')
}

const VERSION = 'a2a-version'

/** The names of service parameters do not depend on case, in a query either (A2A 3.2.6). */
const versionsIn = (url: string): string[] => {
  const mark = url.indexOf('?')
  if (mark < 0) return []
  const query = [...new URLSearchParams(url.slice(mark))]
  return query.flatMap(([name, value]) => (name.toLowerCase() === VERSION ? [value] : []))
}

/** The protocol version that is asked for, by the header and by the query (A2A 3.6.1). */
export const requestedVersion = (
  req: IncomingMessage,
): [header: string | undefined, query: string[]] => [
  headerOf(req, VERSION),
  versionsIn(req.url ?? ''),
]

/** What each header for extensions asks for. */
export const requestedExtensions = (req: IncomingMessage): (string | undefined)[] =>
  EXTENSION_HEADERS.map((name) => headerOf(req, name.toLowerCase()))

/** The queue of `/a2a/<queue>`, also where the target is a whole URL (RFC 9112 3.2.2). */
export const requestedQueue = ({ url = '' }: IncomingMessage): string => {
  const [, name = ''] = /^(?:[a-z]+:\/\/[^/?#]*)?\/a2a\/([^/?#]+)/i.exec(url) ?? []
  try {
    return decodeURIComponent(name)
  } catch {
    // No queue has such a name, and whoever asks for it is answered so.
    return name
  }
}

export interface Target {
  /** The queue's segment, as it was sent. */
  queue: string
  /** What follows it, as it was sent. */
  path: string
}

/** `/a2a/desk/tasks/7` as `desk` and `tasks/7`. */
export const targetOf = (path: string): Target => {
  const [, , queue = '', ...rest] = path.split('/')
  return { queue, path: rest.join('/') }
}

const decode = (text: string, field: string): string => {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw invalid(field, 'must be percent-encoded UTF-8')
  }
}

/** The query of a URL. Refuses: invalid, naming the parameter that cannot be read. */
export const readQuery = (url: string): Query => {
  const query = new Map<string, string[]>()
  const mark = url.indexOf('?')
  for (const pair of mark < 0 ? [] : url.slice(mark + 1).split('&')) {
    if (pair === '') continue
    const equals = pair.indexOf('=')
    const name = decode(equals < 0 ? pair : pair.slice(0, equals), 'query')
    const value = equals < 0 ? '' : decode(pair.slice(equals + 1), name)
    query.set(name, [...(query.get(name) ?? []), value])
  }
  return query
}

const ID_HEADER = 'X-Request-Id'
const PLAIN_ID = /^[A-Za-z0-9._-]{1,64}$/

/**
 * Names the request: the id stands in the answer's X-Request-Id, in the log, and in the answer to
 * a fault. A caller's own id is kept where it is short and plain, so that a trace can be followed.
 */
export const nameRequest = (req: IncomingMessage, res: ServerResponse): void => {
  const given = headerOf(req, 'x-request-id')
  res.setHeader(ID_HEADER, given !== undefined && PLAIN_ID.test(given) ? given : randomUUID())
}

export const requestIdOf = (res: ServerResponse): string => String(res.getHeader(ID_HEADER))
