/**
 * What a moved todo writes beside itself: the attempt it ends and the one it begins, the message,
 * artifact and result it brings, the event that tells of it, what webhooks are owed, and the hand-over of
 * its line. Each is one more `with` of the statement, reading the rows of `moved` as `m`.
 */
import {
  ANSWER_UNHEARD,
  dispositionOf,
  INTERRUPT_STATES,
  NEVER_STARTED,
  rule,
  STATE_NAMES,
  shownAs,
  type Verb,
} from '../../domain/lifecycle.ts'
import type { KeptPushConfig } from '../../domain/push.ts'
import { $, joinSql, type Sql, type SqlPart, sql } from '../postgres/sql.ts'
import { claimKey } from '../todos/idempotency.ts'
import { scopeSql } from '../todos/scope.ts'
import { assignments, readyOf } from './columns.ts'
import { UPWARDS } from './kin/family.ts'
import { NEXT_OF_LINE } from './pick.ts'
import { detailOf, openStates, resultOf, verbSql } from './verbs.ts'

const dispositions = `case when m.next_retry_at is not null then '${dispositionOf('failed', true)}'
  ${STATE_NAMES.map((to) => `when m.to_state = '${to}' then '${dispositionOf(to, false)}'`).join('\n  ')}
  end`

/**
 * Closes the attempt that was open before the move; its lease and beats are kept with it. Attempts are
 * named by an array as well, and that one is open is spelled so that no index of all open ones serves:
 * a bare join could be planned, while there are few, to begin with all of them.
 */
const closeAttempt = (outcome: string, cause: SqlPart): Sql => sql`
ending as materialized (
  select m.id, m.former_attempts as seq, m.updated_at as ended_at, ${dispositions} as disposition,
    ${$.summary}::text as summary, ${cause} as cause,
    m.former_heartbeat_at, m.former_progress_at, m.former_lease_expires_at
  from moved m where m.from_state in (${openStates})),
closed as (
  update attempts a set
    ended_at = e.ended_at, outcome = '${outcome}', disposition = e.disposition,
    summary = e.summary, cause = coalesce(e.cause, a.cause), last_heartbeat_at = e.former_heartbeat_at,
    progress_at = e.former_progress_at, lease_expires_at = e.former_lease_expires_at
  from ending e
  where a.todo_id = e.id and a.seq = e.seq and coalesce(a.ended_at, 'infinity') = 'infinity'
    and a.todo_id = any(array(select o.id from ending o))
  returning a.todo_id)`

/** The attempt stays open, and its todo without a holder. */
const markAttempt = (cause: string): Sql => sql`
marked as (
  update attempts a set cause = '${cause}' from moved m
  where a.todo_id = m.id and a.seq = m.attempts_total and a.todo_id = any(array(select o.id from moved o)))`

/** How many attempts of one todo are kept; a todo that is handed back for ever has no more. */
const ATTEMPTS_KEPT = 100

/** Waits for `closed`, or the index attempt_one_open would fire. */
const OPEN_ATTEMPT = sql`
opened as (
  insert into attempts (todo_id, seq, attempt, endpoint_id, claimant, claimed_at)
  select m.id, m.attempts_total, m.attempt, m.owner, m.claimant, m.updated_at from moved m
  where (select count(*) from closed) >= 0),
forgotten as (
  delete from attempts a using moved m where m.attempts_total > ${ATTEMPTS_KEPT}
    and a.todo_id = m.id and a.seq <= m.attempts_total - ${ATTEMPTS_KEPT}
    and a.todo_id = any(array(select o.id from moved o where o.attempts_total > ${ATTEMPTS_KEPT})))`

