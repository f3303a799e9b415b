/**
 * What each verb writes beside what its row of the lifecycle says: one row per verb, so that what a
 * verb does to the database is read in one place. `t` is the todo as it is locked, `p` the row that was
 * picked of it, `m` the todo as it is after the move.
 */
import { HOLDS } from '../../domain/budget.ts'
import { HOLDER_LOST, OPEN_STATES, rule, type Verb } from '../../domain/lifecycle.ts'
import { SPEND_KEYS_KEPT } from '../../domain/spend.ts'
import { stateList, wireMoment } from '../postgres/literals.ts'
import { $, type Sql, type SqlPart, sql } from '../postgres/sql.ts'
import { HELD_BYTES, HELD_DOCUMENTS, MAY_HOLD } from '../todos/size.ts'
import { COME_DUE_AT, JOIN_HOLDS, READ_NOW } from './conditions.ts'
import { OUT_OF_TIME, TIMED_OUT } from './timeouts.ts'

/** Each column that is set, and to what. */
export type Columns = Readonly<Record<string, SqlPart>>

/**
 * How a statement of a verb is kept. A prepared one costs memory in each connection that has used it; one
 * that is not is planned at each run (a few milliseconds), which rare ones can afford.
 */
type Kept = 'prepared' | 'planned each time'

export interface VerbSql {
  /** Its own columns, over those that follow from its row of the lifecycle. */
  set?: Columns
  /** It may carry a message, stored as the client's or the agent's by who moves. A client's is owed. */
  message?: {
    /** The message answers the open question. */
    answers?: true
    /** Whether it may be a credential, and so is shown to nobody else. */
    secret?: SqlPart
    /** What the answer to it must look like. */
    schema?: SqlPart
  }
  /** It brings an artifact. */
  artifact?: true
  /** Its event may carry metadata, which counts as a document. */
  metadata?: true
  /** It acknowledges the messages up to `through`. */
  acknowledges?: true
  /** When a failure is tried again; null for the last. */
  retryAt?: Sql
  /** Kept as the todo's result, where it is not null. */
  result?: SqlPart
  /** The result is a report of a bounded length, for which there is always room. */
  reports?: true
  /** Whether the result was the agent's direct answer, a message without a task. */
  direct?: Sql
  /** Which limit on its time was passed. */
  timeout?: string
  /** Of its event; the caller's own by default. */
  detail?: SqlPart
  /** What its ready hook says, where it says something however the todo landed. */
  ready?: string
  /** Moved many at a time, as they come due: in the order of an index, and among which todos. */
  sweep?: { order?: string; among?: Sql; kept: Kept }
  /** The attempt that stays open is marked with what has become of its holder. */
  marks?: string
  /** Until when its holder means to wait for the answer. */
  waitsUntil?: Sql
  /** Many holders' calls share one statement. */
  batched?: true
  /** It spends for all above the todo as well. */
  spends?: true
  /** The next of a conversation's line is moved by it. */
  line?: true
  /** Its statement for one todo; planned each time unless it says otherwise. */
  one?: Kept
}

const CREDENTIAL_ASKED = "m.from_state = 'auth-required'"
const ANSWER = { answers: true, secret: CREDENTIAL_ASKED } as const

/** The question is over, and the todo goes on in its turn: the line's answers come in this order. */
const STANDS_IN_LINE = { answered_at: 'coalesce(t.answered_at, p.at)' }

/** The newest keys are kept, for calls that are made again. */
const SPENDS = {
  spent: sql`spent_more(t.spent, ${$.spend}::jsonb)`,
  spend_keys: sql`case when ${$.spend_key}::text is null then t.spend_keys
    else (array_prepend(${$.spend_key}::text, t.spend_keys))[1:${SPEND_KEYS_KEPT}] end`,
}

/** After the deadline of a request for authorization a message may be the credential all the same. */
const LATE_CREDENTIAL = `coalesce((select e.verb = 'interrupt' and e.to_state = 'auth-required'
    from events e where e.todo_id = m.id
      and e.verb in ('interrupt', 'resume', 'answer', 'resumeLater', 'answerLater')
    order by e.seq desc limit 1), false)`

