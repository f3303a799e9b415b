/** A todo's row as the domain has it. */
import type { Todo } from '../../domain/todo.ts'
import { wireMoment } from '../postgres/literals.ts'
import { columnsOf } from '../postgres/rows.ts'

const TODO = columnsOf<Todo>()(
  [
    'id queue contextId clientId state priority attempt maxAttempts attemptsTotal fence owner claimant',
    'leaseExpiresAt interruptedAt interruptHeldUntil dueAt nextRetryAt progressAt seq unread statusSeq',
    'statusAt createdAt updatedAt finishedAt scheduleToStartSeconds startToCloseSeconds heartbeatSeconds',
    'closeAt startedAt line front answeredAt unheardSince parentId depth effects budget spent retryOf author',
    'notBefore schedule',
  ],
  {
    join: (t) => `case when ${t}.join_until is not null then json_strip_nulls(json_build_object(
      'until', ${t}.join_until, 'children', coalesce(${t}.join_ids, '{}'),
      'timeoutAt', ${wireMoment(`${t}.join_timeout_at`)}, 'onTimeout', case
        when ${t}.join_cancels then 'cancel' when ${t}.join_timeout_at is not null then 'leave' end)) end`,
    joinTimedOutAt: (t) => `case when ${t}.join_until is null then ${t}.join_timeout_at end`,
    // By the clock that stamped the progress. A todo that waits for an answer is not idle: its holder
    // cannot move it.
    idleSeconds: (t) => `case when ${t}.state = 'claimed'
      then greatest(0, extract(epoch from now() - ${t}.progress_at))::float8 end`,
  },
)

export const TODO_COLUMNS = TODO.select
