/**
 * JSON in its one canonical form (RFC 8785), to be hashed or signed: members ordered by the UTF-16
 * code units of their names, no blanks, numbers and strings as ECMAScript writes them. We put the
 * text together by hand, since objects list names like "10" first, whatever order they were given in.
 */
import { ExactNumber } from './exact-json.ts'

const fromText = (text: string): string => {
  // As an escape it would become another document for whoever decodes and encodes it again.
  if (!text.isWellFormed()) throw new TypeError('Half a surrogate pair has no canonical form')
  return JSON.stringify(text)
}

/** No two members of an object have the same name, so there is no tie. */
const byName = ([one]: [string, unknown], [other]: [string, unknown]): number =>
  one < other ? -1 : 1

/**
 * The canonical text of a JSON value; members that are undefined are left out. Throws TypeError for
 * what JSON cannot say unambiguously: half surrogate pairs, NaN, Infinity.
 */
export const canonicalJson = (value: unknown): string => {
  if (typeof value === 'string') return fromText(value)
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new TypeError(`${value} has no canonical form`)
  }
  if (value instanceof ExactNumber) return value.text
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(byName)
    .map(([name, member]) => `${fromText(name)}:${canonicalJson(member)}`)
  return `{${members.join(',')}}`
}
