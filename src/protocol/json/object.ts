/** How to recognize a JSON object, and the two names of a field. */
import type { JsonObject } from '../../domain/todo.ts'

/** For values parsed from JSON: an object, and neither a list nor null. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The proto's own snake_case name of a field. ProtoJSON writes lowerCamelCase and reads both. */
export const snake = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)
