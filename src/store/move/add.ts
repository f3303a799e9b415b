/** Adding todos: pending and claimable, or in line behind their conversation, or refused at intake. */
import { exactText } from '../../base/exact-json.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Timeouts } from '../../domain/policy.ts'
import type { KeptPushConfig } from '../../domain/push.ts'
import type { Amounts } from '../../domain/spend.ts'
import type { EventDetail, JsonObject, Message, RequestFacts, Todo } from '../../domain/todo.ts'
import {
  isUniqueViolation,
  type Session,
  type Statement,
  statement,
  type Values,
} from '../postgres/database.ts'
import { $, type Sql, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'
import {
  claimKey,
  KEY_ONCE,
  type KnownKey,
  type KnownRow,
  keyParameters,
  knownKey,
  type SendKey,
  toKnown,
} from '../todos/idempotency.ts'
import { TODO_COLUMNS } from '../todos/row.ts'
import { sizeOf } from '../todos/size.ts'
import { topics, wakeOf } from '../wake/topics.ts'
import { addingConfig, pushValues } from './effects.ts'
import { CARRIED, DEAD } from './kin/carry.ts'

export interface NewTodo {
  id: string
  queue: string
  contextId: string
  clientId: string | null
  /** Null where nobody is named. */
  author?: string | null
  priority: number
  maxAttempts: number
  message: Message
  metadata?: JsonObject
  detail: EventDetail
  timeouts?: Timeouts
  retryOf?: string
  /** A retry: it begins with the conversation of its dead letter, and with its artifacts or without. */
  carries?: { artifacts: boolean }
  /** The conversation in whose line it stands. */
  line?: string
  /** No other todo can stand in that line yet. */
  firstInLine?: boolean
  /** Refused at intake: it is added as ended. */
  rejected?: boolean
  /** For a child: its parent (null where that is gone), its depth, and when it must end at the latest. */
  parent?: { id: string | null; depth: number; closeAt: Date | null }
  effects?: readonly string[]
  budget?: Amounts
  /** What its client said beside the message. */
  request?: RequestFacts
  /** Its first webhook. */
  push?: KeptPushConfig
  /** When it may be claimed at the earliest, as a moment or from now; until then it stands in no line. */
  notBefore?: Date
  delaySeconds?: number
  /** The name of the schedule that makes it. */
  schedule?: string
}

/** Columns of a row that tells of no key. */
const NO_KEY = ', null::uuid as known_todo, null::int as known_seq, null::text as known_digest'
/** Where the key is known, that is the one row. */
const OR_KNOWN = `
  and not exists (select from known)
union all
select ${TODO_COLUMNS('null_todo')}, k.known_todo, k.known_seq, k.known_digest
from (select (null::todos).*) as null_todo cross join known k`

const DUE_AT = 'case when s.free then now() end'

/** What the statement has more of for a todo with a moment of its own: `n` says which, and if it is later. */
const TIMED = {
  columns: ', not_before, later_line, schedule, ready_reason',
  dueAt: sql`case when not n.later then ${DUE_AT} when ${$.line}::uuid is null then n.moment end`,
  line: sql`case when not n.later then ${$.line}::uuid end`,
  values: sql`, n.moment, case when n.later then ${$.line}::uuid end, ${$.schedule},
    case when n.later and ${$.line}::uuid is null then 'created' end`,
  moment: sql`
    cross join lateral (select m.moment, coalesce(m.moment > now(), false) as later from (
      select coalesce(${$.not_before}::timestamptz,
        now() + make_interval(secs => ${$.delay}::double precision)) as moment) m) n`,
}

/** Webhooks are told at once of what ends at intake: there will be nothing else to tell. */
const OWED_AT_ONCE = "a.state = 'rejected'"

/** The first webhook, where there is one, and what it is owed. */
const ADD_WEBHOOK = sql`,
configured as (${addingConfig('a.id', OWED_AT_ONCE)} from added a where ${$.push_id}::text is not null),
enqueued as (
  insert into deliveries (todo_id, config_id, seq, queue)
  select a.id, ${$.push_id}, 1, a.queue from added a
  where ${OWED_AT_ONCE} and ${$.push_id}::text is not null)`

/**
 * Selected from its queue, so that a queue removed a moment ago takes nothing. `whole` also takes a
 * webhook and an idempotency key, each where it is not null: where the key is known nothing is made, and
 * the answer tells what it is known for. `timed` also lets it wait for its time, beside its line: it
 * enters that when it is due, and until then delays nobody. `carries`: it takes over the conversation of
 * its dead letter.
 */
const addText = (whole: boolean, { timed = false, carries = false } = {}): Sql => sql`
with ${whole ? sql`${knownKey},` : ''}${carries ? sql`${DEAD},` : ''}spot as materialized (
  select ${$.line}::uuid is null
    or (not exists (select from todos f where f.line = ${$.line}::uuid and f.front)
      and not exists (select from todos w where w.line = ${$.line}::uuid and not w.front
        and (w.state = 'pending' or w.answered_at is not null))) as free),
added as (
  insert into todos (id, queue, context_id, client_id, priority, max_attempts, due_at, retry_of,
    schedule_to_start_seconds, start_to_close_seconds, heartbeat_seconds, close_at, alarm_at, line, front,
    state, finished_at, parent_id, depth, effects, author, budget, push_version, documents, document_bytes${
      carries ? ', seq, unread, acknowledged_seq' : ''
    }${timed ? TIMED.columns : ''})
  select ${$.id}::uuid, q.name, ${$.context_id}, ${$.client_id}::uuid, ${$.priority}::smallint,
    ${$.max_attempts}::int, case when not r.rejected then ${timed ? TIMED.dueAt : DUE_AT} end, ${$.retry_of}::uuid,
    ${$.schedule_to_start}::int, ${$.start_to_close}::int, ${$.heartbeat}::int, l.close_at,
    case when not r.rejected then todo_alarm('pending', l.close_at, ${timed ? TIMED.dueAt : DUE_AT},
      ${$.schedule_to_start}::int, null, null, null, null) end,
    ${timed ? TIMED.line : sql`${$.line}::uuid`}, ${$.line}::uuid is not null and s.free and not r.rejected${
      timed ? ' and not n.later' : ''
    },
    case when r.rejected then 'rejected'::todo_state else 'pending' end,
    case when r.rejected then clock_timestamp() end,
    ${$.parent_id}::uuid, coalesce(${$.depth}::smallint, 0), ${$.effects}::text[],
    ${$.author}::text, ${$.budget}::jsonb,
    ${whole ? sql`case when ${$.push_id}::text is null then 0 else 1 end` : '0'},
    ${carries ? sql`1 + d.documents, ${$.bytes}::int + d.bytes, d.seq, d.unread, d.acknowledged_seq` : sql`1, ${$.bytes}::int`}${
      timed ? TIMED.values : ''
    }
  from queues q
    cross join spot s${carries ? '\n    cross join dead d' : ''}${timed ? TIMED.moment : ''}
    cross join lateral (select coalesce(${$.rejected}::boolean, false) as rejected) r
    cross join lateral (select least(
      ${timed ? 'greatest(now(), n.moment)' : 'now()'} + make_interval(secs => ${$.schedule_to_close}::int), ${$.close_by}::timestamptz) as close_at) l
  where q.name = ${$.queue}${whole ? ' and not exists (select from known)' : ''}
  -- Two at once: the one that loses stands in line, when it is added again.
  on conflict (line) where front do nothing
  returning *),
added_message as (
  insert into messages (todo_id, seq, message_id, role, sender, message, request, received_at, bytes)
  select a.id, 1, ${$.message_id}, 'user', a.client_id, ${$.message}::json, ${$.request}::json, a.created_at,
    ${$.bytes}::int from added a),
kept_metadata as (
  insert into details (todo_id, metadata)
  select a.id, ${$.metadata}::json from added a where ${$.metadata}::json is not null),
send_event as (
  insert into events (todo_id, seq, queue, context_id, verb, to_state, attempt, fence, ready, detail, at,
    author)
  select a.id, 1, a.queue, a.context_id, 'send', a.state, 0, 0,
    case when a.due_at ${timed ? '<= now()' : 'is not null'} then 'created' end, ${$.detail}::json, a.created_at,
    a.author
  from added a)${carries ? CARRIED : ''}${whole ? sql`${ADD_WEBHOOK},${claimKey('added')}` : ''}
select ${TODO_COLUMNS('a')}${whole ? NO_KEY : ''} from added a
union all
select ${TODO_COLUMNS('null_todo')}${whole ? NO_KEY : ''} from (select (null::todos).*) as null_todo
where not exists (select from added) and exists (select from queues q where q.name = ${$.queue})${
  whole ? OR_KNOWN : ''
}`

const addTimed = statement<Todo & KnownRow>('todo_add_timed', addText(true, { timed: true }))
const addPlain = statement<Todo>('todo_add', addText(false))
const addCarrying = plannedEachTime<Todo>('todo_add_retry', addText(false, { carries: true }))
const addWhole = statement<Todo & KnownRow>('todo_add_whole', addText(true))

/**
 * Many at once, of the kind that needs no look at anything else: first in their lines, with nothing
 * that only few have.
 */
const addManyStatement = statement<Todo>(
  'todo_add_batch',
  sql`
with batch as materialized (
  select * from unnest(${$.ids}::uuid[], ${$.queues}::text[], ${$.contexts}::text[], ${$.clients}::uuid[],
    ${$.priorities}::smallint[], ${$.max_attempts}::int[], ${$.lines}::uuid[], ${$.schedule_to_start}::int[],
    ${$.start_to_close}::int[], ${$.schedule_to_close}::int[], ${$.heartbeat}::int[], ${$.message_ids}::text[],
    ${$.messages}::text[], ${$.requests}::text[], ${$.metadata}::text[], ${$.details}::text[], ${$.bytes}::int[])
  as g(id, queue, context_id, client_id, priority, max_attempts, line, schedule_to_start,
    start_to_close, schedule_to_close, heartbeat, message_id, message, request, metadata, detail, bytes)),
fresh as materialized (
  select g.*, clock_timestamp() as at, now() + make_interval(secs => g.schedule_to_close) as close_at
  from batch g where exists (select from queues q where q.name = g.queue)),
added as (
  insert into todos (id, queue, context_id, client_id, priority, max_attempts, due_at,
    schedule_to_start_seconds, start_to_close_seconds, heartbeat_seconds, close_at, alarm_at, line, front,
    state, status_at, created_at, updated_at, documents, document_bytes)
  select f.id, f.queue, f.context_id, f.client_id, f.priority, f.max_attempts, now(),
    f.schedule_to_start, f.start_to_close, f.heartbeat, f.close_at,
    todo_alarm('pending', f.close_at, now(), f.schedule_to_start, null, null, null, null),
    f.line, f.line is not null, 'pending'::todo_state, f.at, f.at, f.at, 1, f.bytes
  from fresh f
  returning *),
said as (
  insert into messages (todo_id, seq, message_id, role, sender, message, request, received_at, bytes)
  select f.id, 1, f.message_id, 'user', f.client_id, f.message::json, f.request::json, f.at, f.bytes
  from fresh f),
kept as (
  insert into details (todo_id, metadata)
  select f.id, f.metadata::json from fresh f where f.metadata is not null),
told as (
  insert into events (todo_id, seq, queue, context_id, verb, to_state, attempt, fence, ready, detail, at)
  select f.id, 1, f.queue, f.context_id, 'send', 'pending', 0, 0, 'created', f.detail::json, f.at
  from fresh f)
select ${TODO_COLUMNS('a')} from added a`,
)

/** Its message, with which what was said beside it is counted. */
const documentsOf = (todo: Pick<NewTodo, 'message' | 'metadata' | 'request'>) => {
  const message = exactText(todo.message)
  const metadata = todo.metadata && exactText(todo.metadata)
  const request = todo.request && exactText(todo.request)
  const bytes = sizeOf(message) + sizeOf(metadata) + sizeOf(request)
  return { message, metadata, request, bytes }
}

/** Whether it names a moment, or comes from a schedule. */
const isTimed = ({ notBefore, delaySeconds, schedule }: NewTodo): boolean =>
  notBefore !== undefined || delaySeconds !== undefined || schedule !== undefined

/** True for a todo that {@link addTodos} may add. */
export const isPlain = (todo: NewTodo): boolean =>
  (todo.line === undefined || todo.firstInLine === true) &&
  todo.retryOf === undefined &&
  todo.parent === undefined &&
  todo.effects === undefined &&
  (todo.author ?? null) === null &&
  todo.budget === undefined &&
  todo.push === undefined &&
  !isTimed(todo) &&
  !todo.rejected

/** As addTodo for each of these plain todos, in one statement. */
export const addTodos = async (
  session: Session,
  todos: readonly NewTodo[],
): Promise<(Todo | null)[]> => {
  const column = (of: (todo: NewTodo) => unknown) => todos.map((todo) => of(todo) ?? null)
  const documents = todos.map(documentsOf)
  const rows = await session.run(addManyStatement, {
    ids: column(({ id }) => id),
    queues: column(({ queue }) => queue),
    contexts: column(({ contextId }) => contextId),
    clients: column(({ clientId }) => clientId),
    priorities: column(({ priority }) => priority),
    max_attempts: column(({ maxAttempts }) => maxAttempts),
    lines: column(({ line }) => line),
    schedule_to_start: column(({ timeouts }) => timeouts?.scheduleToStart),
    start_to_close: column(({ timeouts }) => timeouts?.startToClose),
    schedule_to_close: column(({ timeouts }) => timeouts?.scheduleToClose),
    heartbeat: column(({ timeouts }) => timeouts?.heartbeat),
    message_ids: column(({ message }) => message.messageId),
    messages: documents.map(({ message }) => message),
    requests: documents.map(({ request }) => request ?? null),
    metadata: documents.map(({ metadata }) => metadata ?? null),
    bytes: documents.map(({ bytes }) => bytes),
    details: column(({ detail }) => exactText(detail)),
  })
  const added = new Map(rows.map((row) => [row.id, announced(session, row, false)]))
  return todos.map(({ id }) => added.get(id) ?? null)
}

/** The statement for one that may have a key or a webhook. */
const wholeFor = (todo: NewTodo) => (isTimed(todo) ? addTimed : addWhole)

/** How often a todo is tried that loses the race for the front: it is added again, behind the winner. */
const TRIES = 5

/** `other` reads a row that is not a new todo; its null asks for another try. */
const add = async <Row extends Todo, Other>(
  session: Session,
  chosen: Statement<Row>,
  todo: NewTodo,
  more: Values,
  other: (row: Row) => Other | null,
): Promise<Todo | Other | null> => {
  const values = { ...valuesOf(todo), ...more }
  const isTold = todo.push !== undefined && todo.rejected === true
  for (let tried = 1; ; tried += 1) {
    const [row] = await session.run(chosen, values).catch((error: unknown) => {
      if (isUniqueViolation(error, 'todos_pkey')) throw new Refusal('duplicate')
      throw error
    })
    if (!row) return null
    if (row.id !== null) return announced(session, row, isTold)
    const instead = other(row)
    if (instead) return instead
    if (tried >= TRIES) throw new Refusal('unavailable', { retryAfterSeconds: 1 })
  }
}

const announced = (session: Session, added: Todo, isTold: boolean): Todo => {
  session.wake([
    { topic: topics.feed, count: 1, only: 'here' },
    ...(added.dueAt ? [wakeOf(topics.queue(added.queue))] : []),
    ...(isTold ? [wakeOf(topics.deliveries)] : []),
  ])
  return added
}

/**
 * A new pending todo: claimable at once, or in line behind its conversation's. Null where the
 * queue does not exist. Refuses: duplicate, where there is a todo with this id.
 */
export const addTodo = (session: Session, todo: NewTodo): Promise<Todo | null> =>
  todo.push || isTimed(todo)
    ? add<Todo & KnownRow, never>(session, wholeFor(todo), todo, {}, () => null)
    : add<Todo, never>(session, todo.carries ? addCarrying : addPlain, todo, {}, () => null)

/** As addTodo where the key is free, and claims it; else what it was claimed for. */
export const addTodoOnce = async (
  session: Session,
  todo: NewTodo,
  key: SendKey,
): Promise<Todo | KnownKey | null> => {
  const once = () => add(session, wholeFor(todo), todo, keyParameters(key), toKnown)
  try {
    return await once()
  } catch (error) {
    if (!isUniqueViolation(error, KEY_ONCE)) throw error
  }
  // It was sent twice at the same moment: the other one was added, and its key is known from now on.
  return once()
}

const valuesOf = (todo: NewTodo): Record<string, unknown> => ({
  id: todo.id,
  queue: todo.queue,
  context_id: todo.contextId,
  client_id: todo.clientId,
  priority: todo.priority,
  max_attempts: todo.maxAttempts,
  message_id: todo.message.messageId,
  ...documentsOf(todo),
  detail: exactText(todo.detail),
  retry_of: todo.retryOf,
  with_artifacts: todo.carries?.artifacts ?? false,
  line: todo.line,
  rejected: todo.rejected,
  parent_id: todo.parent?.id,
  depth: todo.parent?.depth,
  close_by: todo.parent?.closeAt,
  effects: todo.effects,
  author: todo.author,
  budget: todo.budget && JSON.stringify(todo.budget),
  schedule_to_start: todo.timeouts?.scheduleToStart,
  start_to_close: todo.timeouts?.startToClose,
  schedule_to_close: todo.timeouts?.scheduleToClose,
  heartbeat: todo.timeouts?.heartbeat,
  not_before: todo.notBefore,
  delay: todo.delaySeconds,
  schedule: todo.schedule,
  ...pushValues(todo.push),
})
