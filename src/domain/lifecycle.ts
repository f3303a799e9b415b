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

/**
 * The cause of an attempt whose lease ran out and whose holder was never heard of after its claim: the
 * claim was lost on its way, or the agent died as it began.
 */
export const NEVER_STARTED = 'never_started'

/** The cause of an attempt whose holder was not heard of again after its question had been answered. */
export const ANSWER_UNHEARD = 'answer_unheard'

/** The cause of an attempt whose holder stopped its heartbeats while it waited for an answer. */
export const HOLDER_LOST = 'holder_lost'

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
  'join_timeout',
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
  | 'dueInLine'
  | 'unclaimedFront'
  | 'joinHolds'
  | 'joinOverdue'
  | 'answeredLater'
  | 'unfinished'
  | 'leaseLapsed'
  | 'interruptExpired'
  | 'holderSilent'
  | 'comeDue'
  | 'silentOrOverdue'
  | 'outOfTime'
  | 'ownedBy'
  | 'leftBy'
  | 'readAll'
  | 'affordable'
  | 'spentOnce'

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
  /**
   * What happens to owner and lease. `renew` is a fresh lease of the length granted before. `offer` is a
   * short one for a holder that may be gone, and `confirm` makes it whole with the first word of its holder.
   */
  readonly lease: 'grant' | 'renew' | 'offer' | 'confirm' | 'extend' | 'keep' | 'clear'
  /** `open` starts an attempt, an outcome closes the open one, `keep` does neither. */
  readonly attempt: 'open' | 'keep' | Outcome
  /**
   * The attempt it ends is given back: it does not count against the cap. One that never started is
   * given back once in a row, or a todo whose agent dies as it begins would be tried for ever. One whose
   * holder was gone when its answer came is always given back: every such round takes an answer.
   */
  readonly refund?: true | 'never started'
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

/** Unless its row says otherwise, a verb appends an event, shows nothing outside and moves nothing. */
const QUIET = { to: 'same', lease: 'keep', attempt: 'keep', event: true, shown: null } as const

/** The holder writes while its lease runs. */
const OF_HOLDER = { ...QUIET, by: 'agent', from: held, when: ['held'] } as const
/** The same, and the todo stays with it. */
const SPEAKS = { ...OF_HOLDER, lease: 'confirm' } as const
/** The same, and the todo leaves its holder. */
const LEAVES_HOLDER = { ...OF_HOLDER, lease: 'clear', shown: 'status' } as const
/** A sweep takes the todo from its holder: it is requeued, or fails with its last attempt. */
const REQUEUES = {
  ...QUIET,
  by: 'server',
  to: 'pending',
  atCap: 'failed',
  lease: 'clear',
  shown: 'status',
  ready: 'requeued',
} as const
/** A sweep ends the todo, whatever attempts are left. */
const ENDS = { ...QUIET, by: 'server', to: 'failed', lease: 'clear', shown: 'status' } as const
/** The server makes a waiting todo claimable; nobody outside is told. */
const WAKES = { ...QUIET, by: 'server', from: ['pending'] } as const
/** The holder of a question goes on, with a fresh lease and the same attempt. */
const GOES_ON = {
  ...QUIET,
  from: interrupted,
  to: 'claimed',
  lease: 'renew',
  shown: 'status',
} as const
/** An answer lets it go on, if it is still there. */
const GOES_ON_ANSWERED = { ...GOES_ON, lease: 'offer' } as const
/** An answer makes a parked question claimable; the attempt that asked is given back. */
const REQUEUES_ANSWERED = {
  ...QUIET,
  from: interrupted,
  to: 'pending',
  lease: 'clear',
  attempt: 'released',
  refund: true,
  shown: 'status',
  ready: 'answered',
} as const

