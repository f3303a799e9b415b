/**
 * Moving todos: one, those whose time has come, a claim, the next of a line. Each runs the sentence
 * of statement.ts with a phrase of conditions.ts; there is no other way to change a todo. Everything is
 * decided by the row as it is once locked, and when no row came back, one look says why.
 */

import { isUuid } from '../../base/uuid.ts'
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
import { KEY_ONCE } from '../todos/idempotency.ts'
import { scopeSql, scopeValues } from '../todos/scope.ts'
import { type BatchItem, batchValues } from './batch.ts'
import { type Change, parameters } from './change.ts'
import {
  ANSWER_WAITS,
  due,
  dueIds,
  FREE,
  frontOf,
  next,
  nextInLine,
  one,
  STALLED_LINES,
} from './conditions.ts'
import { batchStatement, moveStatement } from './statement.ts'

/** A todo as it is after the move, and what it was before. */
export interface Moved {
  todo: Todo
  from: State
  formerOwner: string | null
  ready: ReadyReason | null
  /** Which limit was passed, for the sweeps of timeouts. */
  timeout: string | null
  /** Who is next in the line whose front it left. */
  nextInLine: string | null
  /** The heir has an answer, and is resumed by a statement of its own. */
  answerWaits: boolean
  hasWebhooks: boolean
}

/** The todo's own columns, and beside them what the statement answers of the move. */
type MovedRow = Todo & Omit<Moved, 'todo'>

const compile = <Row extends MovedRow>(verb: Verb, text: string): Statement<Row> =>
  statement<Row>(`todo_${verb}`, text)

const oneStatements = Object.fromEntries(
  VERB_NAMES.map((verb) => [verb, compile(verb, moveStatement(verb, one(verb)))]),
) as Record<Verb, Statement<MovedRow>>

/** The verbs that a client's message moves a todo by. */
const KEYED_VERBS = ['resume', 'answer', 'defer', 'message'] as const satisfies Verb[]

const keyedStatements: Partial<Record<Verb, Statement<MovedRow>>> = Object.fromEntries(
  KEYED_VERBS.map((verb) => [verb, compile(verb, moveStatement(verb, one(verb), '', true))]),
)

const SWEEP_VERBS = [
  'reapLease',
  'reapInterrupt',
  'comeDue',
  'timeOut',
  'expire',
  'revoke',
  'strand',
  'cancel',
] as const
export type SweepVerb = (typeof SWEEP_VERBS)[number]

const sweepStatements = Object.fromEntries(
  SWEEP_VERBS.map((verb) => [verb, compile(verb, moveStatement(verb, due(verb)))]),
) as Record<SweepVerb, Statement<MovedRow>>

/** How many todos a claim may ask for at once. Few sizes, so that few statements are kept. */
const CLAIM_SIZES = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100] as const

export type ClaimStatements<Extra> = ReadonlyMap<number, Statement<MovedRow & Extra>>

/** The claims, with what the claimant needs to begin read in the same round trip. */
export const claimStatements = <Extra>(extra: string): ClaimStatements<Extra> =>
  new Map(
    CLAIM_SIZES.map((size) => [
      size,
      compile<MovedRow & Extra>('claim', moveStatement('claim', next(size), extra)),
    ]),
  )

/** The largest claim that asks for no more than `limit`. */
const sizeOf = (limit: number): number => CLAIM_SIZES.findLast((size) => size <= limit) ?? 1

const toMoved = (row: MovedRow): Moved => ({
  todo: row,
  from: row.from,
  formerOwner: row.formerOwner,
  ready: row.ready,
  timeout: row.timeout,
  nextInLine: row.nextInLine,
  answerWaits: row.answerWaits,
  hasWebhooks: row.hasWebhooks,
})

