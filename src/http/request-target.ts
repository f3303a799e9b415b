/**
 * The target of a request below `/a2a`, taken apart by hand: express would decode the path before
 * it is known where a segment ends, and would read a broken escape as text.
 */
import { invalid } from '../domain/errors.ts'
import type { Query } from '../protocol/wire/path.ts'

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
