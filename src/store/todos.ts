/**
 * Todos made and read. A todo is read with everything that belongs to it in one statement;
 * artifacts are kept as the chunks they came in and put together here, so that appending to one
 * never rewrites it.
 */
import knexFactory, { type Knex } from 'knex'
import { invalid, Refusal } from '../domain/errors.ts'
import type { Outcome } from '../domain/lifecycle.ts'
import type { Timeouts } from '../domain/policy.ts'
import { EVERYTHING, type Scope } from '../domain/scope.ts'
import type {
  Artifact,
  Attempt,
  EventDetail,
  JsonObject,
  Message,
  StoredMessage,
  Todo,
  TodoFilter,
  TodoPage,
  TodoView,
} from '../domain/todo.ts'
import { type Session, type Statement, statement } from './database.ts'
import { scopeSql, scopeValues } from './scope.ts'
import { TODO_COLUMNS, type TodoRow, toTodo } from './todo-row.ts'
import { isUuid } from './uuid.ts'

/* ------------------------------------------------------------------ making */

export interface NewTodo {
  id: string
  queue: string
  contextId: string
  clientId: string | null
  priority: number
  maxAttempts: number
  message: Message
  metadata?: JsonObject
  detail: EventDetail
  timeouts?: Timeouts
  retryOf?: string
  /** The conversation to stand in line in. */
  line?: string
  /** Refused at intake: it is written down as ended. */
  rejected?: boolean
}

/** Selected from its queue, so that a queue removed a moment ago takes nothing. */
const addStatement = statement<TodoRow>(
  'todo_add',
  `
with spot as materialized (
  select :line::uuid is null
    or (not exists (select from todos f where f.line = :line::uuid and f.front)
      and not exists (select from todos w where w.line = :line::uuid and not w.front
        and (w.state = 'pending' or w.answered_at is not null))) as free),
added as (
  insert into todos (id, queue, context_id, client_id, priority, max_attempts, due_at, retry_of,
    schedule_to_start_seconds, start_to_close_seconds, heartbeat_seconds, close_at, alarm_at, line, front,
    state, finished_at)
  select :id::uuid, q.name, :context_id, :client_id::uuid, :priority::smallint, :max_attempts::int,
    case when s.free and not r.rejected then now() end, :retry_of::uuid, :schedule_to_start::int, :start_to_close::int, :heartbeat::int, l.close_at,
    case when not r.rejected then todo_alarm('pending', l.close_at, case when s.free then now() end, :schedule_to_start::int,
      null, null, null, null) end,
    :line::uuid, :line::uuid is not null and s.free and not r.rejected,
    case when r.rejected then 'rejected'::todo_state else 'pending' end,
    case when r.rejected then clock_timestamp() end
  from queues q
    cross join spot s
    cross join lateral (select coalesce(:rejected::boolean, false) as rejected) r
    cross join lateral (select now() + make_interval(secs => :schedule_to_close::int) as close_at) l
  where q.name = :queue
  -- Two at once: the one that loses stands in line, when it is added again.
  on conflict (line) where front do nothing
  returning *),
said as (
  insert into messages (todo_id, seq, message_id, role, sender, message, received_at)
  select a.id, 1, :message_id, 'user', a.client_id, :message::json, a.created_at from added a),
kept as (
  insert into details (todo_id, metadata)
  select a.id, :metadata::json from added a where :metadata::json is not null),
told as (
  insert into events (todo_id, seq, queue, context_id, verb, to_state, attempt, fence, ready, detail, at)
  select a.id, 1, a.queue, a.context_id, 'send', a.state, 0, 0,
    case when a.due_at is not null then 'created' end, :detail::json, a.created_at
  from added a)
select ${TODO_COLUMNS('a')} from added a
union all
select ${TODO_COLUMNS('null_todo')} from (select (null::todos).*) as null_todo
where not exists (select from added) and exists (select from queues q where q.name = :queue)`,
)

/** A newcomer that lost the race for the front is added again, behind the winner. */
const TRIES = 5

/**
 * A new pending todo: claimable at once, or in line behind its conversation's. Null where the
 * queue does not exist.
 */
export const addTodo = async (session: Session, todo: NewTodo): Promise<Todo | null> => {
  const values = valuesOf(todo)
  for (let tried = 1; ; tried += 1) {
    const [row] = await session.run(addStatement, values)
    if (!row) return null
    if (row.id !== null) {
      const added = toTodo(row)
      session.ring([
        { topic: 'feed', count: 1 },
        ...(added.dueAt ? [{ topic: `queue:${added.queue}`, count: 1 }] : []),
      ])
      return added
    }
    if (tried >= TRIES) throw new Refusal('unavailable', { retryAfterSeconds: 1 })
  }
}

