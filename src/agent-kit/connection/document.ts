/**
 * Params as JSON text, or an error that says which member has none and why. What cannot be sent is
 * found here, before the call: a handler that returned it then fails at once, instead of leaving its
 * todo to a lease that nobody will end.
 */
import { exactText } from '../../base/exact-json.ts'
import { DocumentError } from '../errors.ts'

/** The server's limit on a request's body. */
const MAX_BYTES = 4 * 1024 * 1024
/** The server's limit on nesting, counted from `params`. */
const MAX_DEPTH = 100

interface Found {
  code: DocumentError['code']
  path: string
  why: string
}

const step = (path: string, key: string, isArray: boolean): string => {
  if (isArray) return `${path}[${key}]`
  return path === '' ? key : `${path}.${key}`
}

/** What JSON makes of a member, as `JSON.stringify` does. Throws what its `toJSON` throws. */
const asJson = (value: unknown, key: string): unknown => {
  const { toJSON } = (value ?? {}) as { toJSON?: unknown }
  return typeof toJSON === 'function' ? toJSON.call(value, key) : value
}

const whyNot = (error: unknown): string =>
  `cannot be read: ${error instanceof Error ? error.message : 'its toJSON or a getter throws'}`

/** The first member that has no JSON; null where there is none. `above` are the objects it is in. */
const findFault = (
  given: unknown,
  key: string,
  path: string,
  above: readonly object[],
): Found | null => {
  let value: unknown
  try {
    value = asJson(given, key)
  } catch (error) {
    return { code: 'unserializable', path, why: whyNot(error) }
  }
  if (typeof value === 'bigint') {
    return { code: 'unserializable', path, why: 'is a BigInt, which JSON has no form for' }
  }
  if (typeof value !== 'object' || value === null) return null
  if (above.includes(value)) {
    return { code: 'unserializable', path, why: 'refers to an object that it is itself a part of' }
  }
  if (above.length >= MAX_DEPTH) {
    return { code: 'too_deep', path, why: `is nested deeper than ${MAX_DEPTH} levels` }
  }
  for (const name of Object.keys(value)) {
    const where = step(path, name, Array.isArray(value))
    let member: unknown
    try {
      member = (value as Record<string, unknown>)[name]
    } catch (error) {
      return { code: 'unserializable', path: where, why: whyNot(error) }
    }
    const fault = findFault(member, name, where, [...above, value])
    if (fault) return fault
  }
  return null
}

/** Deep paths are cut: the beginning says where to look. */
const MAX_PATH = 120

const faultError = ({ code, path, why }: Found): DocumentError => {
  const where = path.length <= MAX_PATH ? path : `${path.slice(0, MAX_PATH)}…`
  return new DocumentError(code, `${where || 'The document'} ${why}`, where)
}

/** The member that takes most of a text that is too large. */
const largest = (params: object): string => {
  const sizes = Object.entries(params).map(
    ([name, value]) => [name, JSON.stringify(value)?.length ?? 0] as const,
  )
  return sizes.toSorted(([, a], [, b]) => b - a)[0]?.[0] ?? 'params'
}

/** How deep the brackets of a JSON text go. */
const depthOf = (text: string): number => {
  let depth = 0
  let deepest = 0
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{\]}]/g)) {
    if (token === '{' || token === '[') deepest = Math.max(deepest, ++depth)
    else if (token === '}' || token === ']') depth--
  }
  return deepest
}

/** A document of fewer characters cannot be nested too deep. */
const SHALLOW_CHARACTERS = 2 * MAX_DEPTH

/** The call as JSON text. Throws DocumentError. */
export const callText = (id: number, method: string, params: object): string => {
  const call = { jsonrpc: '2.0', id, method, params }
  let text: string
  try {
    text = exactText(call)
  } catch (error) {
    const fault = findFault(params, '', '', [])
    throw faultError(fault ?? { code: 'unserializable', path: '', why: whyNot(error) })
  }
  // The text has the call itself around its params.
  if (text.length > SHALLOW_CHARACTERS && depthOf(text) > MAX_DEPTH + 1) {
    const fault = findFault(params, '', '', [])
    if (fault) throw faultError(fault)
  }
  // Three bytes a character is the most that UTF-8 takes.
  if (text.length * 3 > MAX_BYTES) {
    const bytes = Buffer.byteLength(text)
    if (bytes > MAX_BYTES) {
      const why = `has ${bytes} bytes as JSON, and a call may have ${MAX_BYTES}`
      throw faultError({ code: 'too_large', path: largest(params), why })
    }
  }
  return text
}
