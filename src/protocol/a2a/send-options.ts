/**
 * What a client may wish for with a send, beyond the specification, in any version of it: members
 * of the request's metadata under keys of our own. Anything else in there is the client's.
 */
import { z } from 'zod'
import { invalid, Refusal } from '../../domain/errors.ts'
import {
  BUSY_POLICIES,
  type BusyPolicy,
  type TIMEOUT_NAMES,
  type Timeouts,
} from '../../domain/policy.ts'
import type { JsonObject } from '../../domain/todo.ts'
import { IDEMPOTENCY_MEMBER, WAIT_MEMBER } from '../../domain/todo.ts'
import { seconds } from '../json/fields.ts'
import { name } from '../json/parts.ts'

/** Seconds by the names of a queue's policy: `{ "heartbeat": 600, "scheduleToClose": 86400 }`. */
const TIMEOUTS = 'urn:switchboard:timeouts'

/** One of BUSY_POLICIES: what to do where the conversation has live todos. */
const BUSY = 'urn:switchboard:busy'

/** Refuses: invalid. */
export const readBusy = (metadata: JsonObject | undefined): BusyPolicy | undefined => {
  const wished = metadata?.[BUSY]
  if (wished === undefined) return undefined
  const busy = BUSY_POLICIES.find((policy) => policy === wished)
  if (busy) return busy
  throw invalid(`metadata.${BUSY}`, `must be one of ${BUSY_POLICIES.join(', ')}`)
}

/** Names of what the task may do, among what its sender may. */
const EFFECTS = 'urn:switchboard:effects'

export const effects = z.array(name.max(120)).max(100)

/** Refuses: invalid. */
export const readEffects = (metadata: JsonObject | undefined): string[] | undefined => {
  const wished = metadata?.[EFFECTS]
  if (wished === undefined) return undefined
  const read = effects.safeParse(wished)
  if (read.success) return read.data
  throw invalid(`metadata.${EFFECTS}`, 'must be a list of names')
}

const IDEMPOTENCY_HEADER = 'Idempotency-Key'

/** 1 to 255 printable characters of ASCII. */
const isKey = (value: unknown): value is string =>
  typeof value === 'string' && /^[ -~]{1,255}$/.test(value)

/** By the header or by the metadata; by both only if they agree. Refuses: invalid. */
export const readIdempotencyKey = (
  header: string | null,
  metadata: JsonObject | undefined,
): string | undefined => {
  const wished = metadata?.[IDEMPOTENCY_MEMBER]
  const rule = 'must be 1 to 255 printable ASCII characters'
  if (header !== null && !isKey(header)) throw invalid(IDEMPOTENCY_HEADER, rule)
  if (wished === undefined) return header ?? undefined
  const field = `metadata.${IDEMPOTENCY_MEMBER}`
  if (!isKey(wished)) throw invalid(field, rule)
  if (header === null || header === wished) return wished
  throw invalid(field, `must be the same as the header ${IDEMPOTENCY_HEADER}`)
}

const limit = seconds().exactOptional()

export const timeouts = z.strictObject({
  scheduleToStart: limit,
  startToClose: limit,
  scheduleToClose: limit,
  heartbeat: limit,
} satisfies Record<(typeof TIMEOUT_NAMES)[number], unknown>)

/** Refuses: invalid, naming the member at fault. */
const readDocument = <S extends z.ZodType>(
  key: string,
  schema: S,
  metadata: JsonObject | undefined,
): z.output<S> | undefined => {
  const wished = metadata?.[key]
  if (wished === undefined) return undefined
  const read = schema.safeParse(wished)
  if (read.success) return read.data
  throw new Refusal('invalid', {
    violations: read.error.issues.map(({ path, message }) => ({
      field: ['metadata', key, ...path].join('.'),
      description: message,
    })),
  })
}

/** Refuses: invalid. */
export const readTimeouts = (metadata: JsonObject | undefined): Timeouts | undefined =>
  readDocument(TIMEOUTS, timeouts, metadata)

/** How long a blocking send waits, at most: `{ "maxMs": 5000 }`. */
const WAIT = WAIT_MEMBER

const wait = z.strictObject({ maxMs: z.int().min(0) })

/** Milliseconds; what the server itself allows is another bound. Refuses: invalid. */
export const readWait = (metadata: JsonObject | undefined): number | undefined =>
  readDocument(WAIT, wait, metadata)?.maxMs
