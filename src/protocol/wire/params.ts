/**
 * A request's params, read by a row's schema: what every binding does before it calls a row. First
 * comes what holds for all params alike, whatever their schema: nothing that a store or an answer
 * could not carry unchanged. Names each field at fault by a path such as `message.parts[0].text`.
 */
import type { z } from 'zod'
import { invalid, Refusal, type Violation } from '../../domain/errors.ts'
import type { Call, Row } from './method.ts'

/** Deeper than any honest document; far below what overflows a stack anywhere on the way. */
export const MAX_DEPTH = 100
/** An answer names this many faults and no more. */
const MAX_VIOLATIONS = 20

/** `['message', 'parts', 0, 'text']` as `message.parts[0].text`; the root is `params`. */
export const pathText = (path: readonly PropertyKey[]): string => {
  if (path.length === 0) return 'params'
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`
    return text === '' ? String(key) : `${text}.${String(key)}`
  }, '')
}

/** A place in a document, kept as links so that only a fault pays for its path. */
interface Place {
  value: object
  key: string | number
  parent: Place | null
  depth: number
}

const keysTo = (place: Place): (string | number)[] =>
  place.parent === null ? [] : [...keysTo(place.parent), place.key]

const NUL = String.fromCharCode(0)
/** What can be stored, and so also be looked for. */
export const isKeepable = (text: string): boolean => !text.includes(NUL) && text.isWellFormed()

/** Why this value cannot be kept; null when it can, or when its members have to be asked. */
const faultOf = (value: unknown): string | null => {
  if (typeof value === 'string' && !isKeepable(value)) {
    return 'must be well-formed text without NUL'
  }
  return typeof value === 'number' && !Number.isFinite(value)
    ? 'must be a number that a double can hold'
    : null
}

/** The first fault among a place's members; its objects are left in `open`. */
const scan = (parent: Place, open: Place[]): Violation | null => {
  const visit = (value: unknown, key: string | number): Violation | null => {
    if (typeof value === 'object' && value !== null) {
      open.push({ value, key, parent, depth: parent.depth + 1 })
      return null
    }
    const description = faultOf(value)
    return description === null ? null : { field: pathText([...keysTo(parent), key]), description }
  }
  // By index and by key: entries of a body full of numbers would be a body full of arrays.
  if (Array.isArray(parent.value)) {
    for (let index = 0; index < parent.value.length; index += 1) {
      const fault = visit(parent.value[index], index)
      if (fault) return fault
    }
    return null
  }
  const members = parent.value as Record<string, unknown>
  for (const key of Object.keys(members)) {
    if (!isKeepable(key)) {
      const description = 'must have names that are well-formed text without NUL'
      return { field: pathText(keysTo(parent)), description }
    }
    const fault = visit(members[key], key)
    if (fault) return fault
  }
  return null
}

/**
 * The first thing in `params` that no store or answer could carry unchanged: nesting without
 * bound, half a surrogate pair, a NUL, a number beyond a double. Null when there is none. It is
 * iterative, so that depth cannot hurt it.
 */
export const unkeepable = (params: unknown): Violation | null => {
  if (typeof params !== 'object' || params === null) return null
  const open: Place[] = [{ value: params, key: '', parent: null, depth: 1 }]
  for (let place = open.pop(); place; place = open.pop()) {
    if (place.depth > MAX_DEPTH) {
      // The path of a bomb would be as long as the bomb is deep.
      return { field: 'params', description: `must not be nested deeper than ${MAX_DEPTH} levels` }
    }
    const fault = scan(place, open)
    if (fault) return fault
  }
  return null
}

/** A schema's issues as fields at fault, at most 20. Members it does not know are named each. */
export const violationsOf = (issues: readonly z.core.$ZodIssue[]): Violation[] =>
  issues
    .flatMap((issue): Violation[] =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map((key) => ({
            field: pathText([...issue.path, key]),
            description: 'is not known here',
          }))
        : [{ field: pathText(issue.path), description: issue.message }],
    )
    .slice(0, MAX_VIOLATIONS)

/** What the row's schema makes of `params` (parsed JSON). Refuses: invalid. */
export const readParams = <C extends Call>(row: Row<C>, params: unknown): unknown => {
  const fault = unkeepable(params)
  if (fault) throw invalid(fault.field, fault.description)
  const read = row.params.safeParse(params, {
    error: (issue) => (issue.input === undefined ? 'is required' : undefined),
  })
  if (read.success) return read.data
  throw new Refusal('invalid', { violations: violationsOf(read.error.issues) })
}