const addMessage = (
  verb: Verb,
  {
    answers,
    secret = 'false',
    schema = 'null',
  }: NonNullable<ReturnType<typeof verbSql>['message']>,
): Sql => {
  const isClient = rule(verb).by === 'client'
  return sql`
added_message as (
  insert into messages (todo_id, seq, message_id, role, owed, sender, message, request, received_at,
    answers, secret, schema, bytes)
  select m.id, m.seq, ${$.message_id}, '${isClient ? 'user' : 'agent'}', ${String(isClient)},
    ${$.endpoint}::uuid, ${$.message}::json, ${isClient ? sql`${$.request}::json` : 'null'}, m.updated_at,
    ${answers ? 'm.former_status_seq' : 'null'}, ${secret}, ${schema},
    ${$.bytes}::int - ${$.result_bytes}::int
  from moved m where ${$.message}::json is not null)`
}

const ADD_ARTIFACT = sql`
added_artifact as (
  insert into artifacts (todo_id, artifact_id, seq, append, last_chunk, artifact, chunk_key, bytes)
  select m.id, ${$.artifact_id}, m.seq, ${$.append}::boolean, ${$.last_chunk}::boolean,
    ${$.artifact}::json, ${$.chunk_key}::text, ${$.bytes}::int
  from moved m)`

/**
 * `replaces`: what an earlier attempt left (its error, its question) goes, also where this one has no
 * result. A first attempt finds nothing to replace.
 */
const keepResult = (result: SqlPart, direct: SqlPart = 'false', replaces = false): Sql => sql`
kept_result as (
  insert into details as d (todo_id, result, direct, bytes)
  select m.id, r.result, ${direct}, octet_length(r.result::text) from moved m
    cross join lateral (select ${result} as result) r
  where r.result is not null or ${direct}${replaces ? ' or m.attempts_total > 1' : ''}
  on conflict (todo_id) do update set result = excluded.result, bytes = excluded.bytes,
    direct = excluded.direct)`

/**
 * The event of this verb for the rows of `rows`. It carries the verb in its name, so that two verbs which
 * write alike still are two statements to pg_stat_statements, which looks at no constant.
 */
const addEvent = (verb: Verb, rows = 'moved'): Sql => {
  const { artifact } = verbSql(verb)
  return sql`
${verb}_event as (
  insert into events (todo_id, seq, queue, context_id, verb, from_state, to_state, retrying,
    attempt, fence, owner, claimant, ready, artifact_id, detail, at, author)
  select m.id, m.seq, m.queue, m.context_id, '${verb}', m.from_state, m.to_state,
    m.next_retry_at is not null, m.attempt, m.fence, coalesce(m.owner, m.former_owner),
    coalesce(m.claimant, m.former_claimant), m.ready,
    ${artifact ? $.artifact_id : 'null'}, ${detailOf(verb)}, m.updated_at, m.author
  from ${rows} m)`
}

/**
 * What the event owes to the webhooks of its todo: each is owed one delivery more, and due. A todo that
 * never had a webhook is not even looked up.
 */
const ENQUEUE_DELIVERIES = `
owing as (
  update push_configs c set owed = c.owed + 1, due_at = coalesce(c.due_at, now())
  from moved m where m.push_version > 0 and c.todo_id = m.id
    and c.todo_id = any(array(select o.id from moved o where o.push_version > 0))
  returning c.todo_id, c.config_id, m.seq, m.queue),
enqueued as (
  insert into deliveries (todo_id, config_id, seq, queue)
  select o.todo_id, o.config_id, o.seq, o.queue from owing o)`

/**
 * Whoever leaves the front hands the line to the newcomer that waited longest, in the same statement,
 * which does to it what `unblock` does; unless an answer waits, which goes first by a statement of its own.
 */
const PROMOTE_NEXT = sql`
freed as (select m.line from moved m where m.former_front and not m.front),
next_in_line as (select f.line, n.* from freed f cross join lateral (${NEXT_OF_LINE}) n),
promoted as (
  update todos t set ${assignments('unblock')}
  from next_in_line p where t.id = p.id and p.state = 'pending'
  returning t.*, t.state as from_state, t.state as to_state, t.owner as former_owner,
    t.claimant as former_claimant, ${readyOf('unblock')} as ready),${addEvent('unblock', 'promoted')}`

