/**
 * The one statement that moves a todo, composed from its verb's row of the lifecycle (domain/lifecycle.ts)
 * and its row here (verbs.ts): `picked` picks and locks, `moved` changes the row, and one clause each
 * writes what belongs to it.
 */
import { PAGE_BYTES } from '../../domain/budget.ts'
import { INTERRUPT_STATES, rule, shownAs, type Verb } from '../../domain/lifecycle.ts'
import { type Sql, type SqlPart, sql } from '../postgres/sql.ts'
import { TODO_COLUMNS } from '../todos/row.ts'
import { HELD_BYTES } from '../todos/size.ts'
import { BATCH_ROWS, batchColumns, bindToBatch } from './change.ts'
import { assignments, landing, readyOf } from './columns.ts'
import { GIVEN_BACK, LINE_FREE, NEVER_HEARD, UNHEARD } from './conditions.ts'
import { effects, leavesFront, webhooksAgree } from './effects.ts'
import { several } from './pick.ts'
import { openStates, readNow, verbSql } from './verbs.ts'

/** May come to the front of a free line from outside it. */
const comesForward = (verb: Verb): boolean => {
  const { from, to } = rule(verb)
  return to === 'pending' && from.some((state) => INTERRUPT_STATES.includes(state))
}

/** Whether the holder of the attempt that it ends was heard of matters to the verb. */
const minds = (verb: Verb): boolean => rule(verb).refund === 'never started'

/** The row as it was before the move, and what will become of it. */
const picked = (verb: Verb, source: SqlPart, more = ''): Sql => {
  const { retryAt = 'null::timestamptz', timeout = 'null' } = verbSql(verb)
  const lineFree = comesForward(verb)
    ? `t.line, t.lined_at, ${LINE_FREE} as line_was_free`
    : `${LINE_FREE} as line_free`
  return sql`
  select t.id${more}, t.state as from_state, ${landing(rule(verb))} as to_state,
    greatest(clock_timestamp(), t.updated_at) as at, t.ready_reason,
    ${retryAt} as retry_at, ${readNow(verb)} as read_now, ${lineFree}, ${timeout} as timeout,
    t.front as former_front, t.owner as former_owner, t.claimant as former_claimant,
    t.attempts_total as former_attempts, t.last_heartbeat_at as former_heartbeat_at,
    t.progress_at as former_progress_at, t.lease_expires_at as former_lease_expires_at,
    t.interrupted_at as former_interrupted_at, t.status_seq as former_status_seq${
      minds(verb)
        ? `,\n    ${NEVER_HEARD} as never_started, ${UNHEARD} as unheard, ${GIVEN_BACK} as given_back`
        : ''
    }
  ${source}`
}

/**
 * A claim takes the first whatever its size, and of the others those that fit beside it. What it has
 * locked and leaves is free again when the statement ends.
 */
const withinBudget = (rows: Sql): Sql => sql`locked as (${rows}),
picked as (select l.* from (
    select l.*, sum(l.bytes) over (rows unbounded preceding) as upto from locked l) l
  where l.upto <= ${PAGE_BYTES} or l.upto = l.bytes)`

/** Of several of one line that come forward at once, the first finds it free and the others busy. */
const inTurn = (verb: Verb, rows: Sql): Sql =>
  comesForward(verb)
    ? sql`locked as (${rows}),
picked as (select l.*, l.line_was_free and (l.line is null or l.former_front
    or row_number() over (partition by l.line, l.to_state order by l.lined_at, l.id) = 1) as line_free
  from locked l)`
    : sql`picked as (${rows})`

/** The row as it is from now on. */
const moved = (verb: Verb, more = ''): Sql => sql`
  update todos t set ${assignments(verb)}
  from picked p where t.id = p.id and t.id = any(array(select o.id from picked o))
  returning t.*, p.from_state, p.to_state, p.former_owner, p.former_claimant, p.former_attempts,
    p.former_heartbeat_at, p.former_progress_at, p.former_lease_expires_at,
    p.former_interrupted_at, p.former_status_seq, p.former_front, p.timeout,
    ${readyOf(verb)} as ready${minds(verb) ? ', p.never_started, p.unheard' : ''}${more}`

/** Who is next in the line, where the verb may have left its front. */
const nextInLine = (verb: Verb): string =>
  leavesFront(verb)
    ? `(select n.id from next_in_line n where n.line = m.line) as "nextInLine",
  coalesce((select n.state <> 'pending' from next_in_line n where n.line = m.line), false)
    as "answerWaits"`
    : 'null::uuid as "nextInLine", false as "answerWaits"'

/** Holds, or fails the statement with a serialization error, so that it is run again. */
const attemptsAgree = (verb: Verb): string =>
  rule(verb).attempt === 'keep'
    ? 'true'
    : `attempts_agree((select count(*) from closed),
  (select count(*) from moved where from_state in (${openStates})))`

const answer = (verb: Verb, extra: SqlPart = ''): Sql => sql`
select ${TODO_COLUMNS('m')}, m.from_state as "from", m.former_owner as "formerOwner", m.ready, m.timeout,
  m.push_version > 0 as "hasWebhooks", ${nextInLine(verb)}${
    minds(verb) ? ', m.never_started as "neverStarted", m.unheard' : ''
  }${extra}
from moved m
where ${attemptsAgree(verb)}${shownAs(verb) ? ` and ${webhooksAgree}` : ''}`

/** `source` is what pick.ts picks by; `extra` is read from the moved rows. */
export const moveStatement = (verb: Verb, source: SqlPart, extra: SqlPart = ''): Sql => sql`
with ${inTurn(verb, picked(verb, source))},
moved as (${moved(verb)})${effects(verb)}${answer(verb, extra)}`

/**
 * The same for a batch, each todo with what its holder brings: a clause that was written for one reads
 * its parameters from the batch's row instead, wherever that row has come to by then.
 */
export const batchStatement = (verb: Verb): Sql => sql`
with ${BATCH_ROWS},
picked as (${bindToBatch('b', picked(verb, several(verb), `, ${batchColumns('b')}`))}),
moved as (${bindToBatch('p', moved(verb, `, ${batchColumns('p')}`))})${bindToBatch('m', effects(verb))}${answer(verb)}`

/** A claim of several; `extra` may read `large` of each, and `found` is how many there were to claim. */
export const claimingStatement = (source: SqlPart, extra: SqlPart): Sql => sql`
with ${withinBudget(picked('claim', source, `, ${HELD_BYTES('t')}::float8 as bytes`))},
moved as (${moved('claim', `, p.bytes > ${PAGE_BYTES} as large`)})${effects('claim')}${answer(
  'claim',
  sql`, m.large, (select count(*) from locked)::int as found${extra}`,
)}`