const valuesOf = (todo: NewTodo): Record<string, unknown> => ({
  id: todo.id,
  queue: todo.queue,
  context_id: todo.contextId,
  client_id: todo.clientId,
  priority: todo.priority,
  max_attempts: todo.maxAttempts,
  message_id: todo.message.messageId,
  message: JSON.stringify(todo.message),
  metadata: todo.metadata && JSON.stringify(todo.metadata),
  detail: JSON.stringify(todo.detail),
  retry_of: todo.retryOf,
  line: todo.line,
  rejected: todo.rejected,
  schedule_to_start: todo.timeouts?.scheduleToStart,
  start_to_close: todo.timeouts?.startToClose,
  schedule_to_close: todo.timeouts?.scheduleToClose,
  heartbeat: todo.timeouts?.heartbeat,
})

/* ----------------------------------------------------------------- reading */

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
  metadata: JsonObject | null
  result: JsonObject | null
  direct: boolean | null
  waits_behind: string | null
}

const messagesOf = (todo: string): string => `(select json_agg(${messageJson('s')} order by s.seq)
  from messages s where s.todo_id = ${todo}.id)`

const artifactsOf = (todo: string): string => `(select json_agg(json_build_object(
    'append', a.append, 'artifact', a.artifact) order by a.seq)
  from artifacts a where a.todo_id = ${todo}.id)`

