/** A todo's row as the domain has it. */
import type { Todo } from '../../domain/todo.ts'
import { columnsOf } from '../postgres/rows.ts'

const TODO = columnsOf<Todo>()(
  [
    'id queue contextId clientId state priority attempt maxAttempts attemptsTotal fence owner claimant',
    'leaseExpiresAt interruptedAt interruptHeldUntil dueAt nextRetryAt progressAt seq unread statusSeq',
    'statusAt createdAt updatedAt finishedAt scheduleToStartSeconds startToCloseSeconds heartbeatSeconds',
    'closeAt startedAt line front answeredAt parentId depth effects budget spent retryOf author',
    'notBefore schedule',
  ],
  {
    join: (t) => `case when ${t}.join_until is not null then json_build_object(
      'until', ${t}.join_until, 'children', coalesce(${t}.join_ids, '{}')) end`,
    // By the clock that stamped the progress. A todo that waits for an answer is not idle: its holder
    // cannot move it.
    idleSeconds: (t) => `case when ${t}.state = 'claimed'
      then greatest(0, extract(epoch from now() - ${t}.progress_at))::float8 end`,
  },
)

export const TODO_COLUMNS = TODO.select