/** Only for whoever holds the row while it waits: parked, it has no owner. */
const unlessParked = (column: string): Sql =>
  sql`case when ${$.park}::boolean then null else t.${column} end`

/** However often it is extended, a wait is never longer than the operator allows. */
const HELD_UNTIL = sql`least(
        now() + make_interval(secs => ${$.hold_seconds}::double precision),
        t.interrupted_at + make_interval(secs => ${$.max_wait_seconds}::double precision))`

/** The children that have ended by now, of which the parent is told. */
const SEEN = `array(select c.id from todos c
        where c.id = any(t.join_ids) and c.finished_at is not null)`

/** The error in the event of a row that the server gave up on; null where the row goes on. */
const errorCode = (code: string): string => `case when m.to_state = 'failed'
      then json_build_object('error', json_build_object('code', '${code}')) end`

/** The same with the todo's result, which says it in a sentence. */
const gaveUp = (code: string, detail: string) => ({
  result: `case when m.to_state = 'failed' then json_build_object('error', '${code}',
    'detail', '${detail}') end`,
  detail: errorCode(code),
})

/** A question that nobody answered is kept once more, in the result. */
const WITH_QUESTION = `${HELD_BYTES('t')} + coalesce((select coalesce(q.bytes,
  octet_length(q.message::text)) from messages q where q.todo_id = t.id and q.seq = t.status_seq), 0)`

const REVOKED = gaveUp('endpoint_revoked', 'the endpoint of its holder was revoked')

const outOfTime = (timeout: string) => ({
  timeout,
  result: `case when m.to_state = 'failed' then json_build_object('error', m.timeout,
    'detail', 'a limit on its time was passed') end`,
  detail: `json_build_object('error', json_build_object('code', m.timeout))`,
})

