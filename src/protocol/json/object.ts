/** How to recognize a JSON object, the two names of a field, and what is shown of an object. */
import { ExactNumber } from '../../base/exact-json.ts'
import type { JsonObject } from '../../domain/todo.ts'

/** For values parsed from JSON: an object, and neither a list, a number nor null. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  !(value instanceof ExactNumber)

/** The proto's own snake_case name of a field. ProtoJSON writes lowerCamelCase and reads both. */
export const snake = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)

type Words<Text extends string> = Text extends `${infer First} ${infer Rest}`
  ? First | Words<Rest>
  : Text

type Shown<T> = T extends Date ? string : T

/** Times as RFC 3339 with milliseconds. */
const shown = (value: unknown): unknown => (value instanceof Date ? value.toISOString() : value)

/**
 * Copies these members of a `T`, named in lines of words and in the order of the JSON; times become
 * RFC 3339. A member that is not named does not reach the wire.
 */
export const members =
  <T extends object>() =>
  <const Lines extends readonly (keyof T | `${string} ${string}`)[]>(
    ...names: Lines & (Words<Extract<Lines[number], string>> extends keyof T ? unknown : never)
  ) => {
    type Member = Words<Extract<Lines[number], string>> & keyof T
    const all = names.flatMap((line) => String(line).split(' ')) as Member[]
    return (of: T): { [M in Member]: Shown<T[M]> } => {
      const json: Partial<Record<Member, unknown>> = {}
      for (const name of all) json[name] = shown(of[name])
      return json as { [M in Member]: Shown<T[M]> }
    }
  }
