/** Objects of JSON by their members: what is one, and which members of one are set. */
import type { JsonObject } from '../domain/todo.ts'

/** Of what was parsed from JSON: neither a list nor null. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

type Loose<T> = { [K in keyof T]?: T[K] | undefined }

/** The members that are set. What they are was decided by the schema that read them. */
export const set = <T>(members: Loose<T>): T => {
  const kept: Loose<T> = {}
  for (const name in members) if (members[name] !== undefined) kept[name] = members[name]
  return kept as T
}
