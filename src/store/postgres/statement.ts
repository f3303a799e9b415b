/**
 * Prepared statements: compiled once when their module loads, named, and recognizable from outside. The
 * label stands right behind the first keyword, so that pg_stat_activity, pg_stat_statements, auto_explain
 * and the server's log name the statement even where they cut its text off.
 */
import { createHash } from 'node:crypto'
import { defined } from '../../base/defined.ts'
import { Param, type Sql, sql } from './sql.ts'

/** Compiled once; `order` says which named parameter stands at $1, $2, … */
export interface Statement<Row> {
  readonly name: string
  readonly text: string
  readonly order: readonly string[]
  /** False where it is planned at each run: it is rare, and keeping its plan would cost memory. */
  readonly prepared: boolean
  /**
   * It may bring tens of megabytes, so outside a transaction it waits for its turn: the name of the value
   * that says whose turn.
   */
  readonly turnOf?: string
  /** Only carries the row type. */
  readonly row?: Row
}

export type Values = Readonly<Record<string, unknown>>

/** `with picked as (…` becomes `with /* label *\/ picked as (…`. */
const withLabel = (label: string, text: string): string =>
  text.trimStart().replace(/^\w+/, (keyword) => `${keyword} /* ${label} */`)

const compiled: Statement<unknown>[] = []

/** Every statement of the modules loaded so far, for tests and benchmarks that ask something of all. */
export const compiledStatements = (): readonly Statement<unknown>[] => compiled

const compile = <Row>(
  label: string,
  text: Sql | string,
  { prepared = true, turnOf }: { prepared?: boolean; turnOf?: string },
): Statement<Row> => {
  const order: string[] = []
  const place = (name: string): string => {
    const known = order.indexOf(name)
    return `$${known >= 0 ? known + 1 : order.push(name)}`
  }
  const { parts } = sql`${text}`
  const body = parts.map((part) => (part instanceof Param ? place(part.name) : part)).join('')
  const whole = withLabel(label, body)
  const digest = createHash('sha1').update(whole).digest('hex').slice(0, 8)
  const name = `${label}_${digest}`
  const made: Statement<Row> = { name, text: whole, order, prepared, ...defined({ turnOf }) }
  compiled.push(made)
  return made
}

/** A statement that each connection keeps prepared once it has used it. */
export const statement = <Row>(label: string, text: Sql | string): Statement<Row> =>
  compile(label, text, {})

/** The same, of what may bring tens of megabytes; turns go round over the values named `turnOf`. */
export const largeStatement = <Row>(
  label: string,
  turnOf: string,
  text: Sql | string,
): Statement<Row> => compile(label, text, { turnOf })

/**
 * A statement that is not kept by the connection. Planning it costs a few milliseconds at each run, and
 * keeping it would cost each connection up to a megabyte for good: for statements that hardly ever run.
 */
export const plannedEachTime = <Row>(label: string, text: Sql | string): Statement<Row> =>
  compile(label, text, { prepared: false })
