/**
 * The limits on a todo's time: which of them has passed, and the alarm by which the sweep finds it. To
 * add a timeout: a column, its term in the SQL function `todo_alarm` (migrations), a line here, and the
 * policy's member in domain/policy.ts.
 */

import { type Sql, type SqlPart, sql } from '../postgres/sql.ts'

/** The name of the limit of an attempt that has passed; null when none has. */
export const TIMED_OUT = `case
  when t.progress_at + make_interval(secs => t.heartbeat_seconds) <= now()
    then 'heartbeat_timeout'
  when t.started_at + make_interval(secs => t.start_to_close_seconds) <= now()
    then 'start_to_close_timeout' end`

/** The name of the limit of the whole todo that has passed; null when none has. */
export const OUT_OF_TIME = `case
  when t.close_at <= now() then 'schedule_to_close_timeout'
  when t.state = 'pending' and t.due_at + make_interval(secs => t.schedule_to_start_seconds) <= now()
    then 'schedule_to_start_timeout' end`

/** When the first limit of a todo passes, by its columns as they will be; `after` names each. */
export const alarmAt = (after: (column: string) => SqlPart): Sql => sql`todo_alarm(
      ${after('state')}, t.close_at, ${after('due_at')}, t.schedule_to_start_seconds,
      ${after('progress_at')}, t.heartbeat_seconds, ${after('started_at')},
      t.start_to_close_seconds)`
