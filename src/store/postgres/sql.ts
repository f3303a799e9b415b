/**
 * SQL as a value: text and named parameters, each in its place. Fragments are composed from fragments,
 * and which parameter stands where is known from the structure, never read back from finished text.
 *
 *     sql`select * from todos t where t.id = ${$.id}::uuid and ${notEnded}`
 */

/** The name of every parameter, so that a misspelled one does not compile. */
const NAMES = [
  'afforded after after_at after_id afters again append artifact artifact_bytes artifact_id asked at_most',
  'author authors budget bytes card catch_up cause',
  'children chunk_key claimant client client_id clients close_by concurrency config config_id cron',
  'context_id contexts counts crowded crowded_pairs delay depth detail details direct due_seconds effects',
  'endpoint endpoint_counts endpoints except expires_in',
  'fence full hash heartbeat highest_priority history_bytes hold_seconds hosts id ids interrupt_ttl',
  'join_cancels join_seconds join_until',
  'keeps_concurrency keeps_highest keeps_lowest key key_digest key_endpoint key_queue key_seconds',
  'key_source last_chunk last_tick_at',
  'lease lease_seconds limit line lines lowest_priority made max_attempts max_wait_seconds message message_id',
  'message_ids messages metadata name next_at not_before overlap owner parent_id parents park paused per_host policy',
  'priorities priority push_credentials push_dialect push_endpoint push_host push_id',
  'push_scheme push_secret push_token push_url question queue queues reason rejected request requests result',
  'result_bytes retry_by retry_of retry_seconds schedule schedule_to_close schedule_to_start schema scope_client',
  'scope_kind scope_queue scope_queues seconds secret send_per_minute seq seqs share skipped spend spend_key',
  'start_to_close',
  'state status summary through time_zone timeouts to todo todo_id token tries ttl_seconds value verb verbs with_artifacts',
] as const

type Words<Line extends string> = Line extends `${infer First} ${infer Rest}`
  ? First | Words<Rest>
  : Line

export type ParamName = Words<(typeof NAMES)[number]>

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

  /** The text of a fragment that has no parameters. */
  get text(): string {
    if (this.parts.some((part) => part instanceof Param)) throw new Error('it has parameters')
    return this.parts.join('')
  }

  /** Text made of a fragment would lose its parameters: what embeds one is a fragment itself. */
  toString(): never {
    throw new Error('a fragment of SQL stands in a string that is not tagged sql')
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

/** `$.name` is the parameter `name`. */
export const $ = Object.fromEntries(
  NAMES.flatMap((line) => line.split(' ')).map((name) => [name, new Param(name)]),
) as Readonly<Record<ParamName, Param>>
