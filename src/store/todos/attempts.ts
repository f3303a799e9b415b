/** The attempts of a todo, read. The sentence that moves a todo writes them. */
import type { Outcome } from '../../domain/lifecycle.ts'
import type { Attempt } from '../../domain/todo.ts'
import { type Session, type Statement, statement } from '../postgres/database.ts'

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