const VERB_SQL = {
  claim: {},
  heartbeat: { set: { last_heartbeat_at: 'p.at' }, one: 'prepared', batched: true },
  hold: {
    set: { last_heartbeat_at: 'p.at' },
    waitsUntil: HELD_UNTIL,
    one: 'prepared',
  },
  progress: { metadata: true, one: 'prepared', batched: true },
  say: { message: {}, one: 'prepared', batched: true },
  artifact: { artifact: true, one: 'prepared', batched: true },
  spend: { set: SPENDS, spends: true, one: 'prepared' },
  exhaust: {
    set: SPENDS,
    spends: true,
    result: sql`${$.result}::json`,
  },
  fork: { one: 'prepared' },
  adopt: {
    // Whoever still waits for the dead child waits for its retry.
    set: {
      join_ids: sql`case when t.join_until is null then t.join_ids
        else array_replace(t.join_ids, ${$.retry_of}::uuid, ${$.retry_by}::uuid) end`,
    },
  },
  join: {
    set: {
      due_at: 'null',
      join_until: sql`${$.join_until}`,
      join_ids: sql`${$.children}::uuid[]`,
      join_timeout_at: sql`(now() + make_interval(secs => ${$.join_seconds}::double precision))`,
      join_cancels: sql`${$.join_cancels}::boolean`,
    },
    one: 'prepared',
  },
  interrupt: {
    set: {
      owner: unlessParked('owner'),
      lease_expires_at: unlessParked('lease_expires_at'),
      lease_probe_at: unlessParked('lease_probe_at'),
    },
    message: { schema: sql`${$.schema}::json` },
    one: 'prepared',
  },
  resume: { message: ANSWER, one: 'prepared' },
  answer: { message: ANSWER, one: 'prepared' },
  message: { message: { secret: LATE_CREDENTIAL }, one: 'prepared' },
  defer: { set: STANDS_IN_LINE, message: ANSWER },
  withdraw: { message: {} },
  withdrawLater: { set: STANDS_IN_LINE, message: {} },
  // A sign of its holder, which no other column of it is.
  acknowledge: { set: { last_heartbeat_at: 'p.at' }, acknowledges: true, one: 'prepared' },
  complete: {
    message: {},
    acknowledges: true,
    result: sql`${$.result}::json`,
    direct: sql`coalesce(${$.direct}::boolean, false)`,
    one: 'prepared',
    batched: true,
  },
  fail: {
    message: {},
    retryAt: sql`case when ${$.retry_seconds}::double precision is not null
      and t.attempt < t.max_attempts
      then now() + make_interval(secs => ${$.retry_seconds}::double precision) end`,
    result: sql`${$.result}::json`,
    reports: true,
    detail: sql`(case when m.next_retry_at is null then ${$.detail}::jsonb
      else ${$.detail}::jsonb || jsonb_build_object('retryAt', ${wireMoment('m.next_retry_at')}) end)::json`,
    one: 'prepared',
  },
  release: { one: 'prepared' },
  // Nothing but what it owes.
  reject: { message: {}, result: 'null::json' },
  cancelHeld: { message: {} },
  cancel: {
    // A cascade; children stand in no line.
    sweep: { among: sql`t.parent_id = any(${$.parents}::uuid[])`, kept: 'planned each time' },
    one: 'prepared',
  },
  reapLease: {
    ...gaveUp('lease_expired', 'the holder of the last attempt stopped heartbeating'),
    sweep: { order: 't.lease_probe_at', kept: 'planned each time' }, // todos_lease
  },
  reapInterrupt: {
    detail: errorCode('interrupt_expired'),
    // Whoever claims it next reads the question that nobody answered.
    result: `json_strip_nulls(json_build_object(
    'error', case when m.to_state = 'failed' then 'interrupt_expired' end,
    'detail', case when m.to_state = 'failed'
      then 'nobody answered in time, on the last attempt allowed' end,
    'interrupt', json_build_object('state', m.from_state,
      'interruptedAt', ${wireMoment('m.former_interrupted_at')},
      'message', (select q.message from messages q
        where q.todo_id = m.id and q.seq = m.former_status_seq))))`,
    set: { document_bytes: WITH_QUESTION },
    sweep: { order: 't.interrupted_at', kept: 'planned each time' }, // todos_interrupt
  },
  timeOut: {
    ...outOfTime(TIMED_OUT),
    sweep: { order: 't.alarm_at', kept: 'planned each time' }, // todos_alarm
  },
  expire: {
    ...outOfTime(OUT_OF_TIME),
    sweep: { order: 't.alarm_at', kept: 'planned each time' }, // todos_alarm
  },
  revoke: { ...REVOKED, sweep: { kept: 'planned each time' } },
  strand: { ...REVOKED, sweep: { kept: 'planned each time' } },
  park: {
    set: { interrupt_held_until: 'null', wait_probe_at: 'null' },
    marks: HOLDER_LOST,
    sweep: { order: 't.wait_probe_at', kept: 'planned each time' }, // todos_wait
  },
  enterLine: {
    set: { line: 't.later_line', later_line: 'null' },
    sweep: { order: 't.not_before', kept: 'prepared' }, // todos_later
  },
  // Its caller's detail, if any, is that of the verb which left the front.
  unblock: {
    set: { due_at: 'now()', front: 'true' },
    detail: 'null::json',
    ready: `'unblocked'`,
    line: true,
  },
  stepBack: { set: { due_at: 'null', front: 'false', ready_reason: 'null' } },
  resumeLater: { line: true },
  answerLater: { line: true },
  joined: {
    set: {
      due_at: 'now()',
      join_until: 'null',
      join_seen: SEEN,
      join_timeout_at: 'null',
    },
    ready: `'joined'`,
    one: 'prepared',
  },
  joinTimeOut: {
    set: {
      due_at: 'now()',
      join_until: 'null',
      join_seen: SEEN,
      // Where its children have ended all the same, it has waited for them long enough.
      join_timeout_at: `case when not (${JOIN_HOLDS}) then t.join_timeout_at end`,
    },
    ready: `case when t.join_timeout_at is null then 'joined' else 'join_timeout' end`,
    sweep: { order: 't.alarm_at', kept: 'prepared' }, // todos_alarm
  },
  comeDue: {
    set: { ready_reason: 'null' },
    ready: 'p.ready_reason',
    sweep: { order: COME_DUE_AT, kept: 'prepared' }, // todos_come_due
  },
} as const satisfies Record<Verb, VerbSql>

