/**
 * SQL as a value: text and named parameters, each in its place. Fragments are composed from fragments,
 * and which parameter stands where is known from the structure, never read back from finished text.
 *
 *     sql`select * from todos t where t.id = ${p.id}::uuid and ${notEnded}`
 */

/** A named parameter. The same name is the same value wherever it stands in a statement. */
export class Param {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

/** What may stand inside a fragment; a string is SQL text, so only constants may be given as one. */
export type SqlPart = Sql | Param | string | number

export class Sql {
  /** Text and parameters by turns, nothing nested. */
  readonly parts: readonly (string | Param)[]

  constructor(parts: readonly (string | Param)[]) {
    this.parts = parts
  }

  /** The same fragment with every parameter replaced by what `to` makes of it. */
  replaceParams(to: (param: Param) => SqlPart): Sql {
    return joinSql(this.parts.map((part) => (part instanceof Param ? to(part) : part)))
  }

  get isEmpty(): boolean {
    return this.parts.length === 0
  }
}

const flatten = (part: SqlPart): readonly (string | Param)[] => {
  if (part instanceof Sql) return part.parts
  if (part instanceof Param) return [part]
  return part === '' ? [] : [String(part)]
}

export const joinSql = (parts: readonly SqlPart[], separator = ''): Sql =>
  new Sql(parts.flatMap((part, n) => [...(n > 0 ? flatten(separator) : []), ...flatten(part)]))

export const sql = (strings: TemplateStringsArray, ...values: readonly SqlPart[]): Sql =>
  joinSql(strings.flatMap((text, n) => (n < values.length ? [text, values[n]!] : [text])))

/** `p.name` is the parameter `name`. */
export const p: Readonly<Record<string, Param>> = new Proxy(
  {},
  { get: (_, name) => new Param(String(name)) },
)
