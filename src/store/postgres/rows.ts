/**
 * Rows as the domain has them. SQL's snake_case becomes the domain's camelCase once, in the column list of
 * a statement (`t.context_id as "contextId"`), so that the driver hands back the domain's own object and
 * nothing is copied for each row. The lists name every member of the type, or they do not compile.
 */
import type { Session, Statement, Values } from './database.ts'

type Words<Text extends string> = Text extends `${infer First} ${infer Rest}`
  ? First | Words<Rest>
  : Text

/** SQL for a member, given the alias of its table. */
type Expression = (alias: string) => string

/** What is selected in place of the columns, for one statement. */
type Instead<T> = { readonly [Member in keyof T]?: string }

export interface Columns<T> {
  /** Columns of a select. */
  select(alias: string, instead?: Instead<T>): string
  /** A JSON object; its dates are texts until {@link Columns.revive} has converted them. */
  json(alias: string): string
  /** Converts, in place, the dates in documents that `json`, or json_agg over `select`, has built. */
  revive(documents: T[] | null): T[]
}

const snakeCase = (member: string): string =>
  member.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** JSON has no dates. Members that are dates end in `At`, in the domain as in the schema. */
const isDate = (member: string): boolean => member.endsWith('At')

/**
 * The columns of a domain type: its members by name, in lines of words, each a column of the same name in
 * snake_case; what is not such a column comes with its SQL in `computed`.
 */
export const columnsOf =
  <T extends object>() =>
  <const Lines extends readonly string[]>(
    names: Lines & (Words<Lines[number]> extends keyof T ? unknown : never),
    ...[computed]: Exclude<keyof T, Words<Lines[number]>> extends never
      ? []
      : [computed: Record<Exclude<keyof T, Words<Lines[number]>>, Expression>]
  ): Columns<T> => {
    const members = [
      ...names
        .flatMap((line) => line.split(' '))
        .map((name): [string, Expression] => [name, (alias) => `${alias}.${snakeCase(name)}`]),
      ...Object.entries<Expression>(computed ?? {}),
    ]
    const dates = members.map(([name]) => name).filter(isDate) as (keyof T)[]
    return {
      select: (alias, instead: Record<string, string | undefined> = {}) =>
        members
          .map(([name, of]) => {
            const expression = instead[name] ?? of(alias)
            return expression === `${alias}.${name}` ? expression : `${expression} as "${name}"`
          })
          .join(', '),
      json: (alias) =>
        `json_build_object(${members.map(([name, of]) => `'${name}', ${of(alias)}`).join(', ')})`,
      revive: (documents) => {
        for (const document of documents ?? []) {
          for (const name of dates) {
            const text = document[name] as string | null
            if (text !== null) document[name] = new Date(text) as T[keyof T]
          }
        }
        return documents ?? []
      },
    }
  }

/** The first row of a statement that finds one at most; null where it finds none. */
export const readOne = async <Row>(
  session: Session,
  statement: Statement<Row>,
  values: Values,
): Promise<Row | null> => (await session.run(statement, values))[0] ?? null
