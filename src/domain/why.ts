/**
 * One sentence for any todo: what it waits for, since when, until when, and what would move it. Pure:
 * the caller reads the facts.
 */
import { HOLDER_LOST, isDeadLetter, NEVER_STARTED, phaseOf, STATES } from './lifecycle.ts'
import { spendText } from './spend.ts'
import type { Attempt, Child, Todo } from './todo.ts'

/** A limit on how much runs at once, and how much runs under it now. */
export interface Slots {
  used: number
  limit: number
  /** When the clock frees the first slot: by a lease or another limit on time. */
  until: Date | null
}

/** An endpoint that may claim. Its slots are null if it has no limit. */
export interface Claimer {
  name: string
  slots: Slots | null
}

export interface WhyFacts {
  todo: Todo
  /** The name of whoever holds it or asked. */
  holder: string | null
  /** Its newest attempts, the newest first: of more than two nothing is asked. */
  attempts: readonly Attempt[]
  /** The open question, shortened. */
  question: string | null
  /** When an interrupt is taken back; null for never. */
  deadline: Date | null
  /** The live endpoints that may claim from its queue. */
  claimers: readonly Claimer[]
  /** The children that it waits for. */
  children: readonly Pick<Child, 'id' | 'queue' | 'state' | 'retrying'>[]
  /** Of the queues of these: those from which nobody may claim. */
  unserved: readonly string[]
  /** The slots of its queue; null if it has no limit. */
  slots: Slots | null
  /** The todo at the front of its conversation, while it waits in line. */
  waitsBehind: string | null
  /** What it failed with, if it did. */
  error: string | null
  /** By the clock of the database. */
  now: Date
}

export interface Why {
  why: string
  since: Date
  /** The next moment at which the clock moves it; null if only somebody else can. */
  until: Date | null
}

const at = (moment: Date): string => moment.toISOString().replace(/\.\d{3}Z$/, 'Z')

const tries = ({ attempt, maxAttempts }: Todo): string => `attempt ${attempt} of ${maxAttempts}`

/** The earlier of two moments, either of which may be missing. */
const earlier = (a: Date | null, b: Date | null): Date | null => {
  if (!a || !b) return a ?? b
  return a < b ? a : b
}

const later = (a: Date | null, b: Date | null): Date | null => {
  if (!a || !b) return a ?? b
  return a > b ? a : b
}

const after = (from: Date | null, seconds: number | null): Date | null =>
  from && seconds !== null ? new Date(from.getTime() + seconds * 1000) : null

/** One of its limits on time, as a clause; empty if it has none. */
const limited = (what: string, moment: Date | null, then: string): string =>
  moment ? `; ${what} by ${at(moment)} ${then}` : ''

const BACK = 'it goes back to its queue'

const afterwards = (todo: Todo): string =>
  todo.attempt >= todo.maxAttempts ? 'it ends as a dead letter' : BACK

/**
 * If a child asks something, its parent really waits for that answer; and if nobody may claim it, for an
 * operator.
 */
const joining = ({ todo, children, unserved }: WhyFacts, since: Date): Why => {
  const waited = children.filter(({ id }) => todo.join?.children.includes(id))
  const live = waited.filter((child) => phaseOf(phased(child)) !== 'ended')
  const asking = live.find(({ state }) => STATES[state] === 'interrupted')
  const asks = asking ? `; ${asking.id} waits for an answer (${asking.state})` : ''
  const waiting = live.filter((child) => phaseOf(phased(child)) === 'waiting')
  const stuck = waiting.filter(({ queue }) => unserved.includes(queue))
  const [first] = stuck
  const others = stuck.length > 1 ? `, as do ${stuck.length - 1} more` : ''
  const nobody = first
    ? `; ${first.id} waits in ${first.queue}${others}, and nobody may claim from it: vend an endpoint with the verb work for it`
    : ''
  const ended = waited.length - live.length
  const timeout = todo.join?.timeoutAt ? new Date(todo.join.timeoutAt) : null
  const then =
    todo.join?.onTimeout === 'cancel'
      ? 'those that live are canceled and it is claimable all the same'
      : 'it is claimable all the same'
  const limits =
    limited('not by then', timeout, then) +
    limited('not ended', todo.closeAt, 'it fails (schedule_to_close_timeout)')
  const why = `waits since ${at(since)} for ${todo.join?.until} of its ${waited.length} children, ${ended} of which have ended${asks}${nobody}; it is claimable when that holds${limits}`
  return { why, since, until: earlier(timeout, todo.closeAt) }
}

