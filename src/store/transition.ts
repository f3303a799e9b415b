/**
 * The one statement that moves a todo. A lease phrase picks and locks; the verb's row of the
 * lifecycle says what becomes of state, owner, lease and attempt; attempts, messages, artifacts
 * and the event are written in the same statement. There is no other way to change a todo.
 *
 * Everything is read from the row as it is once locked, so whether a verb is allowed is never
 * decided by a row read earlier.
 */
import { Refusal } from '../domain/errors.ts'
import {
  dispositionOf,
  ENDED_STATES,
  INTERRUPT_STATES,
  OPEN_STATES,
  type ReadyReason,
  type Rule,
  rule,
  STATE_NAMES,
  type State,
  VERB_NAMES,
  type Verb,
} from '../domain/lifecycle.ts'
import type { Scope } from '../domain/scope.ts'
import type { EventDetail, JsonObject, Message, Todo } from '../domain/todo.ts'
import {
  isUniqueViolation,
  type Ring,
  type Session,
  type Statement,
  statement,
} from './database.ts'
import {
  due,
  dueIds,
  FREE,
  LINE_FREE,
  NEXT,
  nextInLine,
  OUT_OF_TIME,
  one,
  READ_NOW,
  STALLED_LINES,
  TIMED_OUT,
} from './lease.ts'
import { scopeSql, scopeValues } from './scope.ts'
import { TODO_COLUMNS, type TodoRow, toTodo } from './todo-row.ts'
import { isUuid } from './uuid.ts'

/** What the caller of a verb brings. Members a verb does not use are ignored by its SQL. */
export interface Change {
  /** The endpoint that acts; for a holder's verbs it must own the row. */
  endpoint?: string
  fence?: string
  leaseSeconds?: number
  claimant?: string
  /** Interrupt: which of the two; and whether the holder keeps the row while it waits. */
  asked?: State
  park?: boolean
  holdSeconds?: number
  message?: Message
  artifact?: { id: string; json: string; append: boolean; lastChunk: boolean }
  detail?: EventDetail
  summary?: string
  cause?: string
  /** Fail: seconds until the next try; absent makes it a dead letter. */
  retrySeconds?: number
  /** Release: seconds until it may be claimed again. */
  dueSeconds?: number
  result?: JsonObject
  direct?: boolean
  maxWaitSeconds?: number
  /** Interrupt: what the data part of the answer must look like. */
  schema?: JsonObject
  /** Resume, answer: the seq of the question that was read when the answer was checked. */
  question?: number
  /** Messages up to this seq are handled. */
  through?: number
  /** Revoke: the queues it is settled for. */
  queues?: readonly string[]
  /** Sweeps: the instance-wide wait of an interrupt; null is unbounded. */
  ttlSeconds?: number | null
}

/** A todo as it is after the move, and what it was before. */
export interface Moved {
  todo: Todo
  from: State
  formerOwner: string | null
  ready: ReadyReason | null
  /** Which limit was passed, for the sweeps of timeouts. */
  timeout: string | null
  /** Who is next in the line whose front it left. */
  heir: string | null
  /** The heir has an answer, and is resumed by a statement of its own. */
  answerWaits: boolean
}

interface MovedRow extends TodoRow {
  from_state: State
  former_owner: string | null
  ready: ReadyReason | null
  timeout: string | null
  heir: string | null
  answer_waits: boolean | null
}

const list = (states: readonly State[]): string => states.map((state) => `'${state}'`).join(', ')
const openStates = list(OPEN_STATES)
const interruptStates = list(INTERRUPT_STATES)
/** Ends whatever else the row says; a failure is one only without a retry. */
const endStates = list(ENDED_STATES.filter((state) => state !== 'failed'))

/** The state to land in, over the locked row `t`. */
const landing = ({ to, atCap }: Rule): string => {
  if (to === 'same') return 't.state'
  if (to === 'as asked') return ':asked::todo_state'
  return atCap
    ? `(case when t.attempt >= t.max_attempts then '${atCap}' else '${to}' end)::todo_state`
    : `'${to}'::todo_state`
}

/** A client's message comes in with these, and is owed from then on. */
const TAKES_MESSAGE = ['message', 'resume', 'answer', 'defer'] as const

