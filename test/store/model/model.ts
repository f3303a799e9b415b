/**
 * A few todos, some of one conversation, without a database: no SQL, no clock, time passes when the
 * test says so. It reads the lifecycle's table with its own eyes, and knows of lines and joins only
 * what docs/lifecycle.md says.
 */
import { type Condition, rule, type State, type Verb } from '../../../src/domain/lifecycle.ts'
import type { JoinUntil } from '../../../src/domain/todo.ts'

export const MAX_ATTEMPTS = 2
const INTERRUPTED: readonly State[] = ['input-required', 'auth-required']
const ENDS: readonly State[] = ['done', 'canceled', 'rejected']

export interface Row {
  /** Who came when: the order in line. */
  place: number
  line: string | null
  front: boolean
  /** The line that it enters once its time has come, and whether it has. */
  later: string | null
  timely: boolean
  state: State
  /** Number of the agent that holds it. */
  owner: number | null
  /** Who claimed last: whose question a parked todo waits on. */
  asker: number | null
  fence: number
  seq: number
  attempt: number
  retryScheduled: boolean
  unread: number
  openAttempts: number
  attempts: number
  /** When it may be claimed; a todo that waits in line, or for children, has no such moment. */
  due: 'never' | 'later' | 'now'
  /** When its answer came while the line was busy: one more than the one before. */
  answered: number | null
  join: { until: JoinUntil; children: readonly number[]; timeout: boolean } | null
  /** Children whose end it was told of. */
  seen: readonly number[]
  /** What an ageing has made of the row's moments. */
  lapsed: boolean
  retryDue: boolean
  expired: boolean
  /** A ready hook that is still to come, for a delayed release or a retry. */
  bell: boolean
  silent: boolean
  late: boolean
  /** Something came from its holder after the claim. */
  heard: boolean
  /** The attempt that ended last never started. */
  unstarted: boolean
  /** Its holder has heartbeated during the wait, and has then been silent for a lease. */
  holding: boolean
  gone: boolean
  /** It was parked for that, and the attempt that asked is still open. */
  lost: boolean
  /** Nothing has come from the holder since its question was answered. */
  unheard: boolean
  /** Its join has a limit on its time, and is past it; its last join ended so. */
  overdue: boolean
  timedOut: boolean
}

export type Model = readonly Row[]

export interface Step {
  verb: Verb
  agent: 0 | 1
  staleFence: boolean
  asked: 'input-required' | 'auth-required'
  park: boolean
  retry: boolean
  delay: boolean
  acknowledgeAll: boolean
  until: JoinUntil
  /** The join has a limit on its time. */
  timeout: boolean
  /** Places of the todos that a join waits for. */
  children: readonly number[]
}

export const finished = (row: Row): boolean =>
  ENDS.includes(row.state) || (row.state === 'failed' && !row.retryScheduled)

const holds = (row: Row, step: Step): boolean => row.owner === step.agent && !step.staleFence

const neverStarted = (row: Row): boolean => row.state === 'claimed' && !row.heard
/** Once in a row, or whenever an answer came to nobody. */
const givenBack = (row: Row): boolean =>
  (neverStarted(row) && !row.unstarted) || (row.state === 'claimed' && row.unheard)

const inLine = (model: Model, { line }: Row): Row[] =>
  line === null ? [] : model.filter((other) => other.line === line)
const behind = (model: Model, row: Row): Row[] => inLine(model, row).filter(({ front }) => !front)
const lineFree = (model: Model, row: Row): boolean =>
  row.front || !inLine(model, row).some(({ front }) => front)

const joinHolds = (model: Model, { join, seen }: Row): boolean => {
  if (!join) return false
  const ended = join.children.filter((child) => finished(model[child]!))
  if (ended.length === join.children.length) return true
  if (join.until === 'all') return false
  return join.until === 'any' ? ended.length > 0 : ended.some((child) => !seen.includes(child))
}

