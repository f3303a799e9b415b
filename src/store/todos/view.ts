/**
 * A todo read with everything that belongs to it, in one statement. Artifacts are kept as the chunks
 * they came in and put together here, so that appending to one never rewrites it.
 */

import { isUuid } from '../../base/uuid.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { STATUS_VERBS } from '../../domain/lifecycle.ts'
import {
  type Artifact,
  DISCARDED_MEMBER,
  type Json,
  type JsonObject,
  type StoredMessage,
  type Todo,
  type TodoView,
} from '../../domain/todo.ts'
import { type Session, statement } from '../postgres/database.ts'
import { columnsOf, readOne } from '../postgres/rows.ts'
import { $, type Sql, type SqlPart, sql } from '../postgres/sql.ts'
import { TODO_COLUMNS } from './row.ts'
import { scopeSql, scopeValues } from './scope.ts'

const MESSAGE = columnsOf<StoredMessage>()(['seq message receivedAt answers secret sender request'])

interface Chunk {
  append: boolean
  artifact: Artifact
}

interface Documents {
  messages: StoredMessage[] | null
  artifacts: Chunk[] | null
  details: Pick<TodoView, 'metadata' | 'result' | 'direct'> | null
  waitsBehind: string | null
  retriedAs: string | null
}

/** A todo with its documents, as a statement hands it back: one row, and so one object. */
export type ViewRow = Todo & Documents

const messagesOf = (
  todo: string,
  until = 'true',
): string => `(select json_agg(${MESSAGE.json('s')} order by s.seq)
  from messages s where s.todo_id = ${todo}.id and ${until})`

const artifactsOf = (todo: string, until = 'true'): string => `(select json_agg(json_build_object(
    'append', a.append, 'artifact', a.artifact) order by a.seq)
  from artifacts a where a.todo_id = ${todo}.id and ${until})`

const detailsJson = (direct: string): string =>
  `json_build_object('metadata', d.metadata, 'result', d.result, 'direct', ${direct})`

/** The columns of {@link Documents}. */
export const documentsOf = (todo: string, withArtifacts: SqlPart): Sql => sql`
  ${messagesOf(todo)} as messages,
  case when ${withArtifacts} then ${artifactsOf(todo)} end as artifacts,
  (select ${detailsJson('d.direct')} from details d where d.todo_id = ${todo}.id) as details,
  case when ${todo}.state = 'pending' and ${todo}.due_at is null then
    (select f.id from todos f where f.line = ${todo}.line and f.front) end as "waitsBehind",
  case when ${todo}.state = 'failed' and ${todo}.finished_at is not null then
    (select r.id from todos r where r.retry_of = ${todo}.id) end as "retriedAs"`

/** Set as an own member, whatever its name: `__proto__` is one like any other in JSON. */
const setMember = (object: JsonObject, name: string, value: Json): void => {
  Object.defineProperty(object, name, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  })
}

/**
 * A chunk joins what came before: parts follow parts, extensions are added, and what else it says
 * replaces what was said before, member by member in the metadata. What it leaves out stays. Readers
 * of a stream put chunks together by the same rule.
 */
const join = (whole: Artifact, chunk: Artifact): void => {
  const { name, description, parts, metadata, extensions } = chunk
  for (const part of parts) whole.parts.push(part)
  if (name !== undefined) whole.name = name
  if (description !== undefined) whole.description = description
  if (metadata) {
    whole.metadata ??= {}
    for (const [key, value] of Object.entries(metadata)) setMember(whole.metadata, key, value)
  }
  if (extensions) {
    whole.extensions ??= []
    for (const uri of extensions) whole.extensions.push(uri)
  }
}

/**
 * Chunks in the order they came: a chunk that does not append begins the artifact anew. One that was
 * dropped is left out.
 */
const assemble = (chunks: readonly Chunk[]): Artifact[] => {
  const all = new Map<string, Artifact>()
  const joined = new Set<Artifact>()
  for (const { append, artifact } of chunks) {
    const before = append ? all.get(artifact.artifactId) : undefined
    if (before) {
      join(before, artifact)
      joined.add(before)
    } else all.set(artifact.artifactId, artifact)
  }
  for (const whole of joined) {
    if (whole.extensions) whole.extensions = [...new Set(whole.extensions)]
  }
  return [...all.values()].filter(({ metadata }) => metadata?.[DISCARDED_MEMBER] !== true)
}

