/**
 * What becomes of a todo's own columns, by a verb's row of the lifecycle: state, owner, lease,
 * counters, moments. Written over the row as it was locked (`p`, beside `t`).
 */
import {
  ENDED_STATES,
  INTERRUPT_STATES,
  type Rule,
  rule,
  STATUS_VERBS,
  stampsProgress,
  type Verb,
} from '../../domain/lifecycle.ts'
import { stateList } from '../postgres/literals.ts'

const interruptStates = stateList(INTERRUPT_STATES)
/** Ends whatever else the row says; a failure is one only without a retry. */
const endStates = stateList(ENDED_STATES.filter((state) => state !== 'failed'))

/** The state to land in, over the locked row `t`. */
export const landing = ({ to, atCap }: Rule): string => {
  if (to === 'same') return 't.state'
  if (to === 'as asked') return ':asked::todo_state'
  return atCap
    ? `(case when t.attempt >= t.max_attempts then '${atCap}' else '${to}' end)::todo_state`
    : `'${to}'::todo_state`
}

/** A client's message comes in with these, and is owed from then on. */
const TAKES_MESSAGE = ['message', 'resume', 'answer', 'defer'] as const

/** Each column that a verb may change, over the locked row `p`; what is absent stays. */
export const assignments = (verb: Verb): Record<string, string> => {
  const { lease, attempt, to, refund, event, ready } = rule(verb)
  const moves = to !== 'same'
  const parks = verb === 'interrupt'
  const counts = (TAKES_MESSAGE as readonly Verb[]).includes(verb)
  return {
    updated_at: 'p.at',
    ...(moves && {
      state: 'p.to_state',
      interrupted_at: `case when p.to_state in (${interruptStates}) then p.at end`,
      interrupt_held_until: 'null',
      next_retry_at: 'p.retry_at',
      due_at: `case when p.to_state = 'pending' and p.line_free
        then now() + make_interval(secs => coalesce(:due_seconds::double precision, 0)) end`,
      answered_at: 'null',
      join_until: 'null',
      front: `t.line is not null and p.line_free and (p.to_state in ('pending', 'claimed')
        or p.retry_at is not null)`,
      ready_reason: `case when p.retry_at is not null then 'retried'
        when p.to_state = 'pending' and p.line_free and :due_seconds::double precision > 0 then '${ready ?? 'released'}' end`,
      finished_at: `case when p.to_state in (${endStates})
        or (p.to_state = 'failed' and p.retry_at is null) then p.at end`,
    }),
    ...(verb === 'comeDue' && { ready_reason: 'null' }),
    ...(verb === 'join' && {
      due_at: 'null',
      join_until: ':join_until',
      join_ids: ':children::uuid[]',
    }),
    // Whoever still waits for the dead one waits for its retry.
    ...(verb === 'adopt' && {
      join_ids: 'array_replace(t.join_ids, :retry_of::uuid, :retry_by::uuid)',
    }),
    ...(verb === 'joined' && {
      due_at: 'now()',
      join_until: 'null',
      join_seen: `array(select c.id from todos c
        where c.id = any(t.join_ids) and c.finished_at is not null)`,
    }),
    ...(verb === 'unblock' && { due_at: 'now()', front: 'true' }),
    ...(verb === 'stepBack' && { due_at: 'null', front: 'false', ready_reason: 'null' }),
    ...(verb === 'defer' && { answered_at: 'coalesce(t.answered_at, p.at)' }),
    ...(verb === 'hold' && {
      // However often it is extended, a wait is never longer than the operator allows.
      interrupt_held_until: `least(now() + make_interval(secs => :hold_seconds::double precision),
        t.interrupted_at + make_interval(secs => :max_wait_seconds::double precision))`,
    }),
    ...((verb === 'heartbeat' || verb === 'hold' || attempt === 'open') && {
      last_heartbeat_at: 'p.at',
    }),
    ...(stampsProgress(verb) && { progress_at: 'p.at' }),
    ...(attempt === 'open' && { started_at: 'p.at' }),
    ...(lease === 'renew' && { started_at: 't.started_at + (p.at - t.interrupted_at)' }),
    ...(event && { seq: 't.seq + 1' }),
    ...(STATUS_VERBS.includes(verb) && { status_seq: 't.seq + 1', status_at: 'p.at' }),
    ...(attempt === 'open' && {
      attempt: 't.attempt + 1',
      attempts_total: 't.attempts_total + 1',
    }),
    ...(refund && { attempt: 't.attempt - 1' }),
    ...(counts && { unread: 't.unread + 1' }),
    ...((verb === 'acknowledge' || verb === 'complete') && {
      unread: 't.unread - p.read_now',
      acknowledged_seq: 'greatest(t.acknowledged_seq, least(coalesce(:through::int, 0), t.seq))',
    }),
    ...leaseAssignments(lease, parks),
  }
}

