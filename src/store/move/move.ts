/**
 * Moving todos: one, a batch, those whose time has come, a claim, the next of a line. Each runs the
 * statement of statement.ts over the rows that pick.ts picks; there is no other way to change a todo.
 * Everything is decided by the row as it is once locked, and when no row came back, one look says why.
 */

import { isUuid } from '../../base/uuid.ts'
import { HOLDS } from '../../domain/budget.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import {
  HELD_STATES,
  type ReadyReason,
  rule,
  type State,
  shownAs,
  VERB_NAMES,
  type Verb,
} from '../../domain/lifecycle.ts'
import type { Todo } from '../../domain/todo.ts'
import {
  type Database,
  isUniqueViolation,
  type Session,
  type Statement,
  statement,
  type Wake,
} from '../postgres/database.ts'
import { $, type Sql, type SqlPart, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'
import { KEY_ONCE } from '../todos/idempotency.ts'
import { scopeSql, scopeValues } from '../todos/scope.ts'
import { HELD_BYTES, HELD_DOCUMENTS, MAY_HOLD } from '../todos/size.ts'
import { topics } from '../wake/topics.ts'
import { type BatchItem, batchValues, type Change, parameters } from './change.ts'
import { FREE, READ_ALL } from './conditions.ts'
import {
  ANSWER_WAITS,
  due,
  dueIds,
  frontOf,
  MAX_CLAIM,
  MAY_USE,
  nextClaimable,
  nextInLine,
  one,
  STALLED_LINES,
} from './pick.ts'
import { batchStatement, claimingStatement, moveStatement } from './statement.ts'
import {
  BATCHED,
  type BatchedVerb,
  bringsDocument,
  LINE_VERBS,
  SWEEP_VERBS,
  type SweepVerb,
  usesReserve,
  verbSql,
} from './verbs.ts'

/** A todo as it is after the move, and what it was before. */
export interface Moved {
  todo: Todo
  from: State
  formerOwner: string | null
  ready: ReadyReason | null
  /** Which limit was passed, for the sweeps of timeouts. */
  timeout: string | null
  /** The attempt that it ended was never heard of after its claim, and its lease ran out. */
  neverStarted: boolean
  /** Or nothing came of its holder once its question had been answered. */
  unheard: boolean
  /** Who is next in the line whose front it left. */
  nextInLine: string | null
  /** That one has an answer, and is resumed by a statement of its own. */
  answerWaits: boolean
  hasWebhooks: boolean
}

/** The todo's own columns, and beside them what the statement answers of the move. */
type MovedRow = Todo &
  Omit<Moved, 'todo' | 'neverStarted' | 'unheard'> & { neverStarted?: boolean; unheard?: boolean }

type Way = 'one' | 'due' | 'batch' | 'line'

/** One statement for each of these verbs, by the way it picks its rows. */
const compileAll = <V extends Verb>(
  verbs: readonly V[],
  way: Way,
  textOf: (verb: V) => Sql,
  isPrepared: (verb: V) => boolean = () => true,
): Readonly<Record<V, Statement<MovedRow>>> =>
  Object.fromEntries(
    verbs.map((verb) => {
      const label = way === 'one' ? `todo_${verb}` : `todo_${verb}_${way}`
      const compile = isPrepared(verb) ? statement : plannedEachTime
      return [verb, compile<MovedRow>(label, textOf(verb))]
    }),
  ) as Record<V, Statement<MovedRow>>

const oneStatements = compileAll(
  VERB_NAMES,
  'one',
  (verb) => moveStatement(verb, one(verb)),
  (verb) => verbSql(verb).one === 'prepared',
)

const dueStatements = compileAll(
  SWEEP_VERBS,
  'due',
  (verb) => moveStatement(verb, due(verb)),
  (verb) => verbSql(verb).sweep?.kept === 'prepared',
)

const batchStatements = compileAll(BATCHED, 'batch', batchStatement)

const lineStatements = compileAll(LINE_VERBS, 'line', (verb) =>
  moveStatement(verb, nextInLine(verb)),
)

const toMoved = (row: MovedRow): Moved => ({
  todo: row,
  from: row.from,
  formerOwner: row.formerOwner,
  ready: row.ready,
  timeout: row.timeout,
  neverStarted: row.neverStarted ?? false,
  unheard: row.unheard ?? false,
  nextInLine: row.nextInLine,
  answerWaits: row.answerWaits,
  hasWebhooks: row.hasWebhooks,
})

/** A slot came free under a limit on what runs at once: the holder ended or asked, or lost its todo. */
const freedSlot = ({ todo, from, formerOwner }: Moved): boolean =>
  HELD_STATES.includes(from) && (!HELD_STATES.includes(todo.state) || todo.owner !== formerOwner)

/**
 * Lines in which somebody was put behind the front. It may have left in the very same statement,
 * which saw no heir in a todo that came only then.
 */
const linesBehind = (verb: Verb, moved: readonly Moved[]): Set<string> => {
  if (rule(verb).to === 'same') return new Set()
  const behind = moved.filter(({ todo }) => todo.state === 'pending' && !todo.front)
  return new Set(behind.flatMap(({ todo }) => todo.line ?? []))
}

/** Who should look again after these moves. */
const wakesOf = (verb: Verb, moved: readonly Moved[]): Wake[] => {
  if (moved.length === 0 || !rule(verb).event) return []
  const counts = new Map<string, number>()
  const wake = (topic: string): void => void counts.set(topic, (counts.get(topic) ?? 0) + 1)
  if (shownAs(verb) && moved.some(({ hasWebhooks }) => hasWebhooks)) wake(topics.deliveries)
  for (const line of linesBehind(verb, moved)) wake(topics.line(line))
  for (const one of moved) {
    const { todo, ready, nextInLine, answerWaits } = one
    wake(topics.todo(todo.id))
    if (todo.finishedAt || todo.interruptedAt) wake(topics.settled(todo.id))
    if (freedSlot(one)) {
      wake(topics.slots(todo.queue))
      if (one.formerOwner) wake(topics.slots(one.formerOwner))
    }
    if (ready) wake(topics.queue(todo.queue))
    if (todo.parentId && todo.finishedAt) wake(topics.parent(todo.parentId))
    if (nextInLine && todo.line && answerWaits) wake(topics.line(todo.line))
    else if (nextInLine) {
      wake(topics.todo(nextInLine))
      wake(topics.queue(todo.queue))
    }
  }
  return [
    // Whoever commits sees to the positions of its own events.
    { topic: topics.feed, count: moved.length, only: 'here' },
    ...[...counts].map(([topic, count]) => ({ topic, count })),
  ]
}

const transition = async (
  session: Session,
  verb: Verb,
  chosen: Statement<MovedRow>,
  values: Record<string, unknown>,
): Promise<Moved[]> => {
  const moved = (await session.run(chosen, values)).map(toMoved)
  session.wake(wakesOf(verb, moved))
  return moved
}

/**
 * Moves one todo, or says why not: not_found, stale_fence, wrong_state (with the state),
 * unread_messages, duplicate (a message, or a chunk's key, that this todo already has). Where the row
 * has come to allow a holder's verb by the time we look, the verb is tried once more.
 */
export const transitionOne = async (
  session: Session,
  verb: Verb,
  id: string,
  change: Change,
  scope: Scope,
): Promise<Moved> => {
  const moved = await tryTransition(session, verb, id, change)
  if (moved) return moved
  const { refusal, isOver } = await whyNot(session, verb, id, change, scope)
  const late = isOver ? await tryTransition(session, verb, id, change) : null
  return late ?? Promise.reject(refusal)
}

/** What a todo has once: a message of an id, an artifact's chunk of a key, a send of a key. */
const ONCE = ['message_once', 'artifact_once', KEY_ONCE]

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
    if (ONCE.some((constraint) => isUniqueViolation(error, constraint))) {
      throw new Refusal('duplicate')
    }
    // The line was free when it was looked at, and is not any more.
    if (isUniqueViolation(error, 'todos_front')) return null
    throw error
  }
}