/** Each column that a verb may change, over the locked row `p`; what is absent stays. */
const assignments = (verb: Verb): Record<string, string> => {
  const { lease, attempt, to, refund, progress, event, ready } = rule(verb)
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
      front: `t.line is not null and p.line_free and (p.to_state in ('pending', 'claimed')
        or p.retry_at is not null)`,
      ready_reason: `case when p.retry_at is not null then 'retried'
        when p.to_state = 'pending' and p.line_free and :due_seconds::double precision > 0 then '${ready ?? 'released'}' end`,
      finished_at: `case when p.to_state in (${endStates})
        or (p.to_state = 'failed' and p.retry_at is null) then p.at end`,
    }),
    ...(verb === 'comeDue' && { ready_reason: 'null' }),
    ...(verb === 'unblock' && { due_at: 'now()', front: 'true' }),
    ...(verb === 'defer' && { answered_at: 'coalesce(t.answered_at, p.at)' }),
    ...(verb === 'hold' && {
      // However often it is extended, a wait is never longer than the operator allows.
      interrupt_held_until: `least(now() + make_interval(secs => :hold_seconds::double precision),
        t.interrupted_at + make_interval(secs => :max_wait_seconds::double precision))`,
    }),
    ...((verb === 'heartbeat' || verb === 'hold' || attempt === 'open') && {
      last_heartbeat_at: 'p.at',
    }),
    ...((progress || attempt === 'open' || lease === 'renew') && { progress_at: 'p.at' }),
    ...(attempt === 'open' && { started_at: 'p.at' }),
    ...(lease === 'renew' && { started_at: 't.started_at + (p.at - t.interrupted_at)' }),
    ...(event && { seq: 't.seq + 1' }),
    ...((moves || verb === 'say') && { status_seq: 't.seq + 1', status_at: 'p.at' }),
    ...(attempt === 'open' && {
      attempt: 't.attempt + 1',
      attempts_total: 't.attempts_total + 1',
    }),
    ...(refund && { attempt: 't.attempt - 1' }),
    ...(counts && { unread: 't.unread + 1' }),
    ...((verb === 'acknowledge' || verb === 'complete') && {
      unread: 't.unread - p.read_now',
      acknowledged_seq: 'greatest(t.acknowledged_seq, coalesce(:through::int, 0))',
    }),
    ...leaseAssignments(lease, parks),
  }
}

/** The alarm follows from the other columns, as they are after the move. */
const withAlarm = (sets: Record<string, string>): Record<string, string> => {
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

const leaseAssignments = (lease: Rule['lease'], parks: boolean): Record<string, string> => {
  switch (lease) {
    case 'grant':
      return {
        owner: ':endpoint::uuid',
        claimant: ':claimant::text',
        fence: 't.fence + 1',
        lease_seconds: ':lease_seconds::int',
        lease_expires_at: 'lease_until(:lease_seconds::int)',
      }
    case 'extend':
      return {
        lease_seconds: 'coalesce(:lease_seconds::int, t.lease_seconds)',
        lease_expires_at: 'lease_until(coalesce(:lease_seconds::int, t.lease_seconds))',
      }
    case 'renew':
      return { lease_expires_at: 'lease_until(t.lease_seconds)' }
    case 'clear':
      return { owner: 'null', claimant: 'null', lease_expires_at: 'null' }
    case 'keep':
      return parks
        ? {
            owner: 'case when :park::boolean then null else t.owner end',
            lease_expires_at: 'case when :park::boolean then null else t.lease_expires_at end',
          }
        : {}
  }
}

/** What the ready hook says of the moved row; null keeps it silent. */
const readyOf = (verb: Verb): string => {
  const { ready } = rule(verb)
  if (verb === 'comeDue') return 'p.ready_reason'
  if (verb === 'unblock') return `'${ready}'`
  if (!ready) return 'null'
  return `case when p.to_state = 'pending' and p.line_free
    and coalesce(:due_seconds::double precision, 0) <= 0 then '${ready}' end`
}

const dispositions = `case when m.next_retry_at is not null then '${dispositionOf('failed', true)}'
  ${STATE_NAMES.map((to) => `when m.to_state = '${to}' then '${dispositionOf(to, false)}'`).join('\n  ')}
  end`

/** Closes the attempt that was open before the move. Its lease and beats are kept with it. */
const closing = (verb: Verb): string => {
  const { attempt } = rule(verb)
  if (attempt === 'keep') return ''
  const outcome = attempt === 'open' ? 'lease_expired' : attempt
  return `,
closed as (
  update attempts a set
    ended_at = m.updated_at, outcome = '${outcome}', disposition = ${dispositions},
    summary = :summary::text, cause = ${TIMEOUTS[verb] ? 'm.timeout' : ':cause::text'},
    last_heartbeat_at = m.former_heartbeat_at, progress_at = m.former_progress_at,
    lease_expires_at = m.former_lease_expires_at
  from moved m
  where m.from_state in (${openStates}) and a.todo_id = m.id and a.seq = m.former_attempts
    and a.ended_at is null
  returning a.todo_id)`
}

/** How many attempts of one todo are kept; a todo that is handed back for ever has no more. */
const ATTEMPTS_KEPT = 100

/** Waits for `closed`, or the index attempt_one_open would fire. */
const opening = `,
opened as (
  insert into attempts (todo_id, seq, attempt, endpoint_id, claimant, claimed_at)
  select m.id, m.attempts_total, m.attempt, m.owner, m.claimant, m.updated_at from moved m
  where (select count(*) from closed) >= 0),
forgotten as (
  delete from attempts a using moved m where m.attempts_total > ${ATTEMPTS_KEPT}
    and a.todo_id = m.id and a.seq <= m.attempts_total - ${ATTEMPTS_KEPT})`

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
    from events e where e.todo_id = m.id and e.verb in ('interrupt', 'resume', 'answer')
    order by e.seq desc limit 1), false)`

const saying = (verb: Verb): string => {
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

const making = `,
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