/** The alarm follows from the other columns, as they are after the move. */
export const withAlarm = (sets: Record<string, string>): Record<string, string> => {
  const after = (column: string): string => sets[column] ?? `t.${column}`
  const moved = ['state', 'due_at', 'progress_at', 'started_at'].some((column) => column in sets)
  if (!moved) return sets
  return {
    ...sets,
    alarm_at: `case when ${sets.finished_at ?? 'null::timestamptz'} is null then todo_alarm(
      ${after('state')}, t.close_at, ${after('due_at')}, t.schedule_to_start_seconds,
      ${after('progress_at')}, t.heartbeat_seconds, ${after('started_at')},
      t.start_to_close_seconds) end`,
  }
}

/** The grant of a lease on a row of another table (`row` is its alias), as a todo's claim has it. */
export const granting = (row: string): string => `owner = :owner::uuid, fence = ${row}.fence + 1,
    lease_expires_at = lease_until(:lease_seconds::double precision)`

const EXTENDED = 'coalesce(:lease_seconds::int, t.lease_seconds)'

const leaseAssignments = (lease: Rule['lease'], parks: boolean): Record<string, string> => {
  switch (lease) {
    case 'grant':
      return {
        owner: ':endpoint::uuid',
        claimant: ':claimant::text',
        fence: 't.fence + 1',
        lease_seconds: ':lease_seconds::int',
        lease_expires_at: 'lease_until(:lease_seconds::int)',
        lease_probe_at: 'lease_until(:lease_seconds::int)',
      }
    case 'extend':
      return {
        lease_seconds: 'coalesce(:lease_seconds::int, t.lease_seconds)',
        lease_expires_at: `lease_until(${EXTENDED})`,
        // Moved on only where it would be due before the next heartbeat but one: the others touch
        // no index.
        lease_probe_at: `least(lease_until(${EXTENDED}), case
          when t.lease_probe_at > lease_until(${EXTENDED} / 2.0) then t.lease_probe_at end)`,
      }
    case 'renew':
      return {
        lease_expires_at: 'lease_until(t.lease_seconds)',
        lease_probe_at: 'lease_until(t.lease_seconds)',
      }
    case 'clear':
      return {
        owner: 'null',
        claimant: 'null',
        lease_expires_at: 'null',
        lease_probe_at: 'null',
      }
    case 'keep':
      return parks
        ? {
            owner: 'case when :park::boolean then null else t.owner end',
            lease_expires_at: 'case when :park::boolean then null else t.lease_expires_at end',
            lease_probe_at: 'case when :park::boolean then null else t.lease_probe_at end',
          }
        : {}
  }
}

/** What the ready hook says of the moved row; null keeps it silent. */
export const readyOf = (verb: Verb): string => {
  const { ready } = rule(verb)
  if (verb === 'comeDue') return 'p.ready_reason'
  if (verb === 'unblock' || verb === 'joined') return `'${ready}'`
  if (!ready) return 'null'
  return `case when p.to_state = 'pending' and p.line_free
    and coalesce(:due_seconds::double precision, 0) <= 0 then '${ready}' end`
}
