/**
 * The life of a todo, as data. Everything that asks "may this verb leave this state, and what
 * becomes of owner, lease and attempt?" is computed from the two tables below: the SQL of every
 * guard and every `set`, the protocols' projections, the board's lanes, the docs' table and the
 * property tests. Nothing else lists states.
 *
 * Why it is so: docs/design/lifecycle-layer.md; docs/design/interrupt-deadline.md for interrupts.
 */

/** What a state means for whoever waits on the todo. */
export const PHASES = ['waiting', 'held', 'interrupted', 'ended'] as const
export type Phase = (typeof PHASES)[number]

export const STATES = {
  pending: 'waiting',
  claimed: 'held',
  'input-required': 'interrupted',
  'auth-required': 'interrupted',
  done: 'ended',
  /** Ended only as a dead letter; while a retry is scheduled it waits. See {@link phaseOf}. */
  failed: 'ended',
  canceled: 'ended',
  rejected: 'ended',
} as const satisfies Record<string, Phase>

export type State = keyof typeof STATES
export type InterruptState = 'input-required' | 'auth-required'

export const STATE_NAMES = Object.keys(STATES) as State[]

/** How an attempt ended. */
export const OUTCOMES = [
  'completed',
  'failed',
  'released',
  'rejected',
  'lease_expired',
  'reaped',
  'timed_out',
  'canceled',
  'revoked',
] as const
export type Outcome = (typeof OUTCOMES)[number]

/** What became of the todo when an attempt ended. */
export const DISPOSITIONS = [
  'done',
  'retry_scheduled',
  'dead_lettered',
  'requeued',
  'canceled',
  'rejected',
] as const
export type Disposition = (typeof DISPOSITIONS)[number]

/** Why a todo became claimable. */
const READY_REASONS = [
  'created',
  'requeued',
  'retried',
  'answered',
  'unblocked',
  'released',
  'joined',
] as const
export type ReadyReason = (typeof READY_REASONS)[number]

/**
 * What must hold of the row, beside its state, before a verb may move it. Each condition is
 * spelled in SQL once, in store/move/conditions.ts.
 */
export type Condition =
  | 'claimable'
  | 'held'
  | 'holder'
  | 'attended'
  | 'parked'
  | 'sameQuestion'
  | 'unanswered'
  | 'notAsking'
  | 'lineFree'
  | 'lineBusy'
  | 'nextInLine'
  | 'unclaimedFront'
  | 'joinHolds'
  | 'answeredLater'
  | 'unfinished'
  | 'leaseLapsed'
  | 'interruptExpired'
  | 'comeDue'
  | 'silentOrOverdue'
  | 'outOfTime'
  | 'ownedBy'
  | 'leftBy'
  | 'readAll'

/** How an event looks from outside. */
export type Shown = 'status' | 'artifact'

export interface Rule {
  readonly by: 'client' | 'agent' | 'operator' | 'server'
  readonly from: readonly State[]
  readonly when: readonly Condition[]
  /** The state after; `same` keeps it, `as asked` takes the one the caller names. */
  readonly to: State | 'same' | 'as asked'
  /** Instead of `to`, once the todo has used its last attempt. */
  readonly atCap?: State
  /** What happens to owner and lease. `renew` is a fresh lease of the length granted before. */
  readonly lease: 'grant' | 'renew' | 'extend' | 'keep' | 'clear'
  /** `open` starts an attempt, an outcome closes the open one, `keep` does neither. */
  readonly attempt: 'open' | 'keep' | Outcome
  /** The attempt is given back: it does not count against the cap. */
  readonly refund?: true
  /** The work moved: stamps `progress_at`. */
  readonly progress?: true
  /** Appends an event. A heartbeat says only that the process lives and appends none. */
  readonly event: boolean
  /** What its event is to those outside: streams show it and webhooks are told, or neither. */
  readonly shown: Shown | null
  /** Emitted when the todo lands in `pending` (or comes due). */
  readonly ready?: ReadyReason
}

const held = ['claimed'] as const satisfies State[]
const interrupted = ['input-required', 'auth-required'] as const satisfies State[]
const unfinished = ['pending', 'claimed', ...interrupted, 'failed'] as const satisfies State[]