/** `send` creates a todo and so is not in here: it leaves no state. */
export const VERBS = {
  claim: {
    ...QUIET,
    by: 'agent',
    from: ['pending', 'failed', 'claimed'],
    when: ['claimable'],
    to: 'claimed',
    lease: 'grant',
    attempt: 'open',
    refund: 'never started',
    shown: 'status',
  },
  heartbeat: { ...OF_HOLDER, lease: 'extend', event: false },
  /**
   * The holder of a question extends its wait, and says by it that it lives. Before the first of these
   * its lease may well have lapsed.
   */
  hold: { ...OF_HOLDER, from: interrupted, when: ['holder'], lease: 'extend', event: false },
  progress: { ...SPEAKS, progress: true },
  say: { ...SPEAKS, progress: true, shown: 'status' },
  artifact: { ...SPEAKS, progress: true, shown: 'artifact' },
  /** Counted in the row, while it and all above it stay within their budgets … */
  spend: { ...SPEAKS, when: ['held', 'affordable', 'spentOnce'], progress: true },
  /** … or else counted as well, and the end: another attempt would have no more to spend. */
  exhaust: {
    ...LEAVES_HOLDER,
    when: ['held', 'spentOnce'],
    to: 'failed',
    attempt: 'failed',
  },
  fork: { ...SPEAKS, progress: true },
  /** An operator forks: it does not matter who holds the parent, if anybody does. */
  adopt: { ...QUIET, by: 'operator', from: unfinished, when: ['unfinished'] },
  /**
   * The parent waits for its children without a holder; claimable once the condition holds. What is
   * unread stays owed to whoever goes on.
   */
  join: { ...LEAVES_HOLDER, to: 'pending', attempt: 'released', refund: true, shown: null },
  interrupt: { ...OF_HOLDER, to: 'as asked', progress: true, shown: 'status' },
  resume: {
    ...GOES_ON_ANSWERED,
    by: 'client',
    when: ['attended', 'sameQuestion', 'unanswered', 'lineFree'],
  },
  answer: {
    ...REQUEUES_ANSWERED,
    by: 'client',
    when: ['parked', 'sameQuestion', 'unanswered', 'lineFree'],
  },
  /** For whoever works on it, now or next; also once its question has been answered. */
  message: {
    ...QUIET,
    by: 'client',
    from: ['pending', 'claimed', 'failed', ...interrupted],
    when: ['unfinished', 'notAsking'],
  },
  /** The answer is stored and the deadline met; the resume waits until the line is free. */
  defer: {
    ...QUIET,
    by: 'client',
    from: interrupted,
    when: ['sameQuestion', 'unanswered', 'lineBusy'],
  },
  /** The holder takes its own question back, and goes on as after an answer … */
  withdraw: { ...GOES_ON, by: 'agent', when: ['holder', 'unanswered', 'lineFree'] },
  /** … or once the line is free, if it is busy. */
  withdrawLater: {
    ...QUIET,
    by: 'agent',
    from: interrupted,
    when: ['holder', 'unanswered', 'lineBusy'],
  },
  acknowledge: { ...SPEAKS, event: false },
  complete: { ...LEAVES_HOLDER, when: ['held', 'readAll'], to: 'done', attempt: 'completed' },
  fail: { ...LEAVES_HOLDER, to: 'failed', attempt: 'failed' },
  release: {
    ...LEAVES_HOLDER,
    to: 'pending',
    attempt: 'released',
    refund: true,
    ready: 'released',
  },
  reject: { ...LEAVES_HOLDER, to: 'rejected', attempt: 'rejected' },
  /** Whoever the holder works with has canceled. */
  cancelHeld: { ...LEAVES_HOLDER, to: 'canceled', attempt: 'canceled' },
  cancel: {
    ...QUIET,
    by: 'client',
    from: unfinished,
    when: ['unfinished'],
    to: 'canceled',
    lease: 'clear',
    attempt: 'canceled',
    shown: 'status',
  },
  reapLease: {
    ...REQUEUES,
    from: held,
    when: ['leaseLapsed'],
    attempt: 'reaped',
    refund: 'never started',
  },
  reapInterrupt: { ...REQUEUES, from: interrupted, when: ['interruptExpired'], attempt: 'reaped' },
  /** Its holder has heartbeated during the wait, and stopped: the question waits on without it. */
  park: {
    ...QUIET,
    by: 'server',
    from: interrupted,
    when: ['attended', 'holderSilent'],
    lease: 'clear',
  },
  /** Alive but wedged: no progress for too long, or working for too long (heartbeats regardless). */
  timeOut: { ...REQUEUES, from: held, when: ['silentOrOverdue'], attempt: 'timed_out' },
  /** Not started in time, or not finished in time whatever its retries: there is no next one. */
  expire: { ...ENDS, from: unfinished, when: ['unfinished', 'outOfTime'], attempt: 'timed_out' },
  /** The holder's endpoint was revoked, and another live endpoint may claim the queue. */
  revoke: {
    ...REQUEUES,
    from: [...held, ...interrupted],
    when: ['ownedBy'],
    attempt: 'revoked',
  },
  /** The same, parked questions too, where nobody is left who may claim it: it would park for good. */
  strand: { ...ENDS, from: [...held, ...interrupted], when: ['leftBy'], attempt: 'revoked' },
  /** Its time has come: it takes its place in the line of its conversation. */
  enterLine: { ...WAKES, when: ['dueInLine'] },
  /** The line is free and this one has waited longest. */
  unblock: { ...WAKES, when: ['nextInLine'], ready: 'unblocked' },
  /** Nobody has claimed the front of the line, so an answer goes before it. */
  stepBack: { ...WAKES, when: ['unclaimedFront'], event: false },
  /** The line is free for a todo whose answer came while it was busy: its holder goes on … */
  resumeLater: { ...GOES_ON_ANSWERED, by: 'server', when: ['attended', 'answeredLater'] },
  /** … or, parked, it may be claimed again. */
  answerLater: { ...REQUEUES_ANSWERED, by: 'server', when: ['parked', 'answeredLater'] },
  /** What a parent waits for has come about. */
  joined: { ...WAKES, when: ['joinHolds'], ready: 'joined' },
  /** It has not come about in the time that the parent gave it: the parent goes on without it. */
  joinTimeOut: { ...WAKES, when: ['joinOverdue'], ready: 'join_timeout' },
  /** A scheduled retry or a delayed release has come due: nothing moves but the ready hook. */
  comeDue: { ...WAKES, from: ['pending', 'failed'], when: ['comeDue'], ready: 'retried' },
} as const satisfies Record<string, Rule>