/** In the order of no lock: whoever spends for a family has locked all of it before. */
const SPEND_ABOVE = sql`
above as (
  update todos a set spent = spent_more(a.spent, ${$.spend}::jsonb)
  from moved m where m.parent_id is not null and a.id <> m.id and a.id = any(array(${UPWARDS})))`

/** May leave the front of its line. */
export const leavesFront = (verb: Verb): boolean => {
  const { to, from } = rule(verb)
  return (
    to !== 'same' && verb !== 'claim' && from.some((state) => !INTERRUPT_STATES.includes(state))
  )
}

/** Why the attempt ended. */
const causeOf = (verb: Verb): SqlPart => {
  if (verbSql(verb).timeout) return 'm.timeout'
  const brought = sql`${$.cause}::text`
  return rule(verb).refund === 'never started'
    ? sql`case when m.never_started then '${NEVER_STARTED}'
      when m.unheard then '${ANSWER_UNHEARD}' else ${brought} end`
    : brought
}

/** All that a verb writes beside the row, in the order it is written. */
export const effects = (verb: Verb): Sql => {
  const { attempt, event, by, to } = rule(verb)
  const { message, artifact, direct, marks } = verbSql(verb)
  const result = resultOf(verb)
  const clauses = [
    attempt !== 'keep' &&
      closeAttempt(attempt === 'open' ? 'lease_expired' : attempt, causeOf(verb)),
    attempt === 'open' && OPEN_ATTEMPT,
    marks && markAttempt(marks),
    verbSql(verb).spends && SPEND_ABOVE,
    message && addMessage(verb, message),
    leavesFront(verb) && PROMOTE_NEXT,
    artifact && ADD_ARTIFACT,
    result && keepResult(result, direct, to === 'done'),
    event && addEvent(verb),
    shownAs(verb) && ENQUEUE_DELIVERIES,
    message && by === 'client' && claimKey('moved'),
  ]
  return joinSql(clauses.flatMap((clause) => (clause ? [',', clause] : [])))
}

/* ------------------------------------------------------------------- webhooks */

/** Holds, or fails the statement, where a webhook came or went while it waited for its todo. */
export const webhooksAgree = `(m.push_version = 0 or push_configs_agree(
  (select s.push_version from todos s where s.id = m.id), m.push_version))`

/** Locks a todo whose webhooks are about to change, so that no move of it overlooks that. */
export const WEBHOOKS_CHANGE = sql`update todos t set push_version = t.push_version + 1
  where t.id = ${$.id}::uuid and ${scopeSql('t')} returning t.id`

/** The parameters of {@link addingConfig}; all null without a config. */
export const pushValues = (config: KeptPushConfig | undefined): Record<string, unknown> => ({
  push_id: config?.id,
  push_endpoint: config?.endpointId,
  push_dialect: config?.dialect,
  push_url: config?.url,
  push_host: config && new URL(config.url).hostname.replace(/\.$/, ''),
  push_token: config?.stored.token,
  push_scheme: config?.authentication?.scheme,
  push_credentials: config?.stored.credentials,
  push_secret: config?.stored.secret,
})

/** Inserts a config for the todo with the id `todo`; `tells`: one delivery is owed from the start. */
export const addingConfig = (todo: SqlPart, tells = 'false'): Sql => sql`
  insert into push_configs as c (todo_id, config_id, endpoint_id, dialect, url, host, token, scheme,
    credentials, secret, owed, due_at)
  select ${todo}, ${$.push_id}, ${$.push_endpoint}::uuid, ${$.push_dialect}, ${$.push_url},
    ${$.push_host}, ${$.push_token}, ${$.push_scheme}, ${$.push_credentials}, ${$.push_secret},
    case when ${tells} then 1 else 0 end, case when ${tells} then now() end`
