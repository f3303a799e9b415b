/**
 * What a moved todo writes beside itself: the attempt it ends and the one it begins, the message,
 * artifact and result it brings, the event that tells of it, and the handing over of its line. Each
 * is one more `with` of the sentence, reading the rows of `moved` as `m`.
 */
import {
  dispositionOf,
  INTERRUPT_STATES,
  OPEN_STATES,
  rule,
  STATE_NAMES,
  type Verb,
} from '../../domain/lifecycle.ts'
import type { KeptPushConfig } from '../../domain/push.ts'
import { stateList } from '../postgres/literals.ts'
import { scopeSql } from '../todos/scope.ts'
import { NEXT_OF_LINE, OUT_OF_TIME, TIMED_OUT } from './conditions.ts'

export const openStates = stateList(OPEN_STATES)

/** Which limit was passed, for the verbs that sweep for it. */
export const TIMEOUTS: Partial<Record<Verb, string>> = { timeOut: TIMED_OUT, expire: OUT_OF_TIME }

const dispositions = `case when m.next_retry_at is not null then '${dispositionOf('failed', true)}'
  ${STATE_NAMES.map((to) => `when m.to_state = '${to}' then '${dispositionOf(to, false)}'`).join('\n  ')}
  end`

/**
 * Closes the attempt that was open before the move. Its lease and beats are kept with it. Attempts are
 * named by an array as well, and that one is open is spelled so that no index of all open ones serves:
 * a bare join could be planned, while there are few, to begin with all of them.
 */
export const closeAttempt = (verb: Verb): string => {
  const { attempt } = rule(verb)
  if (attempt === 'keep') return ''
  const outcome = attempt === 'open' ? 'lease_expired' : attempt
  return `,
ending as materialized (
  select m.id, m.former_attempts as seq, m.updated_at as ended_at, ${dispositions} as disposition,
    :summary::text as summary, ${TIMEOUTS[verb] ? 'm.timeout' : ':cause::text'} as cause,
    m.former_heartbeat_at, m.former_progress_at, m.former_lease_expires_at
  from moved m where m.from_state in (${openStates})),
closed as (
  update attempts a set
    ended_at = e.ended_at, outcome = '${outcome}', disposition = e.disposition,
    summary = e.summary, cause = e.cause, last_heartbeat_at = e.former_heartbeat_at,
    progress_at = e.former_progress_at, lease_expires_at = e.former_lease_expires_at
  from ending e
  where a.todo_id = e.id and a.seq = e.seq and coalesce(a.ended_at, 'infinity') = 'infinity'
    and a.todo_id = any(array(select o.id from ending o))
  returning a.todo_id)`
}

/** How many attempts of one todo are kept; a todo that is handed back for ever has no more. */
const ATTEMPTS_KEPT = 100

/** Waits for `closed`, or the index attempt_one_open would fire. */
export const OPEN_ATTEMPT = `,
opened as (
  insert into attempts (todo_id, seq, attempt, endpoint_id, claimant, claimed_at)
  select m.id, m.attempts_total, m.attempt, m.owner, m.claimant, m.updated_at from moved m
  where (select count(*) from closed) >= 0),
forgotten as (
  delete from attempts a using moved m where m.attempts_total > ${ATTEMPTS_KEPT}
    and a.todo_id = m.id and a.seq <= m.attempts_total - ${ATTEMPTS_KEPT}
    and a.todo_id = any(array(select o.id from moved o where o.attempts_total > ${ATTEMPTS_KEPT})))`

const CARRIES_MESSAGE: readonly Verb[] = [
  'say',
  'interrupt',
  'resume',
  'answer',
  'message',
  'defer',
  'complete',
  'fail',
  'reject',
]

/** It comes after the deadline of a request for authorisation: it may be the credential all the same. */
const LATE_SECRET = `coalesce((select e.verb = 'interrupt' and e.to_state = 'auth-required'
    from events e where e.todo_id = m.id
      and e.verb in ('interrupt', 'resume', 'answer', 'resumeLater', 'answerLater')
    order by e.seq desc limit 1), false)`