const conditions: Record<Condition, (row: Row, step: Step, model: Model) => boolean> = {
  claimable: (row) =>
    (row.state === 'pending' && row.due === 'now') ||
    (row.state === 'failed' && row.retryScheduled && row.retryDue) ||
    (row.state === 'claimed' && row.lapsed && (row.attempt < MAX_ATTEMPTS || givenBack(row))),
  held: (row, step) => holds(row, step) && !row.lapsed,
  holder: holds,
  attended: (row) => row.owner !== null,
  parked: (row) => row.owner === null,
  sameQuestion: () => true,
  unanswered: (row) => row.answered === null,
  notAsking: (row) => !INTERRUPTED.includes(row.state) || row.answered !== null,
  lineFree: (row, _, model) => lineFree(model, row),
  lineBusy: (row, _, model) => !lineFree(model, row),
  nextInLine: (row, _, model) =>
    row.line !== null &&
    !row.front &&
    lineFree(model, row) &&
    !behind(model, row).some(
      (other) => other.answered !== null || (other.state === 'pending' && other.place < row.place),
    ),
  dueInLine: (row) => row.later !== null && row.timely,
  unclaimedFront: (row) => row.front && row.due === 'now' && row.join === null,
  answeredLater: (row, _, model) =>
    row.answered !== null &&
    lineFree(model, row) &&
    !behind(model, row).some(({ answered }) => answered !== null && answered < row.answered!),
  joinHolds: (row, _, model) => joinHolds(model, row),
  joinOverdue: (row) => row.join !== null && row.overdue,
  holderSilent: (row) => row.gone,
  unfinished: (row) => !finished(row),
  leaseLapsed: (row) => row.lapsed,
  interruptExpired: (row) => row.expired && row.answered === null,
  silentOrOverdue: (row) => row.silent,
  outOfTime: (row) => row.late,
  comeDue: (row) => row.bell && (row.state === 'pending' ? row.due === 'now' : row.retryDue),
  ownedBy: (row, step) => row.owner === step.agent,
  leftBy: (row, step) => (row.owner ?? row.asker) === step.agent,
  readAll: (row, step) => row.unread === 0 || step.acknowledgeAll,
  // Nobody has a budget here: what binds is asked in test/flows/budgets.random.test.ts.
  affordable: () => true,
  spentOnce: () => true,
}

/** A state is left for another, or for itself anew: what the waits of the former one were is over. */
const landed = (model: Model, row: Row, step: Step): Partial<Row> => {
  const { verb } = step
  const { to, atCap, refund } = rule(verb)
  const capped = row.attempt >= MAX_ATTEMPTS && !(refund === 'never started' && givenBack(row))
  const state = to === 'as asked' ? step.asked : atCap && capped ? atCap : (to as State)
  const free = lineFree(model, row)
  const retryScheduled = verb === 'fail' && step.retry && !capped
  const ready = state === 'pending' && free && verb !== 'join'
  const due = ready ? (verb === 'release' && step.delay ? 'later' : 'now') : 'never'
  return {
    state,
    due,
    retryScheduled,
    retryDue: false,
    expired: false,
    silent: false,
    holding: false,
    gone: false,
    unheard: verb === 'resume' || verb === 'resumeLater',
    overdue: false,
    timedOut: row.join === null && verb !== 'join' && row.timedOut,
    answered: null,
    bell: retryScheduled || due === 'later',
    join:
      verb === 'join'
        ? { until: step.until, children: step.children, timeout: step.timeout }
        : null,
    front: row.line !== null && free && (['pending', 'claimed'].includes(state) || retryScheduled),
  }
}

/** What is special to a verb that leaves the state as it is. */
const stayed = (model: Model, row: Row, { verb }: Step): Partial<Row> => {
  switch (verb) {
    case 'comeDue':
      return { bell: false }
    case 'enterLine':
      return { line: row.later, later: null }
    case 'hold':
      return { expired: false, holding: true, gone: false }
    case 'park':
      return { holding: false, gone: false, lost: true }
    case 'unblock':
      return { due: 'now', front: true }
    case 'stepBack':
      return { due: 'never', front: false, bell: false }
    case 'defer':
    case 'withdrawLater':
      return { answered: 1 + Math.max(0, ...model.map(({ answered }) => answered ?? 0)) }
    case 'joined':
    case 'joinTimeOut': {
      const seen = row.join!.children.filter((child) => finished(model[child]!))
      const timedOut = verb === 'joinTimeOut' && !joinHolds(model, row)
      return { due: 'now', join: null, seen, overdue: false, timedOut }
    }
    default:
      return {}
  }
}

/** Who comes to the front that `left` has left: answers before newcomers, each in their order. */
const heirOf = (model: Model, left: Row): Row | undefined =>
  behind(model, left)
    .filter((row) => row.place !== left.place)
    .filter(({ state, answered }) => state === 'pending' || answered !== null)
    .toSorted(
      (a, b) =>
        (a.answered ?? Number.POSITIVE_INFINITY) - (b.answered ?? Number.POSITIVE_INFINITY) ||
        a.place - b.place,
    )[0]

const replaced = (model: Model, row: Row): Model => model.with(row.place, row)

