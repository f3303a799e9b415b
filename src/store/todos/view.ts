/**
 * A todo read with everything that belongs to it, in one statement. Artifacts are kept as the chunks
 * they came in and put together here, so that appending to one never rewrites it.
 */

import { isUuid } from '../../base/uuid.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { STATUS_VERBS, type State } from '../../domain/lifecycle.ts'
import type {
  Artifact,
  JsonObject,
  Message,
  StoredMessage,
  Todo,
  TodoView,
} from '../../domain/todo.ts'
import { type Session, type Statement, statement } from '../postgres/database.ts'
import { TODO_COLUMNS, type TodoRow, toTodo } from './row.ts'
import { scopeSql, scopeValues } from './scope.ts'

interface MessageJson {
  seq: number
  message: Message
  received_at: string
  answers: number | null
  secret: boolean
}

/** As {@link MessageJson}. */
const messageJson = (alias: string): string => `json_build_object('seq', ${alias}.seq,
    'message', ${alias}.message, 'received_at', ${alias}.received_at,
    'answers', ${alias}.answers, 'secret', ${alias}.secret)`

interface ChunkJson {
  append: boolean
  artifact: Artifact
}
export interface DocumentsRow {
  messages: MessageJson[] | null
  artifacts: ChunkJson[] | null
  details: { metadata: JsonObject | null; result: JsonObject | null; direct: boolean } | null
  waits_behind: string | null
}

const messagesOf = (
  todo: string,
  until = 'true',
): string => `(select json_agg(${messageJson('s')} order by s.seq)
  from messages s where s.todo_id = ${todo}.id and ${until})`

const artifactsOf = (todo: string, until = 'true'): string => `(select json_agg(json_build_object(
    'append', a.append, 'artifact', a.artifact) order by a.seq)
  from artifacts a where a.todo_id = ${todo}.id and ${until})`

const detailsJson = (direct: string): string =>
  `json_build_object('metadata', d.metadata, 'result', d.result, 'direct', ${direct})`

/** Everything of a todo but its row, as columns of {@link DocumentsRow}. */
export const documentsOf = (todo: string, withArtifacts: string): string => `
  ${messagesOf(todo)} as messages,
  case when ${withArtifacts} then ${artifactsOf(todo)} end as artifacts,
  (select ${detailsJson('d.direct')} from details d where d.todo_id = ${todo}.id) as details,
  case when ${todo}.state = 'pending' and ${todo}.due_at is null then
    (select f.id from todos f where f.line = ${todo}.line and f.front) end as waits_behind`

/** Chunks in the order they came: a chunk that does not append begins the artifact anew. */
const assemble = (chunks: readonly ChunkJson[]): Artifact[] => {
  const whole = new Map<string, Artifact>()
  for (const { append, artifact } of chunks) {
    const before = whole.get(artifact.artifactId)
    if (append && before) before.parts.push(...artifact.parts)
    else whole.set(artifact.artifactId, { ...artifact, parts: [...artifact.parts] })
  }
  return [...whole.values()]
}

const toStored = (row: MessageJson): StoredMessage => ({
  seq: row.seq,
  message: row.message,
  receivedAt: new Date(row.received_at),
  answers: row.answers,
  secret: row.secret,
})

/** A todo's documents; without `artifacts` they were not asked for. */
export const toDocuments = (row: DocumentsRow, artifacts: boolean): Omit<TodoView, 'todo'> => ({
  messages: (row.messages ?? []).map(toStored),
  ...(artifacts && { artifacts: assemble(row.artifacts ?? []) }),
  metadata: row.details?.metadata ?? null,
  result: row.details?.result ?? null,
  direct: row.details?.direct ?? false,
  waitsBehind: row.waits_behind,
})

export const toView = (row: TodoRow & DocumentsRow, artifacts: boolean): TodoView => ({
  todo: toTodo(row),
  ...toDocuments(row, artifacts),
})

const viewSql = (where: string, from = 'todos t'): string =>
  `select ${TODO_COLUMNS('t')}, ${documentsOf('t', ':with_artifacts::boolean')} from ${from} where ${where}`

const readStatement: Statement<TodoRow & DocumentsRow> = statement(
  'todo_read',
  viewSql(`t.id = :id::uuid and ${scopeSql('t')}`),
)

/** Null where there is none, or none within the scope: the two are not told apart. */
export const readView = async (
  session: Session,
  id: string,
  scope: Scope,
  artifacts = true,
): Promise<TodoView | null> => {
  if (!isUuid(id)) return null
  const [row] = await session.run(readStatement, {
    id,
    with_artifacts: artifacts,
    ...scopeValues(scope),
  })
  return row ? toView(row, artifacts) : null
}

