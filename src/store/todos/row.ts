/** The todo's row, between SQL's names and the domain's. */
import type { State } from '../../domain/lifecycle.ts'
import type { JoinUntil, Todo } from '../../domain/todo.ts'

export interface TodoRow {
  id: string
  queue: string
  context_id: string
  client_id: string | null
  state: State
  priority: number
  attempt: number
  max_attempts: number
  attempts_total: number
  fence: string
  owner: string | null
  claimant: string | null
  lease_expires_at: Date | null
  interrupted_at: Date | null
  interrupt_held_until: Date | null
  due_at: Date | null
  next_retry_at: Date | null
  progress_at: Date | null
  seq: number
  unread: number
  status_seq: number
  status_at: Date
  created_at: Date
  updated_at: Date
  finished_at: Date | null
  schedule_to_start_seconds: number | null
  start_to_close_seconds: number | null
  heartbeat_seconds: number | null
  close_at: Date | null
  started_at: Date | null
  line: string | null
  front: boolean
  answered_at: Date | null
  parent_id: string | null
  depth: number
  effects: string[] | null
  join_until: JoinUntil | null
  join_ids: string[] | null
  retry_of: string | null
  /** Computed, by the clock that stamped the progress. */
  idle_seconds: number | null
}

const COLUMNS: readonly Exclude<keyof TodoRow, 'idle_seconds'>[] = [
  'id',
  'queue',
  'context_id',
  'client_id',
  'state',
  'priority',
  'attempt',
  'max_attempts',
  'attempts_total',
  'fence',
  'owner',
  'claimant',
  'lease_expires_at',
  'interrupted_at',
  'interrupt_held_until',
  'due_at',
  'next_retry_at',
  'progress_at',
  'seq',
  'unread',
  'status_seq',
  'status_at',
  'created_at',
  'updated_at',
  'finished_at',
  'schedule_to_start_seconds',
  'start_to_close_seconds',
  'heartbeat_seconds',
  'close_at',
  'started_at',
  'line',
  'front',
  'answered_at',
  'parent_id',
  'depth',
  'effects',
  'join_until',
  'join_ids',
  'retry_of',
]

/** A question that waits for its answer is not idle: the holder cannot move it. */
const idleSeconds = (alias: string): string => `case when ${alias}.state = 'claimed'
  then greatest(0, extract(epoch from now() - ${alias}.progress_at))::float8 end as idle_seconds`

export const TODO_COLUMNS = (alias: string): string =>
  [...COLUMNS.map((column) => `${alias}.${column}`), idleSeconds(alias)].join(', ')

export const toTodo = (row: TodoRow): Todo => ({
  id: row.id,
  queue: row.queue,
  contextId: row.context_id,
  clientId: row.client_id,
  state: row.state,
  priority: row.priority,
  attempt: row.attempt,
  maxAttempts: row.max_attempts,
  attemptsTotal: row.attempts_total,
  fence: row.fence,
  owner: row.owner,
  claimant: row.claimant,
  leaseExpiresAt: row.lease_expires_at,
  interruptedAt: row.interrupted_at,
  interruptHeldUntil: row.interrupt_held_until,
  dueAt: row.due_at,
  nextRetryAt: row.next_retry_at,
  progressAt: row.progress_at,
  seq: row.seq,
  unread: row.unread,
  statusSeq: row.status_seq,
  statusAt: row.status_at,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
  finishedAt: row.finished_at,
  limits: {
    scheduleToStartSeconds: row.schedule_to_start_seconds,
    startToCloseSeconds: row.start_to_close_seconds,
    heartbeatSeconds: row.heartbeat_seconds,
  },
  closeAt: row.close_at,
  startedAt: row.started_at,
  line: row.line,
  front: row.front,
  answeredAt: row.answered_at,
  parentId: row.parent_id,
  depth: row.depth,
  effects: row.effects,
  join: row.join_until && { until: row.join_until, children: row.join_ids ?? [] },
  retryOf: row.retry_of,
  idleSeconds: row.idle_seconds,
})