/** Everything of a todo but its row, as columns of {@link DocumentsRow}. */
export const documentsOf = (todo: string, withArtifacts: string): string => `
  ${messagesOf(todo)} as messages,
  case when ${withArtifacts} then ${artifactsOf(todo)} end as artifacts,
  (select d.metadata from details d where d.todo_id = ${todo}.id) as metadata,
  (select d.result from details d where d.todo_id = ${todo}.id) as result,
  (select d.direct from details d where d.todo_id = ${todo}.id) as direct,
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
  metadata: row.metadata,
  result: row.result,
  direct: row.direct ?? false,
  waitsBehind: row.waits_behind,
})

const toView = (row: TodoRow & DocumentsRow, artifacts: boolean): TodoView => ({
  todo: toTodo(row),
  ...toDocuments(row, artifacts),
})

const viewSql = (where: string): string =>
  `select ${TODO_COLUMNS('t')}, ${documentsOf('t', ':with_artifacts::boolean')} from todos t where ${where}`

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

/** Settled is a phase, not a state: a failure whose retry is scheduled goes on. */
const settledStatement: Statement<TodoRow & DocumentsRow> = statement(
  'todos_settled',
  `${viewSql(`t.id = w.id and t.status_seq > w.after
    and (t.finished_at is not null or t.interrupted_at is not null)`).replace(
    'from todos t',
    `from unnest(:ids::uuid[], :afters::int[]) as w(id, after) join todos t on t.id = w.id`,
  )}`,
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

const owedStatement: Statement<{ messages: MessageJson[] | null }> = statement(
  'messages_owed',
  `select json_agg(${messageJson('m')} order by m.seq) as messages
  from todos t join messages m on m.todo_id = t.id and m.owed and m.seq > t.acknowledged_seq
    and m.seq > :after::int
  where t.id = :id::uuid`,
)

/** Messages the holder has not acknowledged, after a seq, oldest first. */
export const readOwed = async (
  session: Session,
  id: string,
  after: number,
): Promise<StoredMessage[]> =>
  ((await session.run(owedStatement, { id, after }))[0]?.messages ?? []).map(toStored)

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

/* ---------------------------------------------------------------- attempts */

export interface AttemptJson {
  seq: number
  attempt: number
  endpoint_id: string
  claimant: string | null
  claimed_at: string
  last_heartbeat_at: string | null
  progress_at: string | null
  lease_expires_at: string | null
  ended_at: string | null
  outcome: Outcome | null
  disposition: Attempt['disposition']
  summary: string | null
  cause: string | null
}

const moment = (value: string | null): Date | null => (value === null ? null : new Date(value))

export const toAttempt = (row: AttemptJson): Attempt => ({
  seq: row.seq,
  attempt: row.attempt,
  endpointId: row.endpoint_id,
  claimant: row.claimant,
  claimedAt: new Date(row.claimed_at),
  lastHeartbeatAt: moment(row.last_heartbeat_at),
  progressAt: moment(row.progress_at),
  leaseExpiresAt: moment(row.lease_expires_at),
  endedAt: moment(row.ended_at),
  outcome: row.outcome,
  disposition: row.disposition,
  died: row.outcome === 'lease_expired' || row.outcome === 'reaped',
  summary: row.summary,
  cause: row.cause,
})

const attemptsStatement: Statement<{ attempts: AttemptJson[] | null }> = statement(
  'attempts_read',
  `select json_agg(a order by a.seq desc) as attempts from (
    select a.seq, a.attempt, a.endpoint_id, a.claimant, a.claimed_at, a.ended_at, a.outcome,
      a.disposition, a.summary, a.cause,
      coalesce(a.last_heartbeat_at, t.last_heartbeat_at) as last_heartbeat_at,
      coalesce(a.progress_at, t.progress_at) as progress_at,
      coalesce(a.lease_expires_at, t.lease_expires_at) as lease_expires_at
    from attempts a join todos t on t.id = a.todo_id
    where a.todo_id = :id::uuid order by a.seq desc limit :limit::int) a`,
)

/** Newest first. The beats of the open one are the todo's own. */
export const readAttempts = async (
  session: Session,
  id: string,
  limit: number,
): Promise<Attempt[]> =>
  ((await session.run(attemptsStatement, { id, limit }))[0]?.attempts ?? []).map(toAttempt)

/* ------------------------------------------------------------------- lists */

/** Builds SQL only; it has no connection. */
const build = knexFactory({ client: 'pg' })

interface Cursor {
  at: string
  id: string
}

const encodeCursor = (todo: Todo): string =>
  Buffer.from(JSON.stringify([todo.statusAt.toISOString(), todo.id])).toString('base64url')

const decodeCursor = (token: string): Cursor => {
  try {
    const [at, id] = JSON.parse(Buffer.from(token, 'base64url').toString()) as [string, string]
    if (/^[0-9a-f-]{36}$/.test(id) && !Number.isNaN(Date.parse(at))) return { at, id }
  } catch {
    // Falls through: whatever it was, it is not one of ours.
  }
  throw invalid('pageToken', 'is not a token this server gave out')
}

const scoped = (query: Knex.QueryBuilder, scope: Scope): Knex.QueryBuilder => {
  if (scope.kind === 'client') {
    return query.where({ 't.client_id': scope.clientId, 't.queue': scope.queue })
  }
  return scope.kind === 'queues' ? query.whereIn('t.queue', scope.queues) : query
}

const matching = (filter: TodoFilter, scope: Scope): Knex.QueryBuilder => {
  const query = scoped(build('todos as t'), scope)
  if (filter.queue !== undefined) query.where('t.queue', filter.queue)
  if (filter.contextId !== undefined) query.where('t.context_id', filter.contextId)
  if (filter.states) query.whereIn('t.state', filter.states)
  if (filter.retrying === 'only') {
    query.whereRaw(`(t.state <> 'failed' or t.next_retry_at is not null)`)
  }
  if (filter.retrying === 'never') query.whereNull('t.next_retry_at')
  if (filter.statusAfter) query.where('t.status_at', '>=', filter.statusAfter)
  return query
}

const run = async <Row>(session: Session, query: Knex.QueryBuilder): Promise<Row[]> => {
  const { sql, bindings } = query.toSQL().toNative()
  return session.query<Row>(sql, bindings)
}

/** One page, newest status first, ids breaking ties. Refuses a token that is not one of ours. */
export const listTodos = async (
  session: Session,
  filter: TodoFilter,
  scope: Scope = EVERYTHING,
): Promise<TodoPage> => {
  const page = matching(filter, scope)
    .select(build.raw(TODO_COLUMNS('t')))
    .select(build.raw(documentsOf('t', filter.includeArtifacts ? 'true' : 'false')))
    .orderBy([
      { column: 't.status_at', order: 'desc' },
      { column: 't.id', order: 'desc' },
    ])
    .limit(filter.pageSize + 1)
  if (filter.pageToken) {
    const { at, id } = decodeCursor(filter.pageToken)
    page.whereRaw('(t.status_at, t.id) < (?::timestamptz, ?::uuid)', [at, id])
  }
  const [rows, [total]] = await Promise.all([
    run<TodoRow & DocumentsRow>(session, page),
    run<{ count: string }>(session, matching(filter, scope).count('* as count')),
  ])
  const todos = rows.slice(0, filter.pageSize).map((row) => toView(row, filter.includeArtifacts))
  const last = todos.at(-1)
  return {
    todos,
    nextPageToken: rows.length > filter.pageSize && last ? encodeCursor(last.todo) : '',
    pageSize: filter.pageSize,
    totalSize: Number(total?.count ?? 0),
  }
}