/** `send` creates a todo and so is not in here: it leaves no state. */
export const VERBS = {
  claim: {
    by: 'agent',
    from: ['pending', 'failed', 'claimed'],
    when: ['claimable'],
    to: 'claimed',
    lease: 'grant',
    attempt: 'open',
    event: true,
    shown: 'status',
  },
  heartbeat: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'same',
    lease: 'extend',
    attempt: 'keep',
    event: false,
    shown: null,
  },
  hold: {
    by: 'agent',
    from: interrupted,
    when: ['holder'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    event: false,
    shown: null,
  },
  progress: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    progress: true,
    event: true,
    shown: null,
  },
  say: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    progress: true,
    event: true,
    shown: 'status',
  },
  artifact: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    progress: true,
    event: true,
    shown: 'artifact',
  },
  fork: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    progress: true,
    event: true,
    shown: null,
  },
  /** The same by an operator: whoever holds the parent, if anybody does. */
  adopt: {
    by: 'operator',
    from: unfinished,
    when: ['unfinished'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    event: true,
    shown: null,
  },
  /**
   * The parent waits for its children without a holder; claimable once the condition holds. What is
   * unread stays owed, to whoever goes on.
   */
  join: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'pending',
    lease: 'clear',
    attempt: 'released',
    refund: true,
    event: true,
    shown: null,
  },
  interrupt: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'as asked',
    lease: 'keep',
    attempt: 'keep',
    progress: true,
    event: true,
    shown: 'status',
  },
  resume: {
    by: 'client',
    from: interrupted,
    when: ['attended', 'sameQuestion', 'unanswered', 'lineFree'],
    to: 'claimed',
    lease: 'renew',
    attempt: 'keep',
    event: true,
    shown: 'status',
  },
  answer: {
    by: 'client',
    from: interrupted,
    when: ['parked', 'sameQuestion', 'unanswered', 'lineFree'],
    to: 'pending',
    lease: 'clear',
    attempt: 'released',
    refund: true,
    event: true,
    shown: 'status',
    ready: 'answered',
  },
  /** For whoever works on it, now or next; also once its question has been answered. */
  message: {
    by: 'client',
    from: ['pending', 'claimed', 'failed', ...interrupted],
    when: ['unfinished', 'notAsking'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    event: true,
    shown: null,
  },
  /** The answer is stored and the deadline met; the resume waits until the line is free. */
  defer: {
    by: 'client',
    from: interrupted,
    when: ['sameQuestion', 'unanswered', 'lineBusy'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    event: true,
    shown: null,
  },
  acknowledge: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    event: false,
    shown: null,
  },
  complete: {
    by: 'agent',
    from: held,
    when: ['held', 'readAll'],
    to: 'done',
    lease: 'clear',
    attempt: 'completed',
    event: true,
    shown: 'status',
  },
  fail: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'failed',
    lease: 'clear',
    attempt: 'failed',
    event: true,
    shown: 'status',
  },
  release: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'pending',
    lease: 'clear',
    attempt: 'released',
    refund: true,
    event: true,
    shown: 'status',
    ready: 'released',
  },
  reject: {
    by: 'agent',
    from: held,
    when: ['held'],
    to: 'rejected',
    lease: 'clear',
    attempt: 'rejected',
    event: true,
    shown: 'status',
  },
  cancel: {
    by: 'client',
    from: unfinished,
    when: ['unfinished'],
    to: 'canceled',
    lease: 'clear',
    attempt: 'canceled',
    event: true,
    shown: 'status',
  },
  reapLease: {
    by: 'server',
    from: held,
    when: ['leaseLapsed'],
    to: 'pending',
    atCap: 'failed',
    lease: 'clear',
    attempt: 'reaped',
    event: true,
    shown: 'status',
    ready: 'requeued',
  },
  reapInterrupt: {
    by: 'server',
    from: interrupted,
    when: ['interruptExpired'],
    to: 'pending',
    atCap: 'failed',
    lease: 'clear',
    attempt: 'reaped',
    event: true,
    shown: 'status',
    ready: 'requeued',
  },
  /** Alive but wedged: no progress for too long, or working for too long (heartbeats regardless). */
  timeOut: {
    by: 'server',
    from: held,
    when: ['silentOrOverdue'],
    to: 'pending',
    atCap: 'failed',
    lease: 'clear',
    attempt: 'timed_out',
    event: true,
    shown: 'status',
    ready: 'requeued',
  },
  /** Not started in time, or not finished in time whatever its retries: there is no next one. */
  expire: {
    by: 'server',
    from: unfinished,
    when: ['unfinished', 'outOfTime'],
    to: 'failed',
    lease: 'clear',
    attempt: 'timed_out',
    event: true,
    shown: 'status',
  },
  /** The holder's endpoint was revoked, and another live endpoint may claim the queue. */
  revoke: {
    by: 'server',
    from: [...held, ...interrupted],
    when: ['ownedBy'],
    to: 'pending',
    atCap: 'failed',
    lease: 'clear',
    attempt: 'revoked',
    event: true,
    shown: 'status',
    ready: 'requeued',
  },
  /** The same, parked questions too, where nobody is left who may claim it: it would park for good. */
  strand: {
    by: 'server',
    from: [...held, ...interrupted],
    when: ['leftBy'],
    to: 'failed',
    lease: 'clear',
    attempt: 'revoked',
    event: true,
    shown: 'status',
  },
  /** The line is free and this one has waited longest. */
  unblock: {
    by: 'server',
    from: ['pending'],
    when: ['nextInLine'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    event: true,
    shown: null,
    ready: 'unblocked',
  },
  /** Nobody has claimed the front: an answer goes before it. */
  stepBack: {
    by: 'server',
    from: ['pending'],
    when: ['unclaimedFront'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    event: false,
    shown: null,
  },
  /** The line is free for a todo whose answer came while it was busy: its holder goes on … */
  resumeLater: {
    by: 'server',
    from: interrupted,
    when: ['attended', 'answeredLater'],
    to: 'claimed',
    lease: 'renew',
    attempt: 'keep',
    event: true,
    shown: 'status',
  },
  /** … or, parked, it may be claimed again. */
  answerLater: {
    by: 'server',
    from: interrupted,
    when: ['parked', 'answeredLater'],
    to: 'pending',
    lease: 'clear',
    attempt: 'released',
    refund: true,
    event: true,
    shown: 'status',
    ready: 'answered',
  },
  /** What a parent waits for has come about. */
  joined: {
    by: 'server',
    from: ['pending'],
    when: ['joinHolds'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    event: true,
    shown: null,
    ready: 'joined',
  },
  /** A scheduled retry or a delayed release has come due: nothing moves but the ready hook. */
  comeDue: {
    by: 'server',
    from: ['pending', 'failed'],
    when: ['comeDue'],
    to: 'same',
    lease: 'keep',
    attempt: 'keep',
    event: true,
    shown: null,
    ready: 'retried',
  },
} as const satisfies Record<string, Rule>

export type Verb = keyof typeof VERBS
export const VERB_NAMES = Object.keys(VERBS) as Verb[]

/** The event of a todo's creation carries this in place of a verb of the table. */
export type EventVerb = Verb | 'send'

export const rule = (verb: Verb): Rule => VERBS[verb]

/** What this event is to those outside; null for one that they are not told of. */
export const shownAs = (verb: EventVerb): Shown | null =>
  verb === 'send' ? 'status' : rule(verb).shown

/** The verbs that make a todo's status anew: those that may lead elsewhere, and words of its agent. */
export const STATUS_VERBS: readonly Verb[] = VERB_NAMES.filter(
  (verb) => rule(verb).to !== 'same' || verb === 'say',
)

/** Whether an event with this verb is a transition; a takeover is one although its state stays. */
export const isTransition = (verb: EventVerb): boolean =>
  verb === 'send' || rule(verb).to !== 'same'

/** Whether this verb says that the work moved, and so stamps `progress_at`. */
export const stampsProgress = (verb: EventVerb): boolean => {
  if (verb === 'send') return false
  const { progress, attempt, lease } = rule(verb)
  return progress === true || attempt === 'open' || lease === 'renew'
}

const statesIn = (phase: Phase): State[] => STATE_NAMES.filter((s) => STATES[s] === phase)

/** States in which a holder may own the row and an attempt is open. */
export const HELD_STATES = statesIn('held')
export const INTERRUPT_STATES = statesIn('interrupted')
export const OPEN_STATES: readonly State[] = [...HELD_STATES, ...INTERRUPT_STATES]
export const ENDED_STATES = statesIn('ended')

/** A failure with a retry scheduled is still waiting; to everyone outside it has not failed. */
export const phaseOf = (todo: { state: State; nextRetryAt: unknown }): Phase =>
  todo.state === 'failed' && todo.nextRetryAt !== null ? 'waiting' : STATES[todo.state]

/** True once nothing further happens until somebody acts: the end, or a question. */
export const settled = (todo: { state: State; nextRetryAt: unknown }): boolean => {
  const phase = phaseOf(todo)
  return phase === 'ended' || phase === 'interrupted'
}

/** What a closed attempt led to, by the state its todo landed in. */
export const dispositionOf = (to: State, retryScheduled: boolean): Disposition => {
  switch (to) {
    case 'done':
      return 'done'
    case 'failed':
      return retryScheduled ? 'retry_scheduled' : 'dead_lettered'
    case 'canceled':
      return 'canceled'
    case 'rejected':
      return 'rejected'
    default:
      return 'requeued'
  }
}
