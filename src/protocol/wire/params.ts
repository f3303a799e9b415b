/**
 * A request's params, read by a row's schema: what every binding does before it calls a row. First
 * comes what holds for all params alike, whatever their schema: nothing that a store or an answer
 * could not carry unchanged. Names each field at fault by a path such as `message.parts[0].text`.
 */

import type { z } from 'zod'
import { ExactNumber } from '../../base/exact-json.ts'
import { invalid, Refusal, type Violation } from '../../domain/errors.ts'
import type { Call, Row } from './method.ts'

/** Deeper than any honest document, and far below what would overflow a stack anywhere. */
export const MAX_DEPTH = 100
/** An answer names at most this many faults. */
const MAX_VIOLATIONS = 20

/** `['message', 'parts', 0, 'text']` as `message.parts[0].text`; the root is `params`. */
export const pathText = (path: readonly PropertyKey[]): string => {
  if (path.length === 0) return 'params'
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`
    return text === '' ? String(key) : `${text}.${String(key)}`
  }, '')
}

const NUL = String.fromCharCode(0)
/** True for text that the store can hold, and so can also be searched for. */
export const isKeepable = (text: string): boolean => !text.includes(NUL) && text.isWellFormed()

/** The same text with U+FFFD for each NUL and each half of a surrogate pair. */
export const keepable = (text: string): string => text.replaceAll(NUL, '\ufffd').toWellFormed()

/** Why this value cannot be stored; null if it can, or if that depends on its members. */
const faultOf = (value: unknown): string | null => {
  if (typeof value === 'string' && !isKeepable(value)) {
    return 'must be well-formed text without NUL'
  }
  const isNumber = typeof value === 'number' || value instanceof ExactNumber
  return isNumber && !Number.isFinite(Number(String(value)))
    ? 'must be a number that a double can hold'
    : null
}

/**
 * Whether it has no fault at all, as nearly everything. It makes nothing and names nothing, and so
 * costs a tenth of {@link faultIn}, which looks again where this says no.
 */
const isFine = (value: unknown, depth: number): boolean => {
  if (typeof value !== 'object' || value === null || value instanceof ExactNumber) {
    return faultOf(value) === null
  }
  if (depth > MAX_DEPTH) return false
  if (Array.isArray(value)) {
    for (const member of value) if (!isFine(member, depth + 1)) return false
    return true
  }
  for (const key in value) {
    if (!isKeepable(key)) return false
    if (!isFine((value as Record<string, unknown>)[key], depth + 1)) return false
  }
  return true
}

/** A fault below a value, and the keys that lead to it; null for what is too deep for a path. */
interface Fault {
  keys: readonly (string | number)[] | null
  description: string
}

const faultIn = (value: object, depth: number): Fault | null => {
  if (depth > MAX_DEPTH) {
    return { keys: null, description: `must not be nested deeper than ${MAX_DEPTH} levels` }
  }
  const members = value as Readonly<Record<string | number, unknown>>
  const objects: (readonly [key: string | number, member: object])[] = []
  // Object.keys() of an array would turn a body full of numbers into a body full of texts.
  for (const key of Array.isArray(value) ? value.keys() : Object.keys(value)) {
    if (typeof key === 'string' && !isKeepable(key)) {
      return { keys: [], description: 'must have names that are well-formed text without NUL' }
    }
    const member = members[key]
    if (typeof member === 'object' && member !== null && !(member instanceof ExactNumber)) {
      objects.push([key, member])
    } else {
      const description = faultOf(member)
      if (description !== null) return { keys: [key], description }
    }
  }
  for (const [key, member] of objects.reverse()) {
    const fault = faultIn(member, depth + 1)
    if (fault) return { ...fault, keys: fault.keys && [key, ...fault.keys] }
  }
  return null
}

/**
 * The first thing in `params` that no store or answer could carry unchanged: unbounded nesting,
 * half a surrogate pair, a NUL, a number beyond a double. Null if there is none.
 */
export const unkeepable = (params: unknown): Violation | null => {
  if (typeof params !== 'object' || params === null || isFine(params, 1)) return null
  const fault = faultIn(params, 1)
  return fault && { field: pathText(fault.keys ?? []), description: fault.description }
}

/** A schema's issues as fields at fault, at most 20. Each unknown member is named. */
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

/** What the row's schema makes of the given params (parsed JSON). Refuses: invalid. */
export const readParams = <C extends Call>(row: Row<C>, given: unknown): unknown => {
  const params = row.mend ? row.mend(given) : given
  const fault = unkeepable(params)
  if (fault) throw invalid(fault.field, fault.description)
  const read = row.params.safeParse(params, {
    error: ({ input }) => {
      if (input === undefined) return 'is required'
      return input instanceof ExactNumber
        ? 'must be a number that a double holds exactly'
        : undefined
    },
  })
  if (read.success) return read.data
  throw new Refusal('invalid', { violations: violationsOf(read.error.issues) })
}
