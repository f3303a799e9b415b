/**
 * Push notifications: what a webhook is, and what becomes of a delivery after an attempt. Pure: the
 * receiver's answer goes in, the verdict comes out.
 */
import { type Backoff, retryDelaySeconds } from './policy.ts'

/** The protocol version in which a config was made and its webhook is called. */
export type Dialect = '1.0' | '0.3'

export interface PushAuthentication {
  scheme: string
  credentials?: string
}

/** A webhook as its owner asks for it. */
export interface NewPushConfig {
  /** The server makes one if it is left out. */
  id?: string
  url: string
  token?: string
  authentication?: PushAuthentication
  dialect: Dialect
  /** Where the config is in the request, such as `configuration.push`, to name faults by. */
  path?: string
}

/** A webhook that is ready to be kept: vetted, with its id and its secret. */
export interface KeptPushConfig extends NewPushConfig {
  id: string
  secret: string
  /** The endpoint that made it; null for an operator. */
  endpointId: string | null
  /** Its secrets as they are stored: sealed, where the node has a key for that. */
  stored: { token: string | undefined; credentials: string | undefined; secret: string }
}

/** A webhook as it may be shown. Its credentials are written and never read. */
export interface PushConfig {
  todoId: string
  id: string
  url: string
  token: string | null
  scheme: string | null
  dialect: Dialect
  createdAt: Date
}

/** How many configs one todo may have. */
export const PUSH_CONFIGS_AT_MOST = 100

export const DELIVERY_STATES = ['pending', 'delivered', 'dead'] as const
type DeliveryState = (typeof DELIVERY_STATES)[number]

/** An entry of the delivery log. */
export interface Delivery {
  /** The receiver sees this as `webhook-id`. */
  id: string
  todoId: string
  configId: string
  queue: string
  /** Null if the config has been deleted. */
  url: string | null
  /** The seq of the event that it sends. */
  seq: number
  state: DeliveryState
  attempts: number
  /** The HTTP status of the last answer. */
  status: number | null
  reason: string | null
  createdAt: Date
  attemptedAt: Date | null
  /** Set if it is pending and the next one for its webhook. */
  nextAttemptAt: Date | null
  settledAt: Date | null
}

export interface DeliveryFilter {
  todoId?: string
  state?: DeliveryState
  pageSize: number
  pageToken?: string
}

/** Newest first; the last page has an empty token. */
export interface DeliveryPage {
  deliveries: Delivery[]
  nextPageToken: string
}

export interface PushLimits {
  /** The most attempts of one delivery. */
  maxAttempts: number
  /** A delivery older than this is not attempted again. */
  maxAgeSeconds: number
  backoff: Backoff
  /** How long one attempt may take in all. */
  timeoutMs: number
}

export const PUSH_LIMITS: PushLimits = {
  maxAttempts: 15,
  maxAgeSeconds: 86_400,
  backoff: { initialSeconds: 2, factor: 2, maxSeconds: 3600, jitter: 0.25 },
  timeoutMs: 15_000,
}

/** What an operator may set while everything runs; it overrides the limits of the node. */
export const PUSH_SETTINGS = {
  push_max_attempts: {
    help: 'tries of one delivery to a webhook, 1 to 100',
    pattern: /^([1-9]\d?|100)$/,
  },
  push_timeout_seconds: {
    help: 'seconds that one try may take, 1 to 60',
    pattern: /^([1-9]|[1-5]\d|60)$/,
  },
} as const

export const pushLimits = (
  limits: PushLimits,
  settings: ReadonlyMap<string, string>,
): PushLimits => {
  const set = (name: keyof typeof PUSH_SETTINGS): number | null => {
    const value = settings.get(name)
    return value !== undefined && PUSH_SETTINGS[name].pattern.test(value) ? Number(value) : null
  }
  const seconds = set('push_timeout_seconds')
  return {
    ...limits,
    maxAttempts: set('push_max_attempts') ?? limits.maxAttempts,
    timeoutMs: seconds === null ? limits.timeoutMs : seconds * 1000,
  }
}

