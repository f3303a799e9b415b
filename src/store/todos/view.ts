/**
 * A todo read with everything that belongs to it, in one statement. Artifacts are kept as the chunks
 * they came in and put together here, so that appending to one never rewrites it.
 */

import { assemble } from '../../base/chunks.ts'
import { isUuid } from '../../base/uuid.ts'
import { ALONE_BYTES, READ_BYTES } from '../../domain/budget.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { STATUS_VERBS } from '../../domain/lifecycle.ts'
import type { JsonObject, Message, StoredMessage, Todo, TodoView } from '../../domain/todo.ts'
import { type Session, statement } from '../postgres/database.ts'
import { readOne } from '../postgres/rows.ts'
import { $, type Sql, type SqlPart, sql } from '../postgres/sql.ts'
import {
  ALL,
  BYTES_ON_PAGE,
  CHUNK_JSON,
  type Chunk,
  MESSAGE,
  readFitting,
  type Wanted,
} from './documents.ts'
import { TODO_COLUMNS } from './row.ts'
import { scopeSql, scopeValues } from './scope.ts'
import { HELD_BYTES } from './size.ts'

interface Documents {
  /** Of a large todo these are its ends, and null where there is none. */
  messages: (StoredMessage | null)[] | null
  artifacts: Chunk[] | null
  details: Pick<TodoView, 'metadata' | 'result' | 'direct'> | null
  waitsBehind: string | null
  behindOther: boolean | null
  retriedAs: string | null
  /** It has more documents than are read with those of others: only those of its ends are here. */
  large: boolean
}

/** A todo with its documents, as a statement hands it back: one row, and so one object. */
export type ViewRow = Todo & Documents

const messagesOf = (
  todo: string,
  until = 'true',
): string => `(select json_agg(${MESSAGE.json('s')} order by s.seq)
  from messages s where s.todo_id = ${todo}.id and ${until})`

const messageAt = (todo: string, at: SqlPart): Sql =>
  sql`(select ${MESSAGE.json('s')} from messages s where s.todo_id = ${todo}.id and ${at})`

/** The message that it began with, that of its status, and between them `also`; null for each that is not there. */
const endsOf = (todo: string, also: SqlPart = '0'): Sql => sql`json_build_array(
    ${messageAt(todo, 's.seq = 1')},
    ${messageAt(todo, sql`s.seq = ${also} and s.seq > 1 and s.seq < ${todo}.status_seq`)},
    ${messageAt(todo, `s.seq = ${todo}.status_seq and s.seq > 1`)})`

const artifactsOf = (todo: string, until = 'true'): string => `(select json_agg(
    ${CHUNK_JSON('a')} order by a.seq)
  from artifacts a where a.todo_id = ${todo}.id and ${until})`

const detailsJson = (direct: string): string =>
  `json_build_object('metadata', d.metadata, 'result', d.result, 'direct', ${direct})`

/** What belongs to a todo beside its messages and artifacts. */
const besidesOf = (todo: string): string => `
  (select ${detailsJson('d.direct')} from details d where d.todo_id = ${todo}.id) as details,
  case when ${todo}.state = 'pending' and ${todo}.due_at is null then
    (select f.id from todos f where f.line = ${todo}.line and f.front) end as "waitsBehind",
  case when ${todo}.state = 'pending' and ${todo}.due_at is null then
    (select f.client_id is distinct from ${todo}.client_id from todos f
      where f.line = ${todo}.line and f.front) end as "behindOther",
  case when ${todo}.state in ('failed', 'rejected') and ${todo}.finished_at is not null then
    (select r.id from todos r where r.retry_of = ${todo}.id) end as "retriedAs"`

/** The columns of {@link Documents}. Where it is `large`, its documents are read by a statement of their own. */
export const documentsOf = (todo: string, withArtifacts: SqlPart, large: SqlPart): Sql => sql`
  case when ${large} then ${endsOf(todo)} else ${messagesOf(todo)} end as messages,
  case when ${withArtifacts} and not (${large}) then ${artifactsOf(todo)} end as artifacts,
  ${large} as large,
  ${besidesOf(todo)}`

