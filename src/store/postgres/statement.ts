/**
 * Prepared statements: compiled once when their module loads, named, and recognizable from outside. The
 * label stands right behind the first keyword, so that pg_stat_activity, pg_stat_statements, auto_explain
 * and the server's log name the statement even where they cut its text off.
 */
import { createHash } from 'node:crypto'
import { Param, Sql } from './sql.ts'

/** Compiled once; `order` says which named parameter stands at $1, $2, … */
export interface Statement<Row> {
  readonly name: string
  readonly text: string
  readonly order: readonly string[]
  /** Only carries the row type. */
  readonly row?: Row
}

export type Values = Readonly<Record<string, unknown>>

/** `with picked as (…` becomes `with /* label *\/ picked as (…`. */
const withLabel = (label: string, text: string): string =>
  text.trimStart().replace(/^\w+/, (keyword) => `${keyword} /* ${label} */`)

const legacy = (text: string): Sql =>
  new Sql(text.split(/(?<!:):([a-z_]+)/).map((part, n) => (n % 2 === 1 ? new Param(part) : part)))

export const statement = <Row>(label: string, text: Sql | string): Statement<Row> => {
  const order: string[] = []
  const place = (name: string): string => {
    const known = order.indexOf(name)
    return `$${known >= 0 ? known + 1 : order.push(name)}`
  }
  const body = typeof text === 'string' ? legacy(text) : text
  const compiled = body.parts.map((part) => (part instanceof Param ? place(part.name) : part))
  const whole = withLabel(label, compiled.join(''))
  const digest = createHash('sha1').update(whole).digest('hex').slice(0, 8)
  const made = { name: `${label}_${digest}`, text: whole, order }
  ;((globalThis as any).__statements ??= []).push(made)
  return made
}
