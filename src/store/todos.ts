/** A todo made: pending and claimable, or in line behind its conversation, or refused at intake. */
import { Refusal } from '../domain/errors.ts'
import type { Timeouts } from '../domain/policy.ts'
import type { EventDetail, JsonObject, Message, Todo } from '../domain/todo.ts'
import { isUniqueViolation, type Session, statement } from './database.ts'
import { addingConfig, type KeptPushConfig, pushValues } from './push-configs.ts'
import { TODO_COLUMNS, type TodoRow, toTodo } from './todo-row.ts'

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
  /** A child: of whom, how deep, and by when it has to end at the latest. */
  parent?: { id: string; depth: number; closeAt: Date | null }
  effects?: readonly string[]
  /** Its first webhook. */
  push?: KeptPushConfig
}

/** What ends at intake is told: nothing else will be. */
const OWED_AT_ONCE = "a.state = 'rejected'"

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
    state, finished_at, parent_id, depth, effects, push_version)
  select :id::uuid, q.name, :context_id, :client_id::uuid, :priority::smallint, :max_attempts::int,
    case when s.free and not r.rejected then now() end, :retry_of::uuid, :schedule_to_start::int, :start_to_close::int, :heartbeat::int, l.close_at,
    case when not r.rejected then todo_alarm('pending', l.close_at, case when s.free then now() end, :schedule_to_start::int,
      null, null, null, null) end,
    :line::uuid, :line::uuid is not null and s.free and not r.rejected,
    case when r.rejected then 'rejected'::todo_state else 'pending' end,
    case when r.rejected then clock_timestamp() end,
    :parent_id::uuid, coalesce(:depth::smallint, 0), :effects::text[],
    case when :push_url::text is null then 0 else 1 end
  from queues q
    cross join spot s
    cross join lateral (select coalesce(:rejected::boolean, false) as rejected) r
    cross join lateral (select least(now() + make_interval(secs => :schedule_to_close::int),
      :close_by::timestamptz) as close_at) l
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
  from added a),
configured as (${addingConfig('a.id', OWED_AT_ONCE)} from added a where a.push_version > 0),
owed as (
  insert into deliveries (todo_id, config_id, seq, queue)
  select a.id, :push_id, 1, a.queue from added a where a.push_version > 0 and ${OWED_AT_ONCE})
select ${TODO_COLUMNS('a')} from added a
union all
select ${TODO_COLUMNS('null_todo')} from (select (null::todos).*) as null_todo
where not exists (select from added) and exists (select from queues q where q.name = :queue)`,
)

/** A newcomer that lost the race for the front is added again, behind the winner. */
const TRIES = 5

/**
 * A new pending todo: claimable at once, or in line behind its conversation's. Null where the
 * queue does not exist. Refuses: duplicate, where there is a todo with this id.
 */
export const addTodo = async (session: Session, todo: NewTodo): Promise<Todo | null> => {
  const values = valuesOf(todo)
  for (let tried = 1; ; tried += 1) {
    const [row] = await session.run(addStatement, values).catch((error: unknown) => {
      if (isUniqueViolation(error, 'todos_pkey')) throw new Refusal('duplicate')
      throw error
    })
    if (!row) return null
    if (row.id !== null) {
      const added = toTodo(row)
      session.ring([
        { topic: 'feed', count: 1 },
        ...(added.dueAt ? [{ topic: `queue:${added.queue}`, count: 1 }] : []),
        ...(todo.push && todo.rejected ? [{ topic: 'deliveries', count: 1 }] : []),
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
  parent_id: todo.parent?.id,
  depth: todo.parent?.depth,
  close_by: todo.parent?.closeAt,
  effects: todo.effects,
  schedule_to_start: todo.timeouts?.scheduleToStart,
  start_to_close: todo.timeouts?.startToClose,
  schedule_to_close: todo.timeouts?.scheduleToClose,
  heartbeat: todo.timeouts?.heartbeat,
  ...pushValues(todo.push),
})