const phased = ({ state, retrying }: WhyFacts['children'][number]) => ({
  state,
  nextRetryAt: retrying || null,
})

const isFull = (slots: Slots | null): slots is Slots => slots !== null && slots.used >= slots.limit

/** How many full endpoints are named. */
const MAX_NAMED = 3

const runningFor = (whom: string, { used, limit }: Slots): string =>
  `${used} of ${limit} running for ${whom}`

/** Who would have to claim it, and, if limits hold everybody back, when the clock frees a slot. */
const claimed = ({
  todo: { queue },
  claimers,
  slots,
}: WhyFacts): { by: string; until: Date | null } => {
  const full = claimers.flatMap(({ name, slots: own }) => (isFull(own) ? { name, own } : []))
  const named = full.slice(0, MAX_NAMED).map(({ name, own }) => runningFor(`endpoint ${name}`, own))
  const more = full.length - named.length
  const limits = [
    ...(isFull(slots) ? [runningFor(`queue ${queue}`, slots)] : []),
    ...named,
    ...(more > 0 ? [`and ${more} more`] : []),
  ]
  const everybody = full.length === claimers.length
  if (isFull(slots) || everybody) {
    const inQueue = isFull(slots) ? slots.until : null
    const ofOne = everybody ? full.map(({ own }) => own.until).reduce(earlier, null) : null
    const by = `one of the todos at work ends or asks: ${limits.join(', ')}`
    return { by, until: later(inQueue, ofOne) }
  }
  const may = `${claimers.length} endpoint${claimers.length === 1 ? '' : 's'} may`
  return { by: `an agent of ${queue} claims it (${[may, ...limits].join('; ')})`, until: null }
}

const waiting = (facts: WhyFacts): Why => {
  const { todo, claimers, waitsBehind, error } = facts
  const { queue, nextRetryAt, dueAt, statusAt: since } = todo
  if (nextRetryAt) {
    const why = `waits for its retry at ${at(nextRetryAt)}: ${tries(todo)} failed with ${error ?? 'an error'}`
    return { why, since, until: nextRetryAt }
  }
  if (todo.join) return joining(facts, since)
  if (!dueAt && !todo.line && todo.notBefore) {
    const { notBefore } = todo
    const end = limited('not ended', todo.closeAt, 'it fails (schedule_to_close_timeout)')
    const why = `waits until ${at(notBefore)}, as its sender asked; then it takes its turn in its conversation${end}`
    return { why, since, until: notBefore }
  }
  if (!dueAt) {
    const front = waitsBehind ? `task ${waitsBehind}` : 'an answer'
    const why = `waits in line since ${at(since)} behind ${front} of the same conversation; it is its turn when that one ends or asks`
    return { why, since, until: todo.closeAt }
  }
  const due = dueAt
  const start = after(due, todo.scheduleToStartSeconds)
  const limits =
    limited('not started', start, 'it fails (schedule_to_start_timeout)') +
    limited('not ended', todo.closeAt, 'it fails (schedule_to_close_timeout)')
  const end = earlier(start, todo.closeAt)
  if (claimers.length === 0) {
    const why = `waits since ${at(since)}, and nobody may claim from ${queue}: vend an endpoint with the verb work for it${limits}`
    return { why, since, until: due > since ? due : end }
  }
  const { by, until } = claimed(facts)
  if (due > since) {
    const why = `waits until ${at(due)}, as ${todo.notBefore?.getTime() === due.getTime() ? 'its sender asked' : 'asked when it was handed back'}; then ${by}${limits}`
    return { why, since, until: due }
  }
  const only = todo.effects
    ? `; agents that have more than it may use (${todo.effects.join(', ') || 'nothing'}) pass it over`
    : ''
  const why = `waits since ${at(since)} until ${by}${only}${limits}`
  return { why, since, until: earlier(end, until) }
}

/** Nothing has come from the holder yet, and the attempt before did start: this one would not count. */
const givenBack = ([latest, before]: readonly Attempt[]): boolean => {
  const claimedAt = latest?.claimedAt.getTime()
  const isSilent = [latest?.lastHeartbeatAt, latest?.progressAt].every(
    (moment) => moment?.getTime() === claimedAt,
  )
  return isSilent && before?.cause !== NEVER_STARTED
}

