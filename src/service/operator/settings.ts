/** What an operator may set while everything runs, and what each value must be. */
import { fitsHolding, HOLDS } from '../../domain/budget.ts'
import { invalid } from '../../domain/errors.ts'
import {
  ANSWER_LEASE,
  IDEMPOTENCY_WINDOW,
  INTERRUPT_MAX_WAIT_DEFAULT_SECONDS,
  INTERRUPT_TTL,
  isAnswerLease,
  isIdempotencyWindow,
} from '../../domain/policy.ts'
import { PUSH_LIMITS, PUSH_SETTINGS } from '../../domain/push.ts'
import { isMaxSchedules, SCHEDULES } from '../../domain/sends/schedule.ts'
import { isMaxDelay, SEND_DELAY } from '../../domain/sends/send.ts'
import { readSettings, writeSetting } from '../../store/admin/settings.ts'
import type { Parts } from '../parts.ts'

/** The delay after which a client reconnects to a feed. */
export const SSE_RETRY_MS = 2000

interface Setting {
  help: string
  /** What holds where it is not set. Whoever reads it falls back to the same constant. */
  unset: number | null
  accepts: (value: string) => boolean
}

const matching = (help: string, unset: number, pattern: RegExp): Setting => ({
  help,
  unset,
  accepts: (value) => pattern.test(value),
})

const ofPush = (key: keyof typeof PUSH_SETTINGS, unset: number): Setting =>
  matching(PUSH_SETTINGS[key].help, unset, PUSH_SETTINGS[key].pattern)

const ofHolding = (of: keyof typeof HOLDS): Setting => {
  const { help, min, max, standard } = HOLDS[of]
  return {
    help: `${help}, ${min} to ${max}`,
    unset: standard,
    accepts: (value) => fitsHolding(HOLDS[of], value),
  }
}

/** A new setting gets a row here; whoever needs it reads it from the registry. */
export const SETTINGS: Readonly<Record<string, Setting>> = {
  interrupt_lease_ttl_seconds: {
    help: 'seconds an interrupt may wait; 0 or less: for ever',
    unset: INTERRUPT_TTL.defaultSeconds,
    // Anything goes: the sweep logs a value that does not parse and keeps the default.
    accepts: () => true,
  },
  interrupt_max_wait_seconds: matching(
    'seconds a live holder may extend its wait to',
    INTERRUPT_MAX_WAIT_DEFAULT_SECONDS,
    /^[1-9]\d{0,8}$/,
  ),
  [ANSWER_LEASE.setting]: {
    help: `seconds a holder that was silent during its wait has from the answer to its first call, up to ${ANSWER_LEASE.maxSeconds}; 0: a whole lease`,
    unset: ANSWER_LEASE.defaultSeconds,
    accepts: isAnswerLease,
  },
  sse_retry_ms: matching(
    'milliseconds a client waits before it reconnects an event stream',
    SSE_RETRY_MS,
    /^\d{1,7}$/,
  ),
  [IDEMPOTENCY_WINDOW.setting]: {
    help: `seconds the key of a send is kept, ${IDEMPOTENCY_WINDOW.minSeconds} at least`,
    unset: IDEMPOTENCY_WINDOW.defaultSeconds,
    accepts: isIdempotencyWindow,
  },
  [SEND_DELAY.setting]: {
    help: `seconds a send may name its moment ahead; 0: none, at most ${SEND_DELAY.maxSeconds}`,
    unset: SEND_DELAY.defaultSeconds,
    accepts: isMaxDelay,
  },
  [SCHEDULES.setting]: {
    help: `schedules that there may be, ${SCHEDULES.max} at most`,
    unset: SCHEDULES.standard,
    accepts: isMaxSchedules,
  },
  [HOLDS.documents.setting]: ofHolding('documents'),
  [HOLDS.bytes.setting]: ofHolding('bytes'),
  default_queue: {
    help: 'the queue whose card is at /.well-known/agent-card.json',
    unset: null,
    accepts: (value) => value !== '',
  },
  push_max_attempts: ofPush('push_max_attempts', PUSH_LIMITS.maxAttempts),
  push_timeout_seconds: ofPush('push_timeout_seconds', PUSH_LIMITS.timeoutMs / 1000),
}

const knownSetting = (key: string): Setting => {
  const setting = Object.hasOwn(SETTINGS, key) ? SETTINGS[key] : undefined
  if (setting) return setting
  throw invalid('key', `is not a setting; there are ${Object.keys(SETTINGS).join(', ')}`)
}

export interface SettingsService {
  /** Every known key with its value, or null if it is not set. */
  getSettings(): Promise<Record<string, string | null>>
  setSetting(key: string, value: string): Promise<void>
  unsetSetting(key: string): Promise<void>
}

export const createSettings = ({ database }: Pick<Parts, 'database'>): SettingsService => ({
  getSettings: async () => {
    const set = await readSettings(database)
    return Object.fromEntries(Object.keys(SETTINGS).map((key) => [key, set.get(key) ?? null]))
  },
  setSetting: async (key, value) => {
    const { accepts, help } = knownSetting(key)
    if (!accepts(value)) throw invalid('value', `does not fit ${key}: ${help}`)
    await writeSetting(database, key, value)
  },
  unsetSetting: async (key) => {
    knownSetting(key)
    await writeSetting(database, key, null)
  },
})
