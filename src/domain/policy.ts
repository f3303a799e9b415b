/**
 * Arithmetic on policies, numbers in and numbers out: how long a lease, a wait or a key lasts, and
 * when to try again. There is no clock here: moments are the database's, and we compute only spans.
 */

export interface Backoff {
  initialSeconds: number
  factor: number
  maxSeconds: number
  /** 0..1, the share of a delay that is left to chance. */
  jitter: number
}

/** In seconds; an absent one is no limit. A send's own override the queue's. */
export interface Timeouts {
  /** From claimable to claimed. */
  scheduleToStart?: number
  /** From claimed to the end of the attempt, without the waits for answers. */
  startToClose?: number
  /** From sent to ended, retries included. */
  scheduleToClose?: number
  /** From one sign of progress to the next. */
  heartbeat?: number
}

export const TIMEOUT_NAMES = [
  'scheduleToStart',
  'startToClose',
  'scheduleToClose',
  'heartbeat',
] as const satisfies (keyof Timeouts)[]

/**
 * What the sender wants for a message into a conversation that has live todos. `enqueue`: it waits
 * its turn. `reject`: it is refused, as a rejected task. `interrupt`: the todo at work is canceled
 * and this one comes next. `rollback`: every live todo of the conversation is canceled.
 */
export const BUSY_POLICIES = ['enqueue', 'reject', 'interrupt', 'rollback'] as const
export type BusyPolicy = (typeof BUSY_POLICIES)[number]

/** The errors of todos that passed one of these timeouts. */
export const TIMEOUT_ERRORS = [
  'schedule_to_start_timeout',
  'start_to_close_timeout',
  'schedule_to_close_timeout',
  'heartbeat_timeout',
] as const

/** How a queue treats its todos. Every member has a default, so a queue needs no policy of its own. */
export interface QueuePolicy {
  maxAttempts: number
  backoff: Backoff
  contexts: 'serial' | 'parallel'
  /**
   * Whose todos stand in one line. `client`: those of one client in one context. `context`: all of one
   * context, whoever sent them; whoever may send to the queue may speak there.
   */
  line: 'client' | 'context'
  /**
   * What a message in a conversation means that names no todo. `explicit`: a new todo. `question`:
   * the answer to its author's open question there, if there is exactly one. `author`: that, or a
   * message to its author's live todo.
   */
  reentry: 'explicit' | 'question' | 'author'
  dedupe: 'off' | 'messageId'
  concurrency?: number
  interruptTtlSeconds?: number
  /** The priorities that clients may name, where their endpoint does not say. */
  highestPriority?: number
  lowestPriority?: number
  timeouts: Timeouts
  /** How long ended todos are kept; absent or 0 means for ever. */
  retentionDays?: number
}

export const DEFAULT_POLICY: QueuePolicy = {
  maxAttempts: 5,
  backoff: { initialSeconds: 1, factor: 2, maxSeconds: 300, jitter: 0.2 },
  contexts: 'serial',
  line: 'client',
  reentry: 'explicit',
  dedupe: 'off',
  timeouts: {},
}

/** Bounds of an endpoint's default lease and of one call's lease, in seconds. */
export const LEASE = { defaultSeconds: 300, minDefaultSeconds: 60, maxSeconds: 86_400 } as const

/**
 * The default wait is the longest lease that can be granted, so no wait ends while its holder's lease
 * might still run (docs/design/interrupt-deadline.md).
 */
export const INTERRUPT_TTL = {
  defaultSeconds: LEASE.maxSeconds,
  minSeconds: LEASE.minDefaultSeconds,
  /** Ten years. Not much beyond, arithmetic on moments fails, and the whole sweep with it. */
  maxSeconds: 315_360_000,
} as const

export const INTERRUPT_MAX_WAIT_DEFAULT_SECONDS = 7 * 86_400

/**
 * How long a holder that has not heartbeated during its wait has, from the answer to its first call. Zero
 * makes the lease of an answer as long as any other.
 */
export const ANSWER_LEASE = {
  setting: 'answer_lease_seconds',
  defaultSeconds: 60,
  maxSeconds: LEASE.maxSeconds,
} as const

export const isAnswerLease = (value: string): boolean =>
  /^\d{1,9}$/.test(value) && Number(value) <= ANSWER_LEASE.maxSeconds

/**
 * Seconds until the next try after the `attempt`-th attempt (1-based) failed. `chance` is 0..1. The cap
 * comes after the jitter, so that nothing ever waits longer than `maxSeconds`.
 */
export const retryDelaySeconds = (backoff: Backoff, attempt: number, chance: number): number => {
  const plain = Math.min(
    backoff.maxSeconds,
    backoff.initialSeconds * backoff.factor ** Math.max(0, attempt - 1),
  )
  const spread = plain * backoff.jitter
  return Math.min(backoff.maxSeconds, plain - spread + 2 * spread * chance)
}

/** A requested wait, brought within its bounds; null is unbounded. */
export const boundedInterruptTtl = (seconds: number): number | null =>
  seconds <= 0
    ? null
    : Math.min(Math.max(seconds, INTERRUPT_TTL.minSeconds), INTERRUPT_TTL.maxSeconds)

/**
 * How long an interrupt may wait by the setting: an absent or unparsable value keeps the default,
 * zero or less means unbounded, and a positive value is raised to the minimum. Null is unbounded.
 */
export const interruptTtlSeconds = (
  value: string | null,
): { seconds: number | null; parsed: boolean } => {
  if (value === null) return { seconds: INTERRUPT_TTL.defaultSeconds, parsed: true }
  const number = /^\s*[-+]?\d+\s*$/.test(value) ? Number(value) : Number.NaN
  if (!Number.isSafeInteger(number)) return { seconds: INTERRUPT_TTL.defaultSeconds, parsed: false }
  return { seconds: boundedInterruptTtl(number), parsed: true }
}

/** How long the key of a send is kept: a day at least, for a client that is down overnight. */
export const IDEMPOTENCY_WINDOW = {
  setting: 'idempotency_window_seconds',
  minSeconds: 86_400,
  defaultSeconds: 86_400,
  /** A year. */
  maxSeconds: 31_536_000,
} as const

/** Null for a value that is not a window. */
const readWindow = (value: string): number | null => {
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN
  const { minSeconds, maxSeconds } = IDEMPOTENCY_WINDOW
  return seconds >= minSeconds && seconds <= maxSeconds ? seconds : null
}

export const isIdempotencyWindow = (value: string): boolean => readWindow(value) !== null

/** The window by the setting; an absent or unfit value keeps the default. */
export const idempotencyWindowSeconds = (value: string | null): number =>
  (value === null ? null : readWindow(value)) ?? IDEMPOTENCY_WINDOW.defaultSeconds