const held = ({ todo, holder, attempts }: WhyFacts): Why => {
  const { leaseExpiresAt, progressAt, startedAt, closeAt } = todo
  const silence = after(progressAt, todo.heartbeatSeconds)
  const attempt = after(startedAt, todo.startToCloseSeconds)
  const unheard = todo.unheardSince ? 'not heard of since the answer' : 'without a heartbeat'
  const lost = todo.unheardSince || givenBack(attempts) ? BACK : afterwards(todo)
  const why =
    `${holder ?? 'its holder'} works on it since ${at(todo.statusAt)}, ${tries(todo)}` +
    limited(unheard, leaseExpiresAt, lost) +
    limited('without progress', silence, `${afterwards(todo)} (heartbeat_timeout)`) +
    limited('not finished', attempt, `${afterwards(todo)} (start_to_close_timeout)`) +
    limited('not ended', closeAt, 'it fails (schedule_to_close_timeout)')
  const until = [leaseExpiresAt, silence, attempt, closeAt].reduce(earlier, null)
  return { why, since: todo.statusAt, until }
}

const interrupted = ({ todo, holder, attempts, question, deadline }: WhyFacts): Why => {
  const since = todo.interruptedAt ?? todo.statusAt
  const what = todo.state === 'auth-required' ? 'an authorisation' : 'an answer'
  const asker = holder ?? 'its holder'
  const isLost = attempts[0]?.cause === HOLDER_LOST
  const parked = isLost ? `parked, since ${asker} stopped its heartbeats` : 'parked'
  const who = todo.owner === null ? parked : `held by ${asker}`
  const end = deadline ? `until ${at(deadline)}, when ${afterwards(todo)}` : 'without a deadline'
  if (todo.answeredAt) {
    const why = `was answered at ${at(todo.answeredAt)}; goes on as soon as the task of the same conversation that is at work ends or asks`
    return { why, since: todo.answeredAt, until: null }
  }
  const asked = question ? `: “${question}”` : ''
  const limit = limited('not ended', todo.closeAt, 'it fails (schedule_to_close_timeout)')
  return {
    why: `waits for ${what} (${who}) since ${at(since)}, ${end}${limit}; a message to this task answers it${asked}`,
    since,
    until: earlier(deadline, todo.closeAt),
  }
}

const ended = ({ todo, error }: WhyFacts): Why => {
  const since = todo.finishedAt ?? todo.statusAt
  const debts =
    todo.unread === 1 ? 'a message that nobody has read' : `${todo.unread} unread messages`
  const owes = isDeadLetter(todo) && todo.unread > 0 ? ` it owes an answer to ${debts};` : ''
  const why = !isDeadLetter(todo)
    ? `ended as ${todo.state} at ${at(since)}; nothing moves it any more`
    : todo.state === 'failed'
      ? `a dead letter since ${at(since)}: ${error ?? 'it failed'};${owes} only a retry sends it again, as a new todo`
      : `rejected at ${at(since)};${owes} only a retry hands that on, as a new todo`
  return { why, since, until: null }
}

const PHASES = { waiting, held, interrupted, ended }

/** By then every sweep has come by several times. */
const OVERDUE_MS = 120_000

/** A sweep is what moves these once their time has come; what waits, an agent may claim all the same. */
const overdue = ({ todo, now }: WhyFacts, { until }: Why): string => {
  const phase = phaseOf(todo)
  const due = phase === 'held' || phase === 'interrupted' ? until : todo.closeAt
  return phase !== 'ended' && due && now.getTime() - due.getTime() > OVERDUE_MS
    ? '; that has passed and no sweep could move it: the log of a node says why (“a todo could not be swept”)'
    : ''
}

/** What it has spent, of a todo that has a budget. */
const spending = ({ todo: { budget, spent } }: WhyFacts): string =>
  budget ? `; spent ${spendText(budget, spent)}` : ''

export const whyOf = (facts: WhyFacts): Why => {
  const why = PHASES[phaseOf(facts.todo)](facts)
  return { ...why, why: why.why + spending(facts) + overdue(facts, why) }
}