export const addMessage = (verb: Verb): string => {
  if (!CARRIES_MESSAGE.includes(verb)) return ''
  const isClient = rule(verb).by === 'client'
  const answers = verb === 'resume' || verb === 'answer' || verb === 'defer'
  return `,
said as (
  insert into messages (todo_id, seq, message_id, role, owed, sender, message, received_at,
    answers, secret, schema)
  select m.id, m.seq, :message_id, '${isClient ? 'user' : 'agent'}', ${isClient}, :endpoint::uuid,
    :message::json, m.updated_at, ${answers ? 'm.former_status_seq' : 'null'},
    ${answers ? `m.from_state = 'auth-required'` : verb === 'message' ? LATE_SECRET : 'false'},
    ${verb === 'interrupt' ? ':schema::json' : 'null'}
  from moved m where :message::json is not null)`
}

export const ADD_ARTIFACT = `,
made as (
  insert into artifacts (todo_id, artifact_id, seq, append, last_chunk, artifact)
  select m.id, :artifact_id, m.seq, :append::boolean, :last_chunk::boolean, :artifact::json
  from moved m)`

const TIMED = `case when m.to_state = 'failed' then json_build_object('error', m.timeout,
    'detail', 'a limit on its time was passed') end`

const REVOKED = `case when m.to_state = 'failed' then json_build_object('error', 'endpoint_revoked',
    'detail', 'the endpoint of its holder was revoked') end`

/** A moment inside a document, written as everywhere on the wire. */
const wire = (moment: string): string =>
  `to_char(${moment} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** The error of a row that a sweep gave up on, and the question that nobody answered. */
const results: Partial<Record<Verb, string>> = {
  complete: ':result::json',
  fail: ':result::json',
  reapLease: `case when m.to_state = 'failed' then json_build_object('error', 'lease_expired',
    'detail', 'the holder of the last attempt stopped heartbeating') end`,
  revoke: REVOKED,
  strand: REVOKED,
  timeOut: TIMED,
  expire: TIMED,
  reapInterrupt: `json_strip_nulls(json_build_object(
    'error', case when m.to_state = 'failed' then 'interrupt_expired' end,
    'detail', case when m.to_state = 'failed'
      then 'nobody answered in time, on the last attempt allowed' end,
    'interrupt', json_build_object('state', m.from_state,
      'interruptedAt', ${wire('m.former_interrupted_at')},
      'message', (select q.message from messages q
        where q.todo_id = m.id and q.seq = m.former_status_seq))))`,
}

export const keepResult = (verb: Verb): string => {
  const result = results[verb]
  if (!result) return ''
  const direct = verb === 'complete' ? 'coalesce(:direct::boolean, false)' : 'false'
  return `,
kept as (
  insert into details as d (todo_id, result, direct)
  select m.id, r.result, ${direct} from moved m cross join lateral (select ${result} as result) r
  where r.result is not null or ${direct}
  on conflict (todo_id) do update set result = coalesce(excluded.result, d.result),
    direct = excluded.direct)`
}

export const addEvent = (verb: Verb): string => `,
told as (
  insert into events (todo_id, seq, queue, context_id, verb, from_state, to_state, retrying,
    attempt, fence, owner, claimant, ready, artifact_id, detail, at)
  select m.id, m.seq, m.queue, m.context_id, '${verb}', m.from_state, m.to_state,
    m.next_retry_at is not null, m.attempt, m.fence, coalesce(m.owner, m.former_owner),
    coalesce(m.claimant, m.former_claimant), m.ready,
    ${verb === 'artifact' ? ':artifact_id' : 'null'}, ${detailOf(verb)}, m.updated_at
  from moved m)`

/**
 * What the event owes to the webhooks of its todo: the line of each is one longer, and due. A todo
 * that never had a webhook is not even looked up.
 */
export const ENQUEUE_DELIVERIES = `,
owing as (
  update push_configs c set owed = c.owed + 1, due_at = coalesce(c.due_at, now())
  from moved m where m.push_version > 0 and c.todo_id = m.id
    and c.todo_id = any(array(select o.id from moved o where o.push_version > 0))
  returning c.todo_id, c.config_id, m.seq, m.queue),