export type Verb = keyof typeof VERBS
export const VERB_NAMES = Object.keys(VERBS) as Verb[]

/** The event of a todo's creation carries this in place of a verb of the table. */
export type EventVerb = Verb | 'send'

export const rule = (verb: Verb): Rule => VERBS[verb]

/** Its row, or null for a `send` and for what a node of a later version wrote: a verb not known here. */
const knownRule = (verb: EventVerb): Rule | null =>
  (VERBS as Partial<Record<EventVerb, Rule>>)[verb] ?? null

/**
 * What this event is to those outside; null for one that they are not told of. One of a later version is
 * told as the state that it says, which a client may know already.
 */
export const shownAs = (verb: EventVerb): Shown | null => {
  const known = knownRule(verb)
  return known ? known.shown : 'status'
}

/** The verbs that make a todo's status anew: those that may lead elsewhere, and words of its agent. */
export const STATUS_VERBS: readonly Verb[] = VERB_NAMES.filter(
  (verb) => rule(verb).to !== 'same' || verb === 'say',
)

/**
 * Whether an event with this verb is a transition. A takeover and the loss of a holder are, although the
 * state stays.
 */
export const isTransition = (verb: EventVerb): boolean => {
  const known = knownRule(verb)
  return known?.to !== 'same' || known.lease === 'clear'
}

/** Whether this verb says that the work moved, and so stamps `progress_at`. */
export const stampsProgress = (verb: EventVerb): boolean => {
  const known = knownRule(verb)
  if (!known) return false
  const { progress, attempt, lease } = known
  return progress === true || attempt === 'open' || lease === 'renew' || lease === 'offer'
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

/** It may be retried: it has failed for good, or was rejected with messages that nobody has read. */
export const isDeadLetter = (todo: {
  state: State
  finishedAt: unknown
  unread: number
}): boolean =>
  todo.finishedAt !== null &&
  (todo.state === 'failed' || (todo.state === 'rejected' && todo.unread > 0))

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
