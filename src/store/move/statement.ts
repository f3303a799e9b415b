/**
 * The one statement that moves a todo, composed from its verb's row of the lifecycle: a lease
 * phrase picks and locks, `moved` changes the row, and one clause each writes what belongs to it.
 */
import { INTERRUPT_STATES, rule, shownAs, type Verb } from '../../domain/lifecycle.ts'
import { claimingKey } from '../todos/idempotency.ts'
import { TODO_COLUMNS } from '../todos/row.ts'
import { BATCH_ROWS, batchColumns, bindToBatch } from './batch.ts'
import { assignments, landing, readyOf, withAlarm } from './columns.ts'
import { LINE_FREE, READ_NOW, several } from './conditions.ts'
import {
  ADD_ARTIFACT,
  addEvent,
  addMessage,
  closeAttempt,
  ENQUEUE_DELIVERIES,
  keepResult,
  leavesFront,
  OPEN_ATTEMPT,
  openStates,
  PROMOTE_NEXT,
  TIMEOUTS,
  webhooksAgree,
} from './effects.ts'

/** When a failure is tried again; null for what is not one, or was the last. */
const retryAt = (verb: Verb): string =>
  verb === 'fail'
    ? `case when :retry_seconds::double precision is not null and t.attempt < t.max_attempts
      then now() + make_interval(secs => :retry_seconds::double precision) end`
    : 'null::timestamptz'

/** Which messages a verb acknowledges, counted. */
const readNow = (verb: Verb): string =>
  verb === 'acknowledge' || verb === 'complete' ? READ_NOW : '0'

/** May come to the front of a free line from outside it. */
const comesForward = (verb: Verb): boolean => {
  const { from, to } = rule(verb)
  return to === 'pending' && from.some((state) => INTERRUPT_STATES.includes(state))
}

const lineFree = (verb: Verb): string =>
  comesForward(verb)
    ? `t.line, t.lined_at, ${LINE_FREE} as line_was_free`
    : `${LINE_FREE} as line_free`

/** The row as it was before the move, and what will become of it. */
const picked = (verb: Verb, source: string, more = ''): string => `
  select t.id${more}, t.state as from_state, ${landing(rule(verb))} as to_state,
    greatest(clock_timestamp(), t.updated_at) as at, t.ready_reason,
    ${retryAt(verb)} as retry_at, ${readNow(verb)} as read_now,
    ${lineFree(verb)}, ${TIMEOUTS[verb] ?? 'null'} as timeout,
    t.front as former_front, t.owner as former_owner, t.claimant as former_claimant,
    t.attempts_total as former_attempts, t.last_heartbeat_at as former_heartbeat_at,
    t.progress_at as former_progress_at, t.lease_expires_at as former_lease_expires_at,
    t.interrupted_at as former_interrupted_at, t.status_seq as former_status_seq
  ${source}`

/** Of several of one line that come forward at once, the first finds it free and the others busy. */
const inTurn = (verb: Verb, rows: string): string =>
  comesForward(verb)
    ? `
with locked as (${rows}),
picked as (select l.*, l.line_was_free and (l.line is null or l.former_front
    or row_number() over (partition by l.line, l.to_state order by l.lined_at, l.id) = 1) as line_free
  from locked l)`
    : `
with picked as (${rows})`

/** The row as it is from now on. */
const moved = (verb: Verb, more = ''): string => {
  const sets = Object.entries(withAlarm(assignments(verb)))
  return `
  update todos t set ${sets.map(([column, value]) => `${column} = ${value}`).join(',\n    ')}
  from picked p where t.id = p.id and t.id = any(array(select o.id from picked o))
  returning t.*, p.from_state, p.to_state, p.former_owner, p.former_claimant, p.former_attempts,
    p.former_heartbeat_at, p.former_progress_at, p.former_lease_expires_at,
    p.former_interrupted_at, p.former_status_seq, p.former_front, p.timeout,
    ${readyOf(verb)} as ready${more}`
}

/** Who is next in the line, where the verb may have left its front. */
const heir = (verb: Verb): string =>
  leavesFront(verb)
    ? `(select h.id from heir h where h.line = m.line) as "nextInLine",
  coalesce((select h.state <> 'pending' from heir h where h.line = m.line), false) as "answerWaits"`
    : 'null::uuid as "nextInLine", false as "answerWaits"'

/** Holds, or fails the statement with a serialization error, so that it is run again. */
const agreement = (verb: Verb): string =>
  rule(verb).attempt === 'keep'
    ? 'true'
    : `attempts_agree((select count(*) from closed),
  (select count(*) from moved where from_state in (${openStates})))`

/**
 * The whole sentence: `phrase` is what conditions.ts picks by; `extra` is read from the moved rows; one
 * that is `keyed` also claims the key of the send that it serves.
 */
export const moveStatement = (verb: Verb, phrase: string, extra = '', keyed = false): string => {
  const source = phrase.trimStart().startsWith('from') ? phrase : `from todos t ${phrase}`
  return `${inTurn(verb, picked(verb, source))},
moved as (${moved(verb)})${clausesOf(verb)}${keyed ? `,${claimingKey('moved')}` : ''}
${answer(verb, extra)}`
}

/** Of as many todos as are given, each with what its holder brings (batch.ts). */
export const batchStatement = (verb: Verb): string => {
  const rows = bindToBatch('g', picked(verb, several(verb), `, ${batchColumns('g')}`))
  return `
with ${BATCH_ROWS},
picked as (${rows}),
moved as (${bindToBatch('p', moved(verb, `, ${batchColumns('p')}`))})${bindToBatch('m', clausesOf(verb))}
${answer(verb)}`
}

const clausesOf = (verb: Verb): string =>
  [
    closeAttempt(verb),
    rule(verb).attempt === 'open' ? OPEN_ATTEMPT : '',
    addMessage(verb),
    leavesFront(verb) ? PROMOTE_NEXT : '',
    verb === 'artifact' ? ADD_ARTIFACT : '',
    keepResult(verb),
    rule(verb).event ? addEvent(verb) : '',
    shownAs(verb) ? ENQUEUE_DELIVERIES : '',
  ].join('')

const answer = (verb: Verb, extra = ''): string => `
select ${TODO_COLUMNS('m')}, m.from_state as "from", m.former_owner as "formerOwner", m.ready, m.timeout,
  m.push_version > 0 as "hasWebhooks", ${heir(verb)}${extra}
from moved m
where ${agreement(verb)}${shownAs(verb) ? ` and ${webhooksAgree}` : ''}`
