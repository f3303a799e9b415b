/**
 * What becomes of a todo's own columns: what follows from its verb's row of the lifecycle (state, owner,
 * lease, counters, moments), under what the verb sets itself. Written over the row as it was locked (`p`,
 * beside `t`).
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
import { ANSWER_LEASE } from '../../domain/policy.ts'
import { stateList } from '../postgres/literals.ts'
import { $, joinSql, type Sql, type SqlPart, sql } from '../postgres/sql.ts'
import { HELD_BYTES, HELD_DOCUMENTS } from '../todos/size.ts'
import { GIVEN_BACK } from './conditions.ts'
import { alarmAt } from './timeouts.ts'
import { bringsDocument, type Columns, verbSql } from './verbs.ts'

const interruptStates = stateList(INTERRUPT_STATES)
/** Ends whatever else the row says; a failure is one only without a retry. */
const endStates = stateList(ENDED_STATES.filter((state) => state !== 'failed'))

/** The state to land in, over the locked row `t`. */
export const landing = ({ to, atCap, refund }: Rule): SqlPart => {
  if (to === 'same') return 't.state'
  if (to === 'as asked') return sql`${$.asked}::todo_state`
  const capped = `t.attempt >= t.max_attempts${refund === 'never started' ? ` and not ${GIVEN_BACK}` : ''}`
  return atCap
    ? `(case when ${capped} then '${atCap}' else '${to}' end)::todo_state`
    : `'${to}'::todo_state`
}

/** Every move says anew what the todo waits for. */
const moves = ({ ready }: Rule): Columns => ({
  state: 'p.to_state',
  interrupted_at: `case when p.to_state in (${interruptStates}) then p.at end`,
  interrupt_held_until: 'null',
  wait_probe_at: 'null',
  unheard_since: 'null',
  next_retry_at: 'p.retry_at',
  due_at: sql`case when p.to_state = 'pending' and p.line_free
    then now() + make_interval(secs => coalesce(${$.due_seconds}::double precision, 0)) end`,
  answered_at: 'null',
  join_until: 'null',
  // Of a join that is left in another way nothing is told.
  join_timeout_at: 'case when t.join_until is null then t.join_timeout_at end',
  front: `t.line is not null and p.line_free and (p.to_state in ('pending', 'claimed')
    or p.retry_at is not null)`,
  ready_reason: sql`case when p.retry_at is not null then 'retried'
    when p.to_state = 'pending' and p.line_free and ${$.due_seconds}::double precision > 0
      then '${ready ?? 'released'}' end`,
  finished_at: `case when p.to_state in (${endStates})
    or (p.to_state = 'failed' and p.retry_at is null) then p.at end`,
})

const OPENS: Columns = {
  started_at: 'p.at',
  last_heartbeat_at: 'p.at',
  attempts_total: 't.attempts_total + 1',
}

/** How many attempts count: one more with the one that begins, one less with one that is given back. */
const counted = ({ attempt, refund }: Rule): Columns => {
  const opened = attempt === 'open' ? ' + 1' : ''
  const givenBack = { true: ' - 1', 'never started': ' - p.given_back::int' }
  const change = opened + (refund ? givenBack[`${refund}`] : '')
  return change === '' ? {} : { attempt: `t.attempt${change}` }
}

const ACKNOWLEDGES: Columns = {
  unread: 't.unread - p.read_now',
  acknowledged_seq: sql`greatest(t.acknowledged_seq, least(coalesce(${$.through}::int, 0), t.seq))`,
}

const leaseTo = (until: SqlPart): Columns => ({ lease_expires_at: until, lease_probe_at: until })
const leaseFor = (seconds: SqlPart): Columns => leaseTo(sql`lease_until(${seconds})`)

const LENGTH = sql`coalesce(${$.lease_seconds}::int, t.lease_seconds)`

/**
 * The next heartbeat but one comes later than this. A probe that is not due before is left as it is, so that
 * the heartbeats between touch no index.
 */
const SOON = sql`lease_until(${LENGTH} / 2.0)`

/** How long the lease of an answer is; null for one as long as any other. */
const { setting, defaultSeconds } = ANSWER_LEASE
const ANSWER_SECONDS = `nullif(setting_number('${setting}', ${defaultSeconds}), 0)`

/** The wait did not count. */
const AFTER_WAIT = { started_at: 't.started_at + (p.at - t.interrupted_at)' }

/** The first word since the answer makes its lease whole; until then the column is the mark. */
const onceHeard = (column: string): string =>
  `case when t.unheard_since is null then t.${column} else lease_until(t.lease_seconds) end`

