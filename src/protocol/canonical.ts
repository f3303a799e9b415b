/**
 * JSON in the one form that is signed (RFC 8785): members ordered by the UTF-16 code units of
 * their names, no spaces, numbers and strings as ECMAScript writes them. The text is put together
 * by hand, since objects list names like "10" first, whatever order they were given in.
 */
import type { Json } from '../domain/todo.ts'

const fromText = (text: string): string => {
  // Written as an escape it would be another document to whoever decodes and encodes it again.
  if (!text.isWellFormed()) throw new TypeError('Half a surrogate pair has no canonical form')
  return JSON.stringify(text)
}

const fromMember = ([name, value]: [string, Json]): string =>
  `${fromText(name)}:${canonicalJson(value)}`

const byName = ([one]: [string, Json], [other]: [string, Json]): number => (one < other ? -1 : 1)

/** Throws TypeError for what JSON cannot say unambiguously: half surrogate pairs, NaN, Infinity. */
export const canonicalJson = (value: Json): string => {
  if (typeof value === 'string') return fromText(value)
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new TypeError(`${value} has no canonical form`)
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  return `{${Object.entries(value).sort(byName).map(fromMember).join(',')}}`
}