/** A limit on how much runs at once has a place again: the holder ended or asked, or was taken over. */
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
  const ring = (topic: string): void => void counts.set(topic, (counts.get(topic) ?? 0) + 1)
  if (shownAs(verb) && moved.some(({ hasWebhooks }) => hasWebhooks)) ring('deliveries')
  for (const line of linesBehind(verb, moved)) ring(`line:${line}`)
  for (const one of moved) {
    const { todo, ready, nextInLine, answerWaits } = one
    ring(`todo:${todo.id}`)
    if (todo.finishedAt || todo.interruptedAt) ring(`settled:${todo.id}`)
    if (freedSlot(one)) {
      ring(`room:${todo.queue}`)
      ring(`room:${one.formerOwner}`)
    }
    if (ready) ring(`queue:${todo.queue}`)
    if (todo.parentId && todo.finishedAt) ring(`parent:${todo.parentId}`)
    if (nextInLine && answerWaits) ring(`line:${todo.line}`)
    else if (nextInLine) {
      ring(`todo:${nextInLine}`)
      ring(`queue:${todo.queue}`)
    }
  }
  return [
    // Whoever commits sees to the places of its own events.
    { topic: 'feed', count: moved.length, only: 'here' },
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
    const chosen = (change.key && keyedStatements[verb]) ?? oneStatements[verb]
    return (await transition(session, verb, chosen, values))[0] ?? null
  } catch (error) {
    if (isUniqueViolation(error, 'message_once') || isUniqueViolation(error, KEY_ONCE)) {
      throw new Refusal('duplicate')
    }
    // The line was free when it was looked at, and is not any more.
    if (isUniqueViolation(error, 'todos_front')) return null
    throw error
  }
}

/** Verbs of holders that come in crowds. None brings a todo to the front of a line. */
export const BATCHED = ['complete', 'heartbeat', 'progress', 'say', 'artifact'] as const
export type BatchedVerb = (typeof BATCHED)[number]

export const isBatched = (verb: Verb): verb is BatchedVerb =>
  (BATCHED as readonly Verb[]).includes(verb)

const manyStatements = Object.fromEntries(
  BATCHED.map((verb) => [verb, compile(verb, batchStatement(verb))]),
) as Record<BatchedVerb, Statement<MovedRow>>

/**
 * Moves many todos, each by what is brought to it; undefined where one did not allow the verb, or
 * was named twice: its caller tries it alone, and hears why.
 */
export const transitionMany = async (
  session: Session,
  verb: BatchedVerb,
  all: readonly BatchItem[],
): Promise<(Moved | undefined)[]> => {
  const once = new Map(all.filter(({ id }) => isUuid(id)).map((brought) => [brought.id, brought]))
  const moved = await transition(
    session,
    verb,
    manyStatements[verb],
    batchValues([...once.values()]),
  )
  const byId = new Map(moved.map((one) => [one.todo.id, one]))
  return all.map((brought) => (once.get(brought.id) === brought ? byId.get(brought.id) : undefined))
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

/** Claims up to `limit` todos of `queues`, with one of {@link claimStatements}; may there be more? */
export const transitionClaim = async <Extra>(
  session: Session,
  claims: ClaimStatements<Extra>,
  queues: readonly string[],
  limit: number,
  change: Change,
): Promise<{ moved: (Moved & { extra: Extra })[]; more: boolean }> => {
  const size = sizeOf(limit)
  const claim = claims.get(size)
  const rows = claim ? await session.run(claim, { ...parameters(change), queues }) : []
  const moved = rows.map((row) => ({ ...toMoved(row), extra: row as Extra }))
  session.wake(wakesOf('claim', moved))
  return { moved, more: moved.length >= size }
}

/** Verbs of whoever is next in a free line, in the order of their right to it. */
const LINE_VERBS = ['resumeLater', 'answerLater', 'unblock'] as const

const lineStatements = LINE_VERBS.map(
  (verb) => [verb, compile(verb, moveStatement(verb, nextInLine(verb)))] as const,
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

const backStatement = compile('stepBack', moveStatement('stepBack', frontOf('stepBack')))

/** Frees a line whose front nobody has claimed; false where somebody has, or it may not be moved. */
export const freeLine = async (session: Session, line: string): Promise<boolean> =>
  (await transition(session, 'stepBack', backStatement, { ...parameters({}), line })).length > 0

const overtakenStatement = compile(
  'stepBack',
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