/**
 * A todo that ends otherwise than done keeps what it owes: how many messages nobody has read stands in
 * its result, and in the event that tells of the end. The JSON is taken apart and put together as text,
 * so that no number in it is written anew.
 */
const withDebts = (document: SqlPart): Sql =>
  sql`case when m.unread > 0 and m.finished_at is not null then (
      select json_object_agg(o.key, o.value) from (
        select d.key, d.value from json_each(coalesce(${document}, '{}'::json)) d
        union all select 'owed', to_json(m.unread)) o)
    else ${document} end`

/** May end the todo as failed or rejected. A cancel is a client's, and what it has said lapses with it. */
const mayOwe = (verb: Verb): boolean => {
  const { to, atCap } = rule(verb)
  return [to, atCap].some((state) => state === 'failed' || state === 'rejected')
}

/** What is kept as the todo's result. */
export const resultOf = (verb: Verb): SqlPart | undefined => {
  const { result } = verbSql(verb)
  return result !== undefined && mayOwe(verb) ? withDebts(result) : result
}

/** Of the verb's event. */
export const detailOf = (verb: Verb): SqlPart => {
  const { detail = sql`${$.detail}::json` } = verbSql(verb)
  return mayOwe(verb) ? withDebts(detail) : detail
}

type VerbsWith<Member extends keyof VerbSql> = {
  [V in Verb]: (typeof VERB_SQL)[V] extends Record<Member, unknown> ? V : never
}[Verb]

export const verbSql = (verb: Verb): VerbSql => VERB_SQL[verb]

const verbsWith = <Member extends keyof VerbSql>(member: Member): readonly VerbsWith<Member>[] =>
  (Object.keys(VERB_SQL) as Verb[]).filter(
    (verb): verb is VerbsWith<Member> => verbSql(verb)[member] !== undefined,
  )

/** Verbs of holders whose calls share statements. None brings a todo to the front of a line. */
export type BatchedVerb = VerbsWith<'batched'>
export const BATCHED = verbsWith('batched')

export const isBatched = (verb: Verb): verb is BatchedVerb => verbSql(verb).batched === true

export type SweepVerb = VerbsWith<'sweep'>
export const SWEEP_VERBS = verbsWith('sweep')

/** Verbs of whoever is next in a free line, in the order of their right to it: answers first. */
export const LINE_VERBS: readonly VerbsWith<'line'>[] = ['resumeLater', 'answerLater', 'unblock']

/** It may bring a document, for which there must be room in the todo. */
export const bringsDocument = (verb: Verb): boolean => {
  const { message, artifact, metadata } = verbSql(verb)
  return message !== undefined || artifact === true || metadata === true
}

/** Answers, and what ends the holder's attempt, may use the reserve. */
export const usesReserve = (verb: Verb): boolean => {
  const { by, attempt } = rule(verb)
  const ends = by === 'agent' && attempt !== 'keep' && attempt !== 'open'
  return ends || verbSql(verb).message?.answers === true
}

/** The todo holds no more than it may once it also holds what is brought. */
export const hasRoom = (verb: Verb): Sql | string => {
  if (!bringsDocument(verb)) return 'true'
  const brought = verbSql(verb).reports
    ? sql`(${$.bytes}::int - ${$.result_bytes}::int)`
    : sql`${$.bytes}::int`
  const fits = (documents: string, bytes: string): Sql =>
    sql`(${HELD_DOCUMENTS('t')} < ${documents} and ${HELD_BYTES('t')} + ${brought} <= ${bytes})`
  const most = (of: keyof typeof HOLDS): string =>
    `${MAY_HOLD(of)}${usesReserve(verb) ? ` + ${HOLDS[of].reserve}` : ''}`
  // Within what no setting goes below, nobody has to look the settings up.
  return sql`(coalesce(${brought}, 0) = 0
    or ${fits(String(HOLDS.documents.min), String(HOLDS.bytes.min))}
    or ${fits(most('documents'), most('bytes'))})`
}

/** What messages a verb acknowledges, counted. */
export const readNow = (verb: Verb): SqlPart => (verbSql(verb).acknowledges ? READ_NOW : '0')

/** States in which an attempt is open. */
export const openStates = stateList(OPEN_STATES)