owed as (
  insert into deliveries (todo_id, config_id, seq, queue)
  select o.todo_id, o.config_id, o.seq, o.queue from owing o)`

/** Holds, or fails the statement, where a webhook came or went while it waited for its todo. */
export const webhooksAgree = `(m.push_version = 0 or push_configs_agree(
  (select s.push_version from todos s where s.id = m.id), m.push_version))`

/** Locks a todo whose webhooks are about to change, so that no move of it overlooks that. */
export const WEBHOOKS_CHANGE = `update todos t set push_version = t.push_version + 1
  where t.id = :id::uuid and ${scopeSql('t')} returning t.id`

const SWEEP_ERRORS: Partial<Record<Verb, string>> = {
  reapLease: 'lease_expired',
  reapInterrupt: 'interrupt_expired',
  revoke: 'endpoint_revoked',
  strand: 'endpoint_revoked',
}

const detailOf = (verb: Verb): string => {
  if (verb === 'fail') {
    return `(case when m.next_retry_at is null then :detail::jsonb
      else :detail::jsonb || jsonb_build_object('retryAt', ${wire('m.next_retry_at')}) end)::json`
  }
  if (TIMEOUTS[verb]) return `json_build_object('error', json_build_object('code', m.timeout))`
  const code = SWEEP_ERRORS[verb]
  if (code) {
    return `case when m.to_state = 'failed'
      then json_build_object('error', json_build_object('code', '${code}')) end`
  }
  return ':detail::json'
}

/**
 * Whoever leaves the front hands the line to the newcomer that waited longest, in the same
 * statement, unless an answer waits: that one goes first, by a statement of its own.
 */
export const PROMOTE_NEXT = `,
freed as (select m.line from moved m where m.former_front and not m.front),
heir as (select f.line, h.id, h.state from freed f cross join lateral (${NEXT_OF_LINE}) h),
promoted as (
  update todos t set front = true, due_at = now(), seq = t.seq + 1,
    updated_at = greatest(clock_timestamp(), t.updated_at),
    alarm_at = todo_alarm(t.state, t.close_at, now(), t.schedule_to_start_seconds, null, null, null, null)
  from heir h where t.id = h.id and h.state = 'pending' returning t.*),
announced as (
  insert into events (todo_id, seq, queue, context_id, verb, from_state, to_state, attempt, fence,
    ready, at)
  select p.id, p.seq, p.queue, p.context_id, 'unblock', p.state, p.state, p.attempt, p.fence,
    'unblocked', p.updated_at from promoted p)`

/** May leave the front of its line. */
export const leavesFront = (verb: Verb): boolean => {
  const { to, from } = rule(verb)
  return (
    to !== 'same' && verb !== 'claim' && from.some((state) => !INTERRUPT_STATES.includes(state))
  )
}

/** The parameters of {@link addingConfig}; all null without a config. */
export const pushValues = (config: KeptPushConfig | undefined): Record<string, unknown> => ({
  push_id: config?.id,
  push_endpoint: config?.endpointId,
  push_dialect: config?.dialect,
  push_url: config?.url,
  push_host: config && new URL(config.url).host,
  push_token: config?.token,
  push_scheme: config?.authentication?.scheme,
  push_credentials: config?.authentication?.credentials,
  push_secret: config?.secret,
})

/** Inserts these for the todo with the id `todo`; `tells`: one delivery is owed from the start. */
export const addingConfig = (todo: string, tells = 'false'): string => `
  insert into push_configs as c (todo_id, config_id, endpoint_id, dialect, url, host, token, scheme,
    credentials, secret, owed, due_at)
  select ${todo}, :push_id, :push_endpoint::uuid, :push_dialect, :push_url, :push_host, :push_token,
    :push_scheme, :push_credentials, :push_secret, case when ${tells} then 1 else 0 end,
    case when ${tells} then now() end`