/** The world after `step` on one todo; null where it is refused. */
export const advance = (model: Model, place: number, step: Step): Model | null => {
  const row = model[place]!
  const { verb } = step
  const { by, from, when, to, lease, attempt, refund, progress, event } = rule(verb)
  if (!from.includes(row.state)) return null
  if (!when.every((name) => conditions[name](row, step, model))) return null
  const next = { ...row, ...(to === 'same' ? stayed : landed)(model, row, step) }
  if (event) next.seq += 1
  if (progress) next.silent = false
  if (by === 'agent') next.unheard = false
  if (lease === 'grant') {
    next.owner = step.agent
    next.asker = step.agent
    next.fence += 1
  }
  const parks = verb === 'interrupt' && step.park
  if (lease !== 'keep' || parks) next.lapsed = false
  if (lease === 'clear' || parks) next.owner = null
  if (attempt === 'open') {
    next.attempt += 1
    next.attempts += 1
    next.openAttempts = 1
  } else if (attempt !== 'keep') next.openAttempts = 0
  if (attempt !== 'keep') next.lost = false
  if (refund === true || (refund && givenBack(row))) next.attempt -= 1
  if (attempt !== 'keep' && row.openAttempts > 0) {
    next.unstarted = refund === 'never started' && neverStarted(row)
  }
  next.heard = verb !== 'claim' && (by === 'agent' || row.heard)
  if (['message', 'resume', 'answer', 'defer'].includes(verb)) next.unread += 1
  if ((verb === 'acknowledge' || verb === 'complete') && step.acknowledgeAll) next.unread = 0

  const after = replaced(model, next)
  // Whoever leaves the front hands it to a newcomer at once; an answer takes it by a verb of its own.
  const heir = to !== 'same' && row.front && !next.front ? heirOf(model, row) : undefined
  if (heir?.state !== 'pending') return after
  return replaced(after, { ...heir, front: true, due: 'now', seq: heir.seq + 1 })
}

/** Who goes on where a line is looked at: which todo, by which verb; null where nobody may. */
export const nextOf = (
  model: Model,
  line: string,
  step: Step,
): { place: number; verb: Verb } | null => {
  for (const verb of ['resumeLater', 'answerLater', 'unblock'] as const) {
    const next = model.find(
      (row) =>
        row.line === line && !row.front && advance(model, row.place, { ...step, verb }) !== null,
    )
    if (next) return { place: next.place, verb }
  }
  return null
}

/**
 * One more todo: at the front of its line where nobody else is there or waits for it; beside the line
 * where it waits for its time.
 */
export const added = (model: Model, wanted: string | null, delayed = false): Model => {
  const line = delayed ? null : wanted
  const others = model.filter((row) => line !== null && row.line === line)
  const free = !others.some(
    ({ front, state, answered }) => front || state === 'pending' || answered !== null,
  )
  const row: Row = {
    place: model.length,
    line,
    front: line !== null && free,
    later: delayed ? wanted : null,
    timely: false,
    state: 'pending',
    owner: null,
    asker: null,
    fence: 0,
    seq: 1,
    attempt: 0,
    retryScheduled: false,
    unread: 0,
    openAttempts: 0,
    attempts: 0,
    due: free && !delayed ? 'now' : 'never',
    answered: null,
    join: null,
    seen: [],
    lapsed: false,
    retryDue: false,
    expired: false,
    bell: false,
    silent: false,
    late: false,
    heard: false,
    unstarted: false,
    holding: false,
    gone: false,
    lost: false,
    unheard: false,
    overdue: false,
    timedOut: false,
  }
  return [...model, row]
}

export const AGES = [
  'lapse',
  'due',
  'retry',
  'expire',
  'silence',
  'late',
  'gone',
  'overdue',
  'time',
] as const
export type Age = (typeof AGES)[number]

const aged = (row: Row, what: Age): Partial<Row> | null => {
  switch (what) {
    case 'lapse':
      return row.state === 'claimed' ? { lapsed: true } : null
    case 'due':
      return row.due === 'never' ? null : { due: 'now' }
    case 'retry':
      return row.retryScheduled ? { retryDue: true } : null
    case 'expire':
      return INTERRUPTED.includes(row.state) ? { expired: true, gone: false } : null
    case 'gone':
      return row.holding && row.owner !== null ? { gone: true } : null
    case 'overdue':
      return row.join?.timeout ? { overdue: true } : null
    case 'silence':
      // Its progress is then another moment than its claim, as after a word of the holder.
      return row.state === 'claimed' ? { silent: true, heard: true } : null
    case 'time':
      return row.later !== null && !finished(row) ? { timely: true } : null
    case 'late':
      return finished(row) ? null : { late: true }
  }
}

/** Time has passed for one todo in one respect; null where that means nothing to it. */
export const age = (model: Model, place: number, what: Age): Model | null => {
  const change = aged(model[place]!, what)
  return change && replaced(model, { ...model[place]!, ...change })
}