/**
 * Moves many todos, each by what is brought to it; undefined where one did not allow the verb, or
 * was named twice: its caller tries it alone, and hears why.
 */
export const transitionMany = async (
  session: Session,
  verb: BatchedVerb,
  all: readonly BatchItem[],
): Promise<(Moved | undefined)[]> => {
  const once = new Map(all.filter(({ id }) => isUuid(id)).map((item) => [item.id, item]))
  const moved = await transition(
    session,
    verb,
    batchStatements[verb],
    batchValues([...once.values()]),
  )
  const byId = new Map(moved.map((one) => [one.todo.id, one]))
  return all.map((item) => (once.get(item.id) === item ? byId.get(item.id) : undefined))
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
  transition(session, verb, dueStatements[verb], { ...parameters(change), limit, except })

const dueIdStatements = Object.fromEntries(
  SWEEP_VERBS.map((verb) => [
    verb,
    plannedEachTime<{ id: string }>(`todo_${verb}_due_ids`, dueIds(verb)),
  ]),
) as Record<SweepVerb, Statement<{ id: string }>>

/** The ids of todos that {@link transitionDue} would move. */
export const readDue = async (
  session: Session,
  verb: SweepVerb,
  { limit, except }: Due,
  change: Change = {},
): Promise<string[]> =>
  (await session.run(dueIdStatements[verb], { ...parameters(change), limit, except })).map(
    ({ id }) => id,
  )

type ClaimedRow = MovedRow & { found: number }

/** Claims that also read `extra` of each claimed todo `m`, so that they take one round trip. */
export interface ClaimStatements<Extra> {
  any: Statement<ClaimedRow & Extra>
  /** Where the claimant says what it has. */
  byEffects: Statement<ClaimedRow & Extra>
}

export const claimStatements = <Extra>(extra: SqlPart): ClaimStatements<Extra> => ({
  any: statement('todo_claim', claimingStatement(nextClaimable(), extra)),
  byEffects: statement('todo_claim_by_effects', claimingStatement(nextClaimable(MAY_USE), extra)),
})

/**
 * Claims up to `limit` todos of `queues`, MAX_CLAIM at most, as far as their documents fit into one claim;
 * may there be more?
 */
export const transitionClaim = async <Extra>(
  session: Session,
  claims: ClaimStatements<Extra>,
  queues: readonly string[],
  limit: number,
  change: Change,
): Promise<{ moved: (Moved & { extra: Extra })[]; more: boolean }> => {
  const most = Math.min(limit, MAX_CLAIM)
  const claim = change.effects ? claims.byEffects : claims.any
  const rows = await session.run(claim, { ...parameters(change), queues, limit: most })
  const moved = rows.map((row) => ({ ...toMoved(row), extra: row as Extra }))
  session.wake(wakesOf('claim', moved))
  const left = (rows[0]?.found ?? 0) - moved.length
  // Others that looked in that moment found them locked, and wait.
  if (left > 0) session.wake(queues.map((queue) => ({ topic: topics.queue(queue), count: left })))
  return { moved, more: moved.length >= most || left > 0 }
}

/** Lets the next of this line go on, if the line is free; null where nobody waits or may. */
export const transitionLine = async (session: Session, line: string): Promise<Moved | null> => {
  try {
    for (const verb of LINE_VERBS) {
      const [moved] = await transition(session, verb, lineStatements[verb], {
        ...parameters({}),
        line,
      })
      if (moved) return moved
    }
  } catch (error) {
    // Somebody else has just taken the front.
    if (!isUniqueViolation(error, 'todos_front')) throw error
  }
  return null
}

const backStatement = plannedEachTime<MovedRow>(
  'todo_stepBack_front',
  moveStatement('stepBack', frontOf('stepBack')),
)

/** Frees a line whose front nobody has claimed; false where somebody has, or it may not be moved. */
export const freeLine = async (session: Session, line: string): Promise<boolean> =>
  (await transition(session, 'stepBack', backStatement, { ...parameters({}), line })).length > 0

const overtakenStatement = plannedEachTime<MovedRow>(
  'todo_stepBack_overtaken',
  moveStatement('stepBack', frontOf('stepBack', ANSWER_WAITS)),
)

/** Lets an answer that waits go before a front that nobody has claimed; null where none waits. */
export const overtake = (database: Database, line: string): Promise<Moved | null> =>
  database.transaction(async (session) => {
    const values = { ...parameters({}), line }
    const back = await transition(session, 'stepBack', overtakenStatement, values)
    return back.length > 0 ? transitionLine(session, line) : null
  })

const stalledStatement = statement<{ line: string }>('lines_stalled', STALLED_LINES)

/** Lines whose front is free although somebody waits in them. */
export const readStalledLines = async (
  session: Session,
  { limit, except }: Due,
): Promise<string[]> =>
  (await session.run(stalledStatement, { limit, except })).map(({ line }) => line)

interface Standing {
  state: State
  owner: string | null
  fence: string
  readAll: boolean
  free: boolean
  documents: number
  bytes: number
  may_hold_documents: number
  may_hold_bytes: number
}

const readStanding = statement<Standing>(
  'todo_standing',
  sql`select t.state, t.owner, t.fence, ${READ_ALL} as "readAll", ${FREE} as free,
    ${HELD_DOCUMENTS('t')} as documents, ${HELD_BYTES('t')}::float8 as bytes,
    ${MAY_HOLD('documents')}::float8 as may_hold_documents,
    ${MAY_HOLD('bytes')}::float8 as may_hold_bytes
  from todos t where t.id = ${$.id}::uuid and ${scopeSql('t')}`,
)

interface Obstacle {
  refusal: Refusal
  /** Nothing stands in the way any more: the row moved between the two looks. */
  isOver: boolean
}

/** Why `verb` did not move this todo. */
export const whyNot = async (
  session: Session,
  verb: Verb,
  id: string,
  change: Change,
  scope: Scope,
): Promise<Obstacle> => {
  const because = (refusal: Refusal): Obstacle => ({ refusal, isOver: false })
  const values = { id, through: change.through, ...scopeValues(scope) }
  const [row] = await session.run(readStanding, values)
  if (!row) return because(new Refusal('not_found'))
  const { by, from, when } = rule(verb)
  const detail = { id, state: row.state }
  const holds = row.owner === change.endpoint && row.fence === change.fence
  const lapsed = row.free && row.state === 'claimed'
  if (by === 'agent' && (!holds || lapsed)) return because(new Refusal('stale_fence', detail))
  const refusal = new Refusal('wrong_state', detail)
  if (!from.includes(row.state)) return because(refusal)
  if (when.includes('readAll') && !row.readAll)
    return because(new Refusal('unread_messages', { id }))
  const full = whyFull(verb, id, row, change)
  if (full) return because(full)
  // This look checks every condition of a holder's verb, but not every one of the others.
  return { refusal, isOver: by === 'agent' }
}

const whyFull = (verb: Verb, id: string, row: Standing, change: Change): Refusal | null => {
  const { bytes } = parameters(change)
  if (!bringsDocument(verb) || bytes === null) return null
  const reserveOf = (of: keyof typeof HOLDS) => (usesReserve(verb) ? HOLDS[of].reserve : 0)
  const full = row.documents >= row.may_hold_documents + reserveOf('documents')
  const left = row.may_hold_bytes + reserveOf('bytes') - row.bytes
  return full || Number(bytes) > left ? noRoom(id, row, full) : null
}

const noRoom = (id: string, row: Standing, full: boolean): Refusal =>
  full
    ? new Refusal(
        'limit',
        { id, limit: row.may_hold_documents },
        `There is no room for it: ${row.may_hold_documents} messages and chunks of artifacts are the most`,
      )
    : new Refusal(
        'limit',
        { id, limit: row.may_hold_bytes },
        `There is no room for it: messages and artifacts may come to ${row.may_hold_bytes} bytes in all`,
      )