const keeping = (verb: Verb): string => {
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

const telling = (verb: Verb): string => `,
told as (
  insert into events (todo_id, seq, queue, context_id, verb, from_state, to_state, retrying,
    attempt, fence, owner, claimant, ready, artifact_id, detail, at)
  select m.id, m.seq, m.queue, m.context_id, '${verb}', m.from_state, m.to_state,
    m.next_retry_at is not null, m.attempt, m.fence, coalesce(m.owner, m.former_owner),
    coalesce(m.claimant, m.former_claimant), m.ready,
    ${verb === 'artifact' ? ':artifact_id' : 'null'}, ${detailOf(verb)}, m.updated_at
  from moved m)`

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

const TIMEOUTS: Partial<Record<Verb, string>> = { timeOut: TIMED_OUT, expire: OUT_OF_TIME }

/**
 * Whoever leaves the front hands the line to the newcomer that waited longest, in the same
 * statement, unless an answer waits: that one goes first, by a statement of its own.
 */
const handing = `,
freed as (select m.line from moved m where m.former_front and not m.front),
heir as (
  select f.line, h.id, h.state from freed f cross join lateral (
    select w.id, w.state from todos w where w.line = f.line and not w.front
      and (w.state = 'pending' or w.answered_at is not null)
    order by w.answered_at, w.lined_at limit 1 for update of w) h),
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
const leavesFront = (verb: Verb): boolean => {
  const { to, from } = rule(verb)
  return (
    to !== 'same' && verb !== 'claim' && from.some((state) => !INTERRUPT_STATES.includes(state))
  )
}

/** The whole sentence: `phrase` is what lease.ts picks by; `extra` is read from the moved rows. */
const sentence = (verb: Verb, phrase: string, extra = ''): string => {
  const { attempt, event } = rule(verb)
  const sets = Object.entries(withAlarm(assignments(verb))).map(
    ([column, value]) => `${column} = ${value}`,
  )
  const heirs = leavesFront(verb)
    ? `, (select h.id from heir h where h.line = m.line) as heir,
    (select h.state <> 'pending' from heir h where h.line = m.line) as answer_waits`
    : ', null::uuid as heir, false as answer_waits'
  const reads = verb === 'acknowledge' || verb === 'complete'
  const source = phrase.trimStart().startsWith('from') ? phrase : `from todos t ${phrase}`
  return `
with picked as (
  select t.id, t.state as from_state, ${landing(rule(verb))} as to_state,
    greatest(clock_timestamp(), t.updated_at) as at, t.ready_reason,
    ${verb === 'fail' ? `case when :retry_seconds::double precision is not null and t.attempt < t.max_attempts then now() + make_interval(secs => :retry_seconds::double precision) end` : 'null::timestamptz'} as retry_at,
    ${LINE_FREE} as line_free, t.front as former_front,
    ${reads ? READ_NOW : '0'} as read_now, ${TIMEOUTS[verb] ?? 'null'} as timeout,
    t.owner as former_owner, t.claimant as former_claimant, t.attempts_total as former_attempts,
    t.last_heartbeat_at as former_heartbeat_at, t.progress_at as former_progress_at,
    t.lease_expires_at as former_lease_expires_at, t.interrupted_at as former_interrupted_at,
    t.status_seq as former_status_seq
  ${source}),
moved as (
  update todos t set ${sets.join(',\n    ')}
  from picked p where t.id = p.id
  returning t.*, p.from_state, p.to_state, p.former_owner, p.former_claimant, p.former_attempts,
    p.former_heartbeat_at, p.former_progress_at, p.former_lease_expires_at,
    p.former_interrupted_at, p.former_status_seq, p.former_front, p.timeout, ${readyOf(verb)} as ready)${closing(verb)}${
      attempt === 'open' ? opening : ''
    }${saying(verb)}${leavesFront(verb) ? handing : ''}${verb === 'artifact' ? making : ''}${keeping(verb)}${event ? telling(verb) : ''}
select ${TODO_COLUMNS('m')}, m.from_state, m.former_owner, m.ready, m.timeout${heirs}${extra}
from moved m${
    attempt === 'keep'
      ? ''
      : `
where attempts_agree((select count(*) from closed),
  (select count(*) from moved where from_state in (${openStates})))`
  }`
}

const compile = <Row extends MovedRow>(verb: Verb, text: string): Statement<Row> =>
  statement<Row>(`todo_${verb}`, text)

const oneStatements = Object.fromEntries(
  VERB_NAMES.map((verb) => [verb, compile(verb, sentence(verb, one(verb)))]),
) as Record<Verb, Statement<MovedRow>>

const SWEEP_VERBS = [
  'reapLease',
  'reapInterrupt',
  'comeDue',
  'timeOut',
  'expire',
  'revoke',
  'strand',
] as const
export type SweepVerb = (typeof SWEEP_VERBS)[number]

const sweepStatements = Object.fromEntries(
  SWEEP_VERBS.map((verb) => [verb, compile(verb, sentence(verb, due(verb)))]),
) as Record<SweepVerb, Statement<MovedRow>>

/** The claim, with what the claimant needs to begin read in the same round trip. */
export const claimStatement = <Extra>(extra: string): Statement<MovedRow & Extra> =>
  compile<MovedRow & Extra>('claim', sentence('claim', NEXT, extra))

const parameters = (change: Change): Record<string, unknown> => ({
  endpoint: change.endpoint,
  fence: change.fence,
  lease_seconds: change.leaseSeconds,
  claimant: change.claimant,
  asked: change.asked,
  park: change.park,
  hold_seconds: change.holdSeconds,
  message: change.message && JSON.stringify(change.message),
  message_id: change.message?.messageId,
  artifact: change.artifact?.json,
  artifact_id: change.artifact?.id,
  append: change.artifact?.append,
  last_chunk: change.artifact?.lastChunk,
  detail: change.detail && JSON.stringify(change.detail),
  summary: change.summary,
  cause: change.cause,
  retry_seconds: change.retrySeconds,
  due_seconds: change.dueSeconds,
  result: change.result && JSON.stringify(change.result),
  direct: change.direct,
  max_wait_seconds: change.maxWaitSeconds,
  schema: change.schema && JSON.stringify(change.schema),
  question: change.question,
  through: change.through,
  ttl_seconds: change.ttlSeconds,
  queues: change.queues,
})

const toMoved = (row: MovedRow): Moved => ({
  todo: toTodo(row),
  from: row.from_state,
  formerOwner: row.former_owner,
  ready: row.ready,
  timeout: row.timeout,
  heir: row.heir,
  answerWaits: row.answer_waits ?? false,
})

/** Who should look again after these moves. */
const ringsOf = (verb: Verb, moved: readonly Moved[]): Ring[] => {
  if (moved.length === 0 || !rule(verb).event) return []
  const rings: Ring[] = [{ topic: 'feed', count: moved.length }]
  for (const { todo, ready, heir, answerWaits } of moved) {
    rings.push({ topic: `todo:${todo.id}`, count: 1 })
    if (ready) rings.push({ topic: `queue:${todo.queue}`, count: 1 })
    if (heir && answerWaits) rings.push({ topic: `line:${todo.line}`, count: 1 })
    else if (heir) {
      rings.push({ topic: `todo:${heir}`, count: 1 }, { topic: `queue:${todo.queue}`, count: 1 })
    }
  }
  return rings
}

const transition = async (
  session: Session,
  verb: Verb,
  chosen: Statement<MovedRow>,
  values: Record<string, unknown>,
): Promise<Moved[]> => {
  const moved = (await session.run(chosen, values)).map(toMoved)
  session.ring(ringsOf(verb, moved))
  return moved
}

/**
 * Moves one todo, or says why not: not_found, stale_fence, wrong_state (with the state),
 * unread_messages, duplicate (a message id this todo already has).
 */
export const transitionOne = async (
  session: Session,
  verb: Verb,
  id: string,
  change: Change,
  scope: Scope,
): Promise<Moved> => {
  const moved = await tryTransition(session, verb, id, change)
  return moved ?? Promise.reject(await whyNot(session, verb, id, change, scope))
}

/** As transitionOne, but null where the row does not allow the verb. Callers then try another. */
export const tryTransition = async (
  session: Session,
  verb: Verb,
  id: string,
  change: Change,
): Promise<Moved | null> => {
  if (!isUuid(id)) throw new Refusal('not_found')
  try {
    const values = { ...parameters(change), id }
    return (await transition(session, verb, oneStatements[verb], values))[0] ?? null
  } catch (error) {
    if (isUniqueViolation(error, 'message_once')) throw new Refusal('duplicate')
    // The line was free when it was looked at, and is not any more.
    if (isUniqueViolation(error, 'todos_front')) return null
    throw error
  }
}

/** What a sweep leaves alone: rows that failed before. */
export interface Due {
  limit: number
  except?: readonly string[]
}

/** Moves todos whose time has come; those another process works on are skipped. */
export const transitionDue = (
  session: Session,
  verb: SweepVerb,
  { limit, except }: Due,
  change: Change = {},
): Promise<Moved[]> =>
  transition(session, verb, sweepStatements[verb], { ...parameters(change), limit, except })

const dueStatements = Object.fromEntries(
  SWEEP_VERBS.map((verb) => [verb, statement<{ id: string }>(`due_${verb}`, dueIds(verb))]),
) as Record<SweepVerb, Statement<{ id: string }>>

/** The ids of todos that {@link transitionDue} would move. */
export const readDue = async (
  session: Session,
  verb: SweepVerb,
  { limit, except }: Due,
  change: Change = {},
): Promise<string[]> =>
  (await session.run(dueStatements[verb], { ...parameters(change), limit, except })).map(
    ({ id }) => id,
  )

/** Claims up to `limit` todos of `queues` with a statement of {@link claimStatement}. */
export const transitionClaim = async <Extra>(
  session: Session,
  claim: Statement<MovedRow & Extra>,
  queues: readonly string[],
  limit: number,
  change: Change,
): Promise<(Moved & { extra: Extra })[]> => {
  const rows = await session.run(claim, { ...parameters(change), queues, limit })
  const moved = rows.map((row) => ({ ...toMoved(row), extra: row as Extra }))
  session.ring(ringsOf('claim', moved))
  return moved
}

/** Verbs of whoever is next in a free line, in the order of their right to it. */
const LINE_VERBS = ['resumeLater', 'answerLater', 'unblock'] as const

const lineStatements = LINE_VERBS.map(
  (verb) => [verb, compile(verb, sentence(verb, nextInLine(verb)))] as const,
)

/** Lets the next of this line go on, if the line is free; null where nobody waits or may. */
export const transitionLine = async (session: Session, line: string): Promise<Moved | null> => {
  try {
    for (const [verb, chosen] of lineStatements) {
      const [moved] = await transition(session, verb, chosen, { ...parameters({}), line })
      if (moved) return moved
    }
  } catch (error) {
    // Somebody else has just taken the front.
    if (!isUniqueViolation(error, 'todos_front')) throw error
  }
  return null
}

const stalledStatement = statement<{ line: string }>('lines_stalled', STALLED_LINES)

/** Lines whose front is free although somebody waits in them. */
export const readStalledLines = async (session: Session, limit: number): Promise<string[]> =>
  (await session.run(stalledStatement, { limit })).map(({ line }) => line)

const readStanding = statement<{
  state: State
  owner: string | null
  fence: string
  unread: number
  free: boolean
}>(
  'todo_standing',
  `select t.state, t.owner, t.fence, t.unread, ${FREE} as free
  from todos t where t.id = :id::uuid and ${scopeSql('t')}`,
)

const whyNot = async (
  session: Session,
  verb: Verb,
  id: string,
  change: Change,
  scope: Scope,
): Promise<Refusal> => {
  const [row] = await session.run(readStanding, { id, ...scopeValues(scope) })
  if (!row) return new Refusal('not_found')
  const { by, from, when } = rule(verb)
  const detail = { id, state: row.state }
  const holds = row.owner === change.endpoint && row.fence === change.fence
  const lapsed = row.free && row.state === 'claimed'
  if (by === 'agent' && (!holds || lapsed)) return new Refusal('stale_fence', detail)
  if (!from.includes(row.state)) return new Refusal('wrong_state', detail)
  if (when.includes('readAll') && row.unread > 0) return new Refusal('unread_messages', { id })
  // It would be allowed now: the row moved between the two looks.
  return new Refusal('wrong_state', detail)
}