/** Without `artifacts`, the statement was not asked for them. */
export const toView = (row: ViewRow, artifacts: boolean): TodoView => ({
  todo: row,
  messages: MESSAGE.revive(row.messages),
  ...(artifacts && { artifacts: assemble(row.artifacts ?? []) }),
  metadata: row.details?.metadata ?? null,
  result: row.details?.result ?? null,
  direct: row.details?.direct ?? false,
  waitsBehind: row.waitsBehind,
  retriedAs: row.retriedAs,
})

const viewSql = (where: SqlPart, from: SqlPart = 'todos t'): Sql =>
  sql`select ${TODO_COLUMNS('t')}, ${documentsOf('t', sql`${$.with_artifacts}::boolean`)}
  from ${from} where ${where}`

const readStatement = statement<ViewRow>(
  'todo_read',
  viewSql(sql`t.id = ${$.id}::uuid and ${scopeSql('t')}`),
)

/** Null where there is none, or none within the scope: the two are not told apart. */
export const readView = async (
  session: Session,
  id: string,
  scope: Scope,
  artifacts = true,
): Promise<TodoView | null> => {
  if (!isUuid(id)) return null
  const values = { id, with_artifacts: artifacts, ...scopeValues(scope) }
  const row = await readOne(session, readStatement, values)
  return row && toView(row, artifacts)
}

const manyStatement = statement<ViewRow>(
  'todos_read',
  viewSql(sql`t.id = any(${$.ids}::uuid[]) and ${scopeSql('t')}`),
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
  const found = new Map(rows.map((row) => [row.id, toView(row, true)]))
  return ids.map((id) => found.get(id.toLowerCase()) ?? null)
}

/** Settled is a phase, not a state: a failure whose retry is scheduled goes on. */
const settledStatement = statement<ViewRow>(
  'todos_settled',
  viewSql(
    't.status_seq > w.after and (t.finished_at is not null or t.interrupted_at is not null)',
    sql`unnest(${$.ids}::uuid[], ${$.afters}::int[]) as w(id, after)
      cross join lateral (select * from todos t where t.id = w.id offset 0) t`,
  ),
)

/** Those of these todos that settled by an event after the one given, each whole. */
export const readSettled = async (
  session: Session,
  watched: readonly { id: string; after: number }[],
): Promise<TodoView[]> => {
  const rows = await session.run(settledStatement, {
    ids: watched.map(({ id }) => id),
    afters: watched.map(({ after }) => after),
    with_artifacts: true,
  })
  return rows.map((row) => toView(row, true))
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
  sql`select ${TODO_COLUMNS('t', AS_OF)}, ${messagesOf('t', 's.seq <= w.seq')} as messages,
    ${artifactsOf('t', 'a.seq <= w.seq')} as artifacts, ${detailsJson('false')} as details,
    null::uuid as "waitsBehind", null::uuid as "retriedAs"
  from unnest(${$.ids}::uuid[], ${$.seqs}::int[]) as w(id, seq)
    join todos t on t.id = w.id
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
  return rows.map((row) => toView(row, true))
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

const heldStatement = statement<Todo & { owed: StoredMessage[] | null }>(
  'todo_held',
  sql`select ${TODO_COLUMNS('t')}, (select json_agg(${MESSAGE.json('m')} order by m.seq)
    from messages m where m.todo_id = t.id and m.owed and m.seq > t.acknowledged_seq
      and m.seq > ${$.after}::int) as owed
  from todos t where t.id = ${$.id}::uuid and ${scopeSql('t')}`,
)

/** A todo as its holder sees it: the row, and the messages after a seq that are owed to the holder. */
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
  where t.context_id = ${$.context_id} and t.line = ${$.line}::uuid and t.finished_at is null
  order by t.lined_at desc limit 100`,
)

/** Live todos of one conversation, newest first. */
export const readConversation = (
  session: Session,
  contextId: string,
  line: string,
): Promise<Todo[]> => session.run(conversationStatement, { context_id: contextId, line })