const LEASE: Readonly<Record<Rule['lease'], Columns>> = {
  grant: {
    owner: sql`${$.endpoint}::uuid`,
    claimant: sql`${$.claimant}::text`,
    fence: 't.fence + 1',
    lease_seconds: sql`${$.lease_seconds}::int`,
    ...leaseFor(sql`${$.lease_seconds}::int`),
  },
  extend: {
    lease_seconds: LENGTH,
    lease_expires_at: sql`lease_until(${LENGTH})`,
    lease_probe_at: sql`least(lease_until(${LENGTH}), case
      when t.lease_probe_at > ${SOON} then t.lease_probe_at end)`,
    unheard_since: 'null',
  },
  renew: { ...AFTER_WAIT, ...leaseFor('t.lease_seconds') },
  offer: {
    ...AFTER_WAIT,
    // Whoever holds on during the wait is there. Of any other it is not known.
    ...leaseFor(`case when t.interrupt_held_until > now() then t.lease_seconds
      else least(t.lease_seconds, ${ANSWER_SECONDS}) end`),
    unheard_since: 'p.at',
  },
  confirm: {
    lease_expires_at: onceHeard('lease_expires_at'),
    lease_probe_at: onceHeard('lease_probe_at'),
    unheard_since: 'null',
  },
  clear: { owner: 'null', claimant: 'null', lease_expires_at: 'null', lease_probe_at: 'null' },
  keep: {},
}

/** Its holder lives as long as its lease runs, or for as long as it said that it would wait. */
const holdsOn = (until: Sql): Columns => ({
  interrupt_held_until: until,
  wait_probe_at: sql`least(greatest(lease_until(${LENGTH}), ${until}), case
      when t.wait_probe_at > ${SOON} then t.wait_probe_at end)`,
})

/** The sums of what the todo holds (verbs.ts has asked whether there is room). */
const holdsMore = (verb: Verb): Columns => {
  const { artifact, metadata } = verbSql(verb)
  const bytes = sql`${HELD_BYTES('t')} + coalesce(${$.bytes}::int, 0)`
  if (metadata) {
    // Most bring none, and are no reason to count a row of before.
    const whereSome = (more: SqlPart, column: string): Sql =>
      sql`case when ${$.bytes}::int is null then t.${column} else ${more} end`
    return {
      documents: whereSome(`${HELD_DOCUMENTS('t')} + 1`, 'documents'),
      document_bytes: whereSome(bytes, 'document_bytes'),
    }
  }
  const brought = artifact ? '1' : sql`case when ${$.message}::json is null then 0 else 1 end`
  return { documents: sql`${HELD_DOCUMENTS('t')} + ${brought}`, document_bytes: bytes }
}

/** The alarm follows from the other columns, as they are after the move; a join may have one of its own. */
const withAlarm = (columns: Columns): Columns => {
  const changes = ['state', 'due_at', 'progress_at', 'started_at'].some((name) => name in columns)
  if (!changes) return columns
  const limits = alarmAt((column) => columns[column] ?? `t.${column}`)
  const { join_until: until = 'null', join_timeout_at: joinEnd } = columns
  const alarm = joinEnd && until !== 'null' ? sql`least(${limits}, ${joinEnd})` : limits
  const { finished_at: finished } = columns
  return {
    ...columns,
    alarm_at: finished ? sql`case when ${finished} is null then ${alarm} end` : alarm,
  }
}

/** Each column that a verb changes; what is absent stays. */
const columns = (verb: Verb): Columns => {
  const row = rule(verb)
  const { set, message, acknowledges, waitsUntil } = verbSql(verb)
  return withAlarm({
    updated_at: 'p.at',
    ...(row.to !== 'same' && moves(row)),
    ...(stampsProgress(verb) && { progress_at: 'p.at' }),
    ...(row.attempt === 'open' && OPENS),
    ...(row.event && { seq: 't.seq + 1' }),
    ...(STATUS_VERBS.includes(verb) && { status_seq: 't.seq + 1', status_at: 'p.at' }),
    ...counted(row),
    ...(message && row.by === 'client' && { unread: 't.unread + 1' }),
    ...(bringsDocument(verb) && holdsMore(verb)),
    ...(acknowledges && ACKNOWLEDGES),
    ...LEASE[row.lease],
    ...(waitsUntil && holdsOn(waitsUntil)),
    ...set,
  })
}

/** As the list behind `set`. */
export const assignments = (verb: Verb): Sql =>
  joinSql(
    Object.entries(columns(verb)).map(([column, value]) => sql`${column} = ${value}`),
    ',\n    ',
  )

/** The grant of a lease on a row of another table (`row` is its alias), as a todo's claim has it. */
export const granting = (
  row: string,
): Sql => sql`owner = ${$.owner}::uuid, fence = ${row}.fence + 1,
    lease_expires_at = lease_until(${$.lease_seconds}::double precision)`

/** What the ready hook says of the moved row; null keeps it silent. */
export const readyOf = (verb: Verb): SqlPart => {
  const { ready } = rule(verb)
  const own = verbSql(verb).ready
  if (own) return own
  if (!ready) return 'null'
  return sql`case when p.to_state = 'pending' and p.line_free
    and coalesce(${$.due_seconds}::double precision, 0) <= 0 then '${ready}' end`
}