/** The outcome of an attempt: an HTTP status, or a word for why there is none. */
export type Tried =
  | { status: number; retryAfterSeconds?: number }
  | { failure: string; final?: boolean }

export interface Verdict {
  state: DeliveryState
  status: number | null
  reason: string | null
  /** The seconds until the next attempt, if it stays pending. */
  againSeconds: number
}

/**
 * Refusals that time may heal: a receiver that is being replaced, is locked or waits for something
 * else (409, 421, 423), a slow request, an early one, too many.
 */
const RETRYABLE = [408, 409, 421, 423, 425, 429]

const isFinal = (tried: Tried): boolean => {
  if ('failure' in tried) return tried.final === true
  const { status } = tried
  return status >= 400 && status < 500 && !RETRYABLE.includes(status)
}

/**
 * The seconds that a `Retry-After` asks for: a number of them, or a moment by the receiver's own clock
 * (its `Date`; by ours where it sends none). Null where it is neither.
 */
export const retryAfterSeconds = (value: string, date: string, now: Date): number | null => {
  const text = value.trim()
  if (/^\d+$/.test(text)) return Number(text)
  // The three forms of HTTP begin with a day; Date.parse would take any text that holds a number.
  const isDate = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d\d:\d\d:\d\d/.test(text)
  const until = isDate ? Date.parse(text.endsWith('GMT') ? text : `${text} GMT`) : Number.NaN
  if (Number.isNaN(until)) return null
  const sentAt = Date.parse(date)
  return Math.max(0, (until - (Number.isNaN(sentAt) ? now.getTime() : sentAt)) / 1000)
}

/**
 * How long the receiver's wish puts the next try off: never longer than the longest backoff, and never
 * beyond the time in which the delivery is tried at all, so that no receiver can end it by asking.
 */
const requestedSeconds = (tried: Tried, ageSeconds: number, limits: PushLimits): number => {
  const asked = 'status' in tried ? (tried.retryAfterSeconds ?? 0) : 0
  return Math.min(asked, limits.backoff.maxSeconds, Math.max(0, limits.maxAgeSeconds - ageSeconds))
}

/**
 * Any 2xx delivers. A final refusal ends the delivery at once; after anything else it is attempted
 * again, spaced out and not before the receiver asks, until it has had enough attempts or is too old.
 */
export const verdictOf = (
  tried: Tried,
  { attempts, ageSeconds }: { attempts: number; ageSeconds: number },
  limits: PushLimits,
  chance: number,
): Verdict => {
  const status = 'status' in tried ? tried.status : null
  const reason = 'failure' in tried ? tried.failure : `answered ${tried.status}`
  const dead = (why: string): Verdict => ({ state: 'dead', status, reason: why, againSeconds: 0 })
  if (status !== null && status >= 200 && status < 300) {
    return { state: 'delivered', status, reason: null, againSeconds: 0 }
  }
  if (isFinal(tried)) return dead(reason)
  if (attempts >= limits.maxAttempts) return dead(`${reason}; gave up after ${attempts} attempts`)
  const again = retryDelaySeconds(limits.backoff, attempts, chance)
  const againSeconds = Math.max(again, requestedSeconds(tried, ageSeconds, limits))
  if (ageSeconds + againSeconds > limits.maxAgeSeconds) {
    return dead(`${reason}; gave up after ${Math.round(ageSeconds)} s`)
  }
  return { state: 'pending', status, reason, againSeconds }
}

/** A URL as logs, board and command line may show it: without the user and the query's values. */
export const maskUrl = (text: string): string => {
  if (!URL.canParse(text)) return '[not a URL]'
  const url = new URL(text)
  const names = [...url.searchParams.keys()].map((name) => `${encodeURIComponent(name)}=***`)
  const user = url.username || url.password ? '***@' : ''
  const query = names.length > 0 ? `?${names.join('&')}` : ''
  return `${url.protocol}//${user}${url.host}${url.pathname}${query}`
}