/** Without `artifacts`, the statement was not asked for them. */
export const toView = (row: ViewRow, artifacts: boolean): TodoView => ({
  todo: row,
  messages: MESSAGE.revive((row.messages ?? []).filter((message) => message !== null)),
  ...(artifacts && { artifacts: assemble(row.artifacts ?? []) }),
  metadata: row.details?.metadata ?? null,
  result: row.details?.result ?? null,
  direct: row.details?.direct ?? false,
  waitsBehind: row.waitsBehind,
  behindOther: row.behindOther === true,
  retriedAs: row.retriedAs,
})

/** The view, with as much of a large todo as one answer shows. */
export const wholeView = async (
  session: Session,
  row: ViewRow,
  wanted: Wanted = ALL,
): Promise<TodoView> => {
  const artifacts = wanted.artifactBytes > 0
  if (!row.large) return toView(row, artifacts)
  // What came since the row was read would come twice to whoever goes on from there.
  const until = { ...wanted, through: wanted.through ?? row.seq }
  const { messages, chunks, left, artifactBytes } = await readFitting(session, row, until)
  const view = { ...toView({ ...row, artifacts: chunks }, artifacts), messages }
  const isMissing = left > 0 || (artifacts && chunks === null)
  return isMissing
    ? { ...view, omitted: { messages: left, artifactBytes: chunks ? 0 : artifactBytes } }
    : view
}

/** One after another: each may be as large as an answer can be. */
const wholeViews = async (
  session: Session,
  rows: readonly ViewRow[],
  through: (row: ViewRow) => number | null = () => null,
): Promise<TodoView[]> => {
  const views: TodoView[] = []
  for (const row of rows) {
    views.push(await wholeView(session, row, { ...ALL, through: through(row) }))
  }
  return views
}

const viewSql = (where: SqlPart, large: SqlPart, from: SqlPart = 'todos t'): Sql =>
  sql`select ${TODO_COLUMNS('t')}, ${documentsOf('t', sql`${$.with_artifacts}::boolean`, 'z.large')}
  from ${from} ${measured(large)} where ${where}`

/** Measured once for each row, also where it has to be counted. */
const measured = (large: SqlPart): Sql =>
  sql`cross join lateral (select ${large} as large offset 0) z`

const LARGE = `${HELD_BYTES('t')} > ${ALONE_BYTES}`

const readStatement = statement<ViewRow>(
  'todo_read',
  viewSql(sql`t.id = ${$.id}::uuid and ${scopeSql('t')}`, LARGE),
)

/** Null where there is none, or none within the scope: the two are not told apart. */
export const readView = async (
  session: Session,
  id: string,
  scope: Scope,
): Promise<TodoView | null> => {
  if (!isUuid(id)) return null
  const values = { id, with_artifacts: true, ...scopeValues(scope) }
  const row = await readOne(session, readStatement, values)
  return row && wholeView(session, row)
}

const endsStatement = statement<ViewRow>(
  'todo_ends',
  sql`select ${TODO_COLUMNS('t')}, ${endsOf('t', sql`${$.question}::int`)} as messages,
    null::json as artifacts, true as large, ${besidesOf('t')}
  from todos t where t.id = ${$.id}::uuid and ${scopeSql('t')}`,
)

/** As readView, with only the first message, that of the status, and that of one more event. */
export const readEnds = async (
  session: Session,
  id: string,
  scope: Scope,
  question: number | null = null,
): Promise<TodoView | null> => {
  if (!isUuid(id)) return null
  const values = { id, question, ...scopeValues(scope) }
  const row = await readOne(session, endsStatement, values)
  return row && toView(row, false)
}

/** What is to be known of a todo before something is done to it. */
export interface Brief {
  todo: Todo
  /** What it failed with. */
  error: string | null
  /** The message that is kept under this id, if it has one. */
  namesake: { seq: number; message: Message } | null
}

const briefStatement = statement<Todo & Omit<Brief, 'todo'>>(
  'todo_brief',
  sql`select ${TODO_COLUMNS('t')},
    case when t.state = 'failed' then (select case when json_typeof(d.result -> 'error') = 'string'
      then d.result ->> 'error' end from details d where d.todo_id = t.id) end as error,
    (select json_build_object('seq', m.seq, 'message', m.message) from messages m
      where m.todo_id = t.id and m.message_id = ${$.message_id}) as namesake
  from todos t where t.id = ${$.id}::uuid and ${scopeSql('t')}`,
)