const manyStatement: Statement<TodoRow & DocumentsRow> = statement(
  'todos_read',
  viewSql(`t.id = any(:ids::uuid[]) and ${scopeSql('t')}`),
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
const settledStatement: Statement<TodoRow & DocumentsRow> = statement(
  'todos_settled',
  viewSql(
    't.status_seq > w.after and (t.finished_at is not null or t.interrupted_at is not null)',
    `unnest(:ids::uuid[], :afters::int[]) as w(id, after)
      cross join lateral (select * from todos t where t.id = w.id offset 0) t`,
  ),
)

/** Of these, the todos that settled by an event after the one given, each whole. */
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

const asOfStatement: Statement<TodoRow & DocumentsRow & AsOfRow> = statement(
  'todos_as_of',
  `select ${TODO_COLUMNS('t')}, w.seq as as_of, e.to_state, e.retrying, s.seq as set_seq, s.at as set_at,
    ${messagesOf('t', 's.seq <= w.seq')} as messages, ${artifactsOf('t', 'a.seq <= w.seq')} as artifacts,
    ${detailsJson('false')} as details, null::uuid as waits_behind
  from unnest(:ids::uuid[], :seqs::int[]) as w(id, seq)
    join todos t on t.id = w.id
    join events e on e.todo_id = w.id and e.seq = w.seq
    cross join lateral (select v.seq, v.at from events v where v.todo_id = w.id and v.seq <= w.seq
      and v.verb in ('send', ${STATUS_VERBS.map((verb) => `'${verb}'`).join(', ')})
      order by v.seq desc limit 1) s
    left join details d on d.todo_id = w.id`,
)

interface AsOfRow {
  as_of: number
  to_state: State
  retrying: boolean
  set_seq: number
  set_at: Date
}

/**
 * Todos as they were right after an event each: the same at every look, however they went on. What
 * is not told to anyone outside (owner, lease, limits) is as it is now.
 */
export const readAsOf = async (
  session: Session,
  wanted: readonly { id: string; seq: number }[],
): Promise<TodoView[]> => {
  const rows = await session.run(asOfStatement, {
    ids: wanted.map(({ id }) => id),
    seqs: wanted.map(({ seq }) => seq),
  })
  return rows.map((row) => {
    const view = toView(row, true)
    const todo: Todo = {
      ...view.todo,
      state: row.to_state,
      nextRetryAt: row.retrying ? row.set_at : null,
      seq: row.as_of,
      statusSeq: row.set_seq,
      statusAt: row.set_at,
      join: null,
    }
    return { ...view, todo }
  })
}

const missingStatement = statement<{ id: string }>(
  'todos_missing',
  `select w.id from unnest(:ids::uuid[]) as w(id)
  where not exists (select from todos t where t.id = w.id)`,
)

/** Those of these ids that are of no todo, or not any more. */
export const readMissing = async (session: Session, ids: readonly string[]): Promise<string[]> =>
  (await session.run(missingStatement, { ids })).map(({ id }) => id)

const schemaStatement = statement<{ schema: JsonObject | null }>(
  'question_schema',
  'select schema from messages where todo_id = :id::uuid and seq = :seq::int',
)

/** What the answer to this question must look like; null where anything goes. */
export const readAnswerSchema = async (
  session: Session,
  id: string,
  question: number,
): Promise<JsonObject | null> =>
  (await session.run(schemaStatement, { id, seq: question }))[0]?.schema ?? null

const heldStatement: Statement<TodoRow & { owed: MessageJson[] | null }> = statement(
  'todo_held',
  `select ${TODO_COLUMNS('t')}, (select json_agg(${messageJson('m')} order by m.seq)
    from messages m where m.todo_id = t.id and m.owed and m.seq > t.acknowledged_seq
      and m.seq > :after::int) as owed
  from todos t where t.id = :id::uuid and ${scopeSql('t')}`,
)

/** A todo as its holder looks at it: the row, and what it owes an answer to after a seq. */
export const readHeld = async (
  session: Session,
  id: string,
  after: number,
  scope: Scope,
): Promise<{ todo: Todo; owed: StoredMessage[] } | null> => {
  if (!isUuid(id)) return null
  const [row] = await session.run(heldStatement, { id, after, ...scopeValues(scope) })
  return row ? { todo: toTodo(row), owed: (row.owed ?? []).map(toStored) } : null
}

const conversationStatement: Statement<TodoRow> = statement(
  'todos_conversation',
  `select ${TODO_COLUMNS('t')} from todos t
  where t.context_id = :context_id and t.line = :line::uuid and t.finished_at is null
  order by t.lined_at desc limit 100`,
)

/** Live todos of one conversation, newest first. */
export const readConversation = async (
  session: Session,
  contextId: string,
  line: string,
): Promise<Todo[]> =>
  (await session.run(conversationStatement, { context_id: contextId, line })).map(toTodo)
