/**
 * A question's JSON Schema as a form that a person can fill in. What no control can express is
 * asked for as JSON. The form only helps: the schema alone decides whether an answer fits.
 */
import { ExactNumber, parseExact } from '../../base/exact-json.ts'
import type { Json, JsonObject } from '../../domain/todo.ts'
import { isObject } from './object.ts'

export interface Field {
  /** The property's name; null for the answer as a whole. */
  name: string | null
  label: string
  help: string | null
  kind: 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'json'
  required: boolean
  /** The values to choose from, if the schema lists them. */
  choices: Json[]
  long: boolean
}

/** With more than these, a form would be no help. */
const MAX_FIELDS = 30
const MAX_CHOICES = 50
/** A text that may be longer than this gets more room. */
const SHORT_TEXT = 120

const textOr = (value: unknown, other: string): string =>
  typeof value === 'string' ? value : other

const kindOf = (schema: JsonObject): Field['kind'] => {
  const { type } = schema
  if (Array.isArray(schema.enum) && schema.enum.length <= MAX_CHOICES) return 'choice'
  if (type === 'string') return 'text'
  return type === 'number' || type === 'integer' || type === 'boolean' ? type : 'json'
}

const fieldOf = (name: string | null, given: unknown, required: boolean): Field => {
  const schema = isObject(given) ? given : {}
  const kind = kindOf(schema)
  const { description, maxLength } = schema
  return {
    name,
    label: textOr(schema.title, name ?? 'Answer'),
    help: typeof description === 'string' ? description : null,
    kind,
    required,
    choices: kind === 'choice' ? (schema.enum as Json[]) : [],
    long: kind === 'text' && !(typeof maxLength === 'number' && maxLength <= SHORT_TEXT),
  }
}

/** The fields of a form for an answer to this schema. */
export const formOf = (schema: JsonObject): Field[] => {
  const { type, properties, required } = schema
  if (type !== 'object' || !isObject(properties)) return [fieldOf(null, schema, true)]
  const names = Object.keys(properties)
  if (names.length === 0 || names.length > MAX_FIELDS) return [fieldOf(null, {}, true)]
  const needed = Array.isArray(required) ? required : []
  return names.map((name) => fieldOf(name, properties[name], needed.includes(name)))
}

/** The text typed into a field is not a value of its kind. */
export class NotOfKind extends Error {}

const isExact = (value: unknown): boolean => value instanceof ExactNumber

/** The value of `typed`, the text that a form control sends; undefined if it was left empty. */
const typedValue = ({ kind, choices, label }: Field, typed: string | null): Json | undefined => {
  if (typed === null || typed === '') return undefined
  if (kind === 'boolean') return typed === 'true'
  if (kind === 'text') return typed
  if (kind === 'choice') return choices[Number(typed)]
  try {
    const value = parseExact(typed) as Json
    if (kind === 'json' || typeof value === 'number' || isExact(value)) return value
  } catch {
    // The error below says so.
  }
  throw new NotOfKind(`${label}: ${kind === 'json' ? 'is not JSON' : 'is not a number'}`)
}

/** The answer's data, from what was typed into each field. Throws NotOfKind. */
export const readForm = (
  fields: readonly Field[],
  typed: (field: number) => string | null,
): Json => {
  const values = fields.map((field, i) => [field.name, typedValue(field, typed(i))] as const)
  const [whole] = values
  if (whole && whole[0] === null) return whole[1] ?? null
  // On an ordinary object a property named __proto__ would set the prototype instead.
  const object: JsonObject = Object.create(null)
  for (const [name, value] of values) {
    if (name !== null && value !== undefined) object[name] = value
  }
  return { ...object }
}