/** The row without its documents. */
export const readBrief = async (
  session: Session,
  id: string,
  scope: Scope,
  messageId: string | null = null,
): Promise<Brief | null> => {
  if (!isUuid(id)) return null
  const values = { id, message_id: messageId, ...scopeValues(scope) }
  const row = await readOne(session, briefStatement, values)
  return row && { todo: row, error: row.error, namesake: row.namesake }
}

const manyStatement = statement<ViewRow>(
  'todos_read',
  viewSql(sql`t.id = any(${$.ids}::uuid[]) and ${scopeSql('t')}`, LARGE),
)

/** As readView for each of these, with their artifacts, in one statement. */
export const readViews = async (
  session: Session,
  ids: readonly string[],
  scope: Scope,
): Promise<(TodoView | null)[]> => {
  const rows = await session.run(manyStatement, {
    ids: ids.filter(isUuid),
    with_artifacts: true,
    ...scopeValues(scope),
  })
  const found = new Map((await wholeViews(session, rows)).map((view) => [view.todo.id, view]))
  return ids.map((id) => found.get(id.toLowerCase()) ?? null)
}

/** Settled is a phase, not a state: a failure whose retry is scheduled goes on. */
const settledStatement = statement<ViewRow>(
  'todos_settled',
  viewSql(
    't.status_seq > w.after and (t.finished_at is not null or t.interrupted_at is not null)',
    LARGE,
    sql`unnest(${$.ids}::uuid[], ${$.afters}::int[]) as w(id, after)
      cross join lateral (select * from todos t where t.id = w.id offset 0) t`,
  ),
)

/** How many todos are read together of those that may each have documents of ALONE_BYTES. */
const SETTLED_AT_ONCE = 40

/**
 * Those of these todos that settled by an event after the one given, each whole. They come one by one, so
 * that each can be written out before the next is read.
 */
export async function* readSettled(
  session: Session,
  watched: readonly { id: string; after: number }[],
): AsyncGenerator<TodoView, void, undefined> {
  for (let from = 0; from < watched.length; from += SETTLED_AT_ONCE) {
    const some = watched.slice(from, from + SETTLED_AT_ONCE)
    const rows = await session.run(settledStatement, {
      ids: some.map(({ id }) => id),
      afters: some.map(({ after }) => after),
      with_artifacts: true,
    })
    for (const row of rows) yield await wholeView(session, row)
  }
}

const AS_OF = {
  state: 'e.to_state',
  nextRetryAt: 'case when e.retrying then s.at end',
  seq: 'w.seq',
  statusSeq: 's.seq',
  statusAt: 's.at',
  join: 'null::json',
}

const asOfStatement = statement<ViewRow>(
  'todos_as_of',
  sql`select ${TODO_COLUMNS('t', AS_OF)}, z.large,
    case when not z.large then ${messagesOf('t', 's.seq <= w.seq')} end as messages,
    case when not z.large then ${artifactsOf('t', 'a.seq <= w.seq')} end as artifacts,
    ${detailsJson('false')} as details,
    null::uuid as "waitsBehind", false as "behindOther", null::uuid as "retriedAs"
  from unnest(${$.ids}::uuid[], ${$.seqs}::int[]) as w(id, seq)
    join todos t on t.id = w.id
    ${measured(LARGE)}
    join events e on e.todo_id = w.id and e.seq = w.seq
    cross join lateral (select v.seq, v.at from events v where v.todo_id = w.id and v.seq <= w.seq
      and v.verb in ('send', ${STATUS_VERBS.map((verb) => `'${verb}'`).join(', ')})
      order by v.seq desc limit 1) s
    left join details d on d.todo_id = w.id`,
)

/**
 * Todos as they were right after an event each: the same at every look, however they went on. What
 * nobody outside is told (owner, lease, limits) is as it is now.
 */
export const readAsOf = async (
  session: Session,
  wanted: readonly { id: string; seq: number }[],
): Promise<TodoView[]> => {
  const rows = await session.run(asOfStatement, {
    ids: wanted.map(({ id }) => id),
    seqs: wanted.map(({ seq }) => seq),
  })
  return wholeViews(session, rows, ({ seq }) => seq)
}

