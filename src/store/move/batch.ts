/**
 * What each of many holders brings to one statement: its parameters as the rows of `given`. A clause
 * that was written for one todo reads them there instead, wherever the row has come to by then.
 */
import { type Change, parameters } from './change.ts'

/** Parameters of the verbs that are gathered, by their types. */
const TYPES = {
  id: 'uuid',
  endpoint: 'uuid',
  fence: 'bigint',
  lease_seconds: 'int',
  due_seconds: 'double precision',
  message: 'text',
  message_id: 'text',
  artifact: 'text',
  artifact_id: 'text',
  append: 'boolean',
  last_chunk: 'boolean',
  detail: 'text',
  summary: 'text',
  cause: 'text',
  result: 'text',
  direct: 'boolean',
  through: 'int',
} as const

type Name = keyof typeof TYPES
const NAMES = Object.keys(TYPES) as Name[]

const column = (name: string): string => `given_${name}`

/** The first `with` of such a statement, in the order of the ids. */
export const BATCH_ROWS = `given as materialized (
  select * from unnest(${NAMES.map((name) => `:${name}::${TYPES[name]}[]`).join(', ')})
    as g(${NAMES.map(column).join(', ')}) order by ${column('id')})`

/** All of them, as columns of this alias. */
export const batchColumns = (alias: string): string =>
  NAMES.map((name) => `${alias}.${column(name)}`).join(', ')

/** The text with each parameter read from this alias. Throws for one that is not given. */
export const bindToBatch = (alias: string, text: string): string =>
  text.replace(/(?<!:):([a-z_]+)/g, (_, name: string) => {
    if (!(name in TYPES)) throw new Error(`the parameter ${name} cannot be gathered`)
    return `${alias}.${column(name)}`
  })

/** Which todo, and what is brought to it. */
export interface BatchItem {
  id: string
  change: Change
}

/** The values of {@link BATCH_ROWS}. */
export const batchValues = (all: readonly BatchItem[]): Record<string, unknown[]> => {
  const rows = all.map(
    ({ id, change }) => ({ ...parameters(change), id }) as Record<string, unknown>,
  )
  return Object.fromEntries(NAMES.map((name) => [name, rows.map((row) => row[name] ?? null)]))
}
