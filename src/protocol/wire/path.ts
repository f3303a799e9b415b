/**
 * The paths of an HTTP+JSON binding as data: which HTTP method and path call which row of a method
 * table, and where that row's params come from (spec 11.3, 11.5). Each version of the protocol
 * brings its own table; how one is written and read is here.
 */
import { defined } from '../../base/defined.ts'
import { invalid } from '../../domain/errors.ts'
import { snake } from '../json/object.ts'
import { WireRefusal } from './errors.ts'
import type { MethodTable, QueueCall } from './method.ts'
import type { RestErrorWriter } from './rest-errors.ts'

type Verb = 'GET' | 'POST' | 'DELETE'

export interface PathRow<Method extends string = string> {
  verb: Verb
  /**
   * The segments below the queue. `{name}` is a param without a bare colon, since a colon begins
   * the verb of `{name}:verb`; `{name=*}` is one that may contain colons.
   */
  template: `/${string}`
  method: Method
  /** Absent: no body is read. `optional`: it may be empty or `null`, with any media type or none. */
  body?: 'required' | 'optional'
  /** Params that come from the query; a `flag` is spelled `true` or `false`. */
  query?: Readonly<Record<string, 'text' | 'flag'>>
}

type Template = PathRow['template']

/** The words a table of paths is written in, for methods of these names. */
export const pathRows = <Method extends string>() => ({
  get: (template: Template, method: Method, query?: PathRow['query']): PathRow<Method> =>
    defined<PathRow<Method>>({ verb: 'GET', template, method, query }),
  post: (
    template: Template,
    method: Method,
    body: 'required' | 'optional' = 'required',
  ): PathRow<Method> => ({ verb: 'POST', template, method, body }),
  remove: (template: Template, method: Method): PathRow<Method> => ({
    verb: 'DELETE',
    template,
    method,
  }),
})

/** A row that a path leads to, with the params in that path. */
export interface Found {
  row: PathRow
  params: Readonly<Record<string, string>>
}

/** A table of paths, compiled. */
export interface Paths {
  /** Every row at this path, one for each HTTP method that it takes. */
  at(path: string): readonly Found[]
}

/** How one version of the protocol is served over HTTP+JSON. */
export interface RestBinding {
  table: MethodTable<QueueCall>
  paths: Paths
  writeError: RestErrorWriter
  /** The type of the answer if `Accept` prefers it; otherwise that is application/json. */
  mediaType?: string
}

const PARAM = /\{(\w+)(=\*)?\}/g

const patternOf = (template: string): RegExp =>
  new RegExp(
    `^${template.slice(1).replace(PARAM, (_, name, any) => `(?<${name}>${any ? '[^/]+' : '[^/:]+'})`)}$`,
  )

/** Decodes text from a path. Refuses: invalid. */
export const decodePath = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid('path', 'must be percent-encoded UTF-8')
  }
}

export const NOTHING_HERE = 'There is nothing at this path'

/** Why there is nothing at this path: `method`, or `invalid` if it could not even be decoded. */
export const nothingAt = (path: string): Error => {
  try {
    decodePath(path)
    return new WireRefusal('method', NOTHING_HERE)
  } catch (malformed) {
    return malformed as Error
  }
}

/** Asks about the whole path, since half a character on either side of a slash is no text. */
const isReadable = (path: string): boolean => nothingAt(path) instanceof WireRefusal

const TRIMMED = /^\/+|\/+$/g

export const compilePaths = (rows: readonly PathRow[]): Paths => {
  const compiled = rows.map((row) => ({ row, pattern: patternOf(row.template) }))
  return {
    at: (path) => {
      const trimmed = path.replace(TRIMMED, '')
      if (!isReadable(trimmed)) return []
      return compiled.flatMap(({ row, pattern }) => {
        const match = pattern.exec(trimmed)
        if (!match) return []
        const params = Object.entries(match.groups ?? {}).map(([name, raw]) => [
          name,
          decodePath(raw),
        ])
        return [{ row, params: Object.fromEntries(params) as Record<string, string> }]
      })
    },
  }
}

/* ------------------------------------------------------------------ params */

/** The values of a query, decoded, by name and in order. */
export type Query = ReadonlyMap<string, readonly string[]>

/** Anything else is passed on as it was sent, for the row's schema to refuse. */
const flag = (text: string): boolean | string =>
  text === 'true' || text === 'false' ? text === 'true' : text

const fromQuery = ({ query = {} }: PathRow, given: Query): Record<string, unknown> => {
  const members: Record<string, unknown> = {}
  for (const [name, type] of Object.entries(query)) {
    const [value, ...more] = given.get(name) ?? given.get(snake(name)) ?? []
    if (value === undefined) continue
    if (more.length > 0) throw invalid(name, 'must be given once')
    members[name] = type === 'flag' ? flag(value) : value
  }
  return members
}

const fromBody = (body: unknown): Record<string, unknown> => {
  if (body === undefined || body === null) return {}
  if (typeof body === 'object' && !Array.isArray(body)) return body as Record<string, unknown>
  throw invalid('body', 'must be an object')
}

/** Empty in ProtoJSON's sense: the same as absent. */
const isEmpty = (value: unknown): boolean => value === undefined || value === null || value === ''

/**
 * The params of the row: those of the path, and of the query or the body (parsed JSON) as the row
 * says. Refuses: invalid, also if the query or the body contradicts the path.
 */
export const paramsOf = (
  { row, params }: Found,
  query: Query,
  body: unknown,
): Record<string, unknown> => {
  const members = row.body ? fromBody(body) : fromQuery(row, query)
  for (const [name, value] of Object.entries(params)) {
    for (const spelling of new Set([name, snake(name)])) {
      const other = Object.hasOwn(members, spelling) ? members[spelling] : undefined
      if (!isEmpty(other) && other !== value) throw invalid(name, 'must be the one in the path')
    }
  }
  return { ...members, ...params }
}