const missingStatement = statement<{ id: string }>(
  'todos_missing',
  sql`select w.id from unnest(${$.ids}::uuid[]) as w(id)
  where not exists (select from todos t where t.id = w.id)`,
)

/** Those of these ids that belong to no todo, or no longer do. */
export const readMissing = async (session: Session, ids: readonly string[]): Promise<string[]> =>
  (await session.run(missingStatement, { ids })).map(({ id }) => id)

const schemaStatement = statement<{ schema: JsonObject | null; sender: string | null }>(
  'question_schema',
  sql`select schema, sender from messages where todo_id = ${$.id}::uuid and seq = ${$.seq}::int`,
)

/** The schema that the answer to this question must fit, and who asked it; null where anything goes. */
export const readAnswerSchema = async (
  session: Session,
  id: string,
  question: number,
): Promise<{ schema: JsonObject; sender: string | null } | null> => {
  const [found] = await session.run(schemaStatement, { id, seq: question })
  return found?.schema ? { schema: found.schema, sender: found.sender } : null
}

const messageIdStatement = statement<{ messageId: string; answers: number | null }>(
  'message_id',
  sql`select m.message ->> 'messageId' as "messageId", m.answers from messages m
  where m.todo_id = ${$.id}::uuid and m.seq = ${$.seq}::int`,
)

/** The id of the message that this event brought, and the question that it answered. */
export const readMessageId = (
  session: Session,
  id: string,
  seq: number,
): Promise<{ messageId: string; answers: number | null } | null> =>
  readOne(session, messageIdStatement, { id, seq })

const keptStatement = statement<{ seq: number }>(
  'message_kept',
  sql`select m.seq from messages m where m.todo_id = ${$.id}::uuid and m.message_id = ${$.message_id}`,
)

/** The message that a todo keeps under this id; null where there is none. */
export const readKept = (
  session: Session,
  id: string,
  keptAs: string,
): Promise<{ seq: number } | null> => readOne(session, keptStatement, { id, message_id: keptAs })

const heldStatement = statement<Todo & { owed: StoredMessage[] | null }>(
  'todo_held',
  sql`select ${TODO_COLUMNS('t')}, case when t.unread > 0 then (
    select json_agg(${MESSAGE.json('o')} order by o.seq) from (
      select m.*, ${BYTES_ON_PAGE('m', 'm.n', 'message')} as size,
        sum(${BYTES_ON_PAGE('m', 'm.n', 'message')}) over (order by m.seq) as upto
      from (select m.*, row_number() over (order by m.seq) as n from messages m
        where m.todo_id = t.id and m.owed and m.seq > t.acknowledged_seq and m.seq > ${$.after}::int) m) o
    where o.upto <= ${READ_BYTES} or o.upto = o.size) end as owed
  from todos t where t.id = ${$.id}::uuid and ${scopeSql('t')}`,
)

/**
 * A todo as its holder sees it: the row, and the first messages after a seq that are owed to the holder,
 * as many as are handed over at once.
 */
export const readHeld = async (
  session: Session,
  id: string,
  after: number,
  scope: Scope,
): Promise<{ todo: Todo; owed: StoredMessage[] } | null> => {
  if (!isUuid(id)) return null
  const row = await readOne(session, heldStatement, { id, after, ...scopeValues(scope) })
  return row && { todo: row, owed: MESSAGE.revive(row.owed) }
}

const conversationStatement = statement<Todo>(
  'todos_conversation',
  sql`select ${TODO_COLUMNS('t')} from todos t
  where t.context_id = ${$.context_id} and coalesce(t.line, t.later_line) = ${$.line}::uuid
    and t.finished_at is null
    and (t.front or (t.client_id is not distinct from ${$.client_id}::uuid
      and t.author is not distinct from ${$.author}::text))
  order by t.front desc, t.lined_at desc limit 100`,
)

/**
 * Live todos of one line: the one at the front, whoever's it is, then this author's, newest first; with
 * those of them that wait for their time.
 */
export const readConversation = (
  session: Session,
  {
    contextId,
    line,
    clientId,
    author,
  }: Pick<Todo, 'contextId' | 'clientId' | 'author'> & {
    line: string
  },
): Promise<Todo[]> =>
  session.run(conversationStatement, {
    context_id: contextId,
    line,
    client_id: clientId,
    author,
  })
