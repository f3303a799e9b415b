/**
 * The definitions of A2A 0.3's JSON Schema without their prose, and with no member more than they
 * name: what an answer is checked against. Run with the name of the official file it prints them,
 * one a line; that is how test/fixtures/a2a-0.3.json is made.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'

type Schema = Record<string, unknown>
export type Definitions = Record<string, Schema>

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** `named`: the keys are names of members, so none of them is a keyword. */
const withoutProse = (value: unknown, named = false): unknown => {
  if (Array.isArray(value)) return value.map((item) => withoutProse(item))
  if (!isSchema(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => named || (key !== 'description' && key !== 'examples'))
      .map(([key, item]) => [key, withoutProse(item, key === 'properties' && !named)]),
  )
}

export const readSchema = (text: string): Definitions => {
  const { definitions } = JSON.parse(text) as { definitions: Definitions }
  return withoutProse(definitions, true) as Definitions
}

const closed = (schema: Schema): Schema =>
  isSchema(schema.properties) && !('additionalProperties' in schema)
    ? { ...schema, additionalProperties: false }
    : schema

/** What is wrong with a value as the definition of this name; nothing when it is one. */
export const checker = (definitions: Definitions) => {
  const ajv = new Ajv({ strict: false, allErrors: true })
  ajv.addSchema({
    $id: 'a2a',
    definitions: Object.fromEntries(
      Object.entries(definitions).map(([name, schema]) => [name, closed(schema)]),
    ),
  })
  return (name: string, value: unknown): string[] => {
    const validate = ajv.getSchema(`a2a#/definitions/${name}`)
    if (!validate) throw new Error(`there is no ${name} in 0.3`)
    // As it goes over the wire.
    if (validate(JSON.parse(JSON.stringify(value)))) return []
    return (validate.errors ?? []).map(({ instancePath, message, params }) =>
      [name, instancePath, message, JSON.stringify(params)].join(' '),
    )
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const definitions = readSchema(readFileSync(process.argv[2] ?? '', 'utf8'))
  const lines = Object.entries(definitions).map(
    ([name, schema]) => `${JSON.stringify(name)}: ${JSON.stringify(schema)}`,
  )
  process.stdout.write(`{\n${lines.join(',\n')}\n}\n`)
}
