/** Reading the attempts of a todo. The statement that moves a todo writes them. */

import { HOLDER_LOST } from '../../domain/lifecycle.ts'
import type { Attempt } from '../../domain/todo.ts'
import { type Session, statement } from '../postgres/database.ts'
import { columnsOf } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'

export const ATTEMPT = columnsOf<Attempt>()(
  [
    'seq attempt endpointId claimant claimedAt lastHeartbeatAt progressAt leaseExpiresAt endedAt outcome',
    'disposition summary cause',
  ],
  {
    died: (a) => `(coalesce(${a}.outcome in ('lease_expired', 'reaped'), false)
      or coalesce(${a}.cause = '${HOLDER_LOST}', false))`,
  },
)

const newestOf = (column: string): string => `coalesce(a.${column}, t.${column})`

const attemptsStatement = statement<Attempt>(
  'attempts_read',
  sql`select ${ATTEMPT.select('a', {
    lastHeartbeatAt: newestOf('last_heartbeat_at'),
    progressAt: newestOf('progress_at'),
    leaseExpiresAt: newestOf('lease_expires_at'),
  })}
  from attempts a join todos t on t.id = a.todo_id
  where a.todo_id = ${$.id}::uuid order by a.seq desc limit ${$.limit}::int`,
)

/** Newest first. The heartbeats of the open one stand in the todo's own row. */
export const readAttempts = (session: Session, id: string, limit: number): Promise<Attempt[]> =>
  session.run(attemptsStatement, { id, limit })
