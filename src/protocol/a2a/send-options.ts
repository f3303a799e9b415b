/**
 * What a send's metadata may say, in any version of the protocol: our own options, each a member
 * under a key of ours. Anything else in there is the client's.
 */
import { z } from 'zod'
import { invalid, Refusal } from '../../domain/errors.ts'
import { BUSY_POLICIES, type BusyPolicy, type Timeouts } from '../../domain/policy.ts'
import { AUTHOR_ALIAS, AUTHOR_MEMBER, AUTHOR_RULE } from '../../domain/sends/author.ts'
import { hasStart, PRIORITY, SEND_DELAY } from '../../domain/sends/send.ts'
import type { Amounts } from '../../domain/spend.ts'
import { IDEMPOTENCY_MEMBER, type JsonObject, WAIT_MEMBER } from '../../domain/todo.ts'
import { atMostOneStart, author, budget, delay, effects, moment, timeouts } from '../json/fields.ts'

/** Seconds, as in a queue's policy. */
const TIMEOUTS = 'urn:switchboard:timeouts'

/** One of BUSY_POLICIES: what to do if the conversation has live todos. */
const BUSY = 'urn:switchboard:busy'

const busy = z.enum(BUSY_POLICIES)

/** Names of what the task may do, among what its sender may. */
const EFFECTS = 'urn:switchboard:effects'

/** How much the task may spend, by kind. */
const BUDGET = 'urn:switchboard:budget'

/** 0 to 2: in which order its queue is worked through, within what the sender's token allows. */
const PRIORITY_MEMBER = 'urn:switchboard:priority'

/** When the task may begin: a moment, or seconds from now. */
const NOT_BEFORE = 'urn:switchboard:not-before'
const DELAY = 'urn:switchboard:delay-seconds'

const priority = z.int().min(PRIORITY.first).max(PRIORITY.last)

/** Under WAIT_MEMBER: how long a blocking send waits, at most, as `{ "maxMs": 5000 }`. */
const wait = z.strictObject({ maxMs: z.int().min(0) })

/** One option. Refuses: invalid, by `rule` as a whole, or else naming each member at fault. */
const readOption = <S extends z.ZodType>(
  key: string,
  schema: S,
  metadata: JsonObject | undefined,
  rule?: string,
): z.output<S> | undefined => {
  const given = metadata?.[key]
  if (given === undefined) return undefined
  const read = schema.safeParse(given)
  if (read.success) return read.data
  if (rule !== undefined) throw invalid(`metadata.${key}`, rule)
  throw new Refusal('invalid', {
    violations: read.error.issues.map(({ path, message }) => ({
      field: ['metadata', key, ...path].join('.'),
      description: message,
    })),
  })
}

interface Options {
  timeouts: Timeouts | undefined
  busy: BusyPolicy | undefined
  effects: string[] | undefined
  budget: Amounts | undefined
  author: string | undefined
  priority: number | undefined
  notBefore: Date | undefined
  delaySeconds: number | undefined
}

/** By either spelling; by both only if they agree. Refuses: invalid. */
const readAuthor = (metadata: JsonObject | undefined): string | undefined => {
  const named = readOption(AUTHOR_MEMBER, author, metadata, AUTHOR_RULE)
  const alias = readOption(AUTHOR_ALIAS, author, metadata, AUTHOR_RULE)
  if (named === undefined || alias === undefined || named === alias) return named ?? alias
  throw invalid(`metadata.${AUTHOR_ALIAS}`, `must be the same as ${AUTHOR_MEMBER}`)
}

/** The options that are kept with the todo. Refuses: invalid. */
export const readSendOptions = (metadata: JsonObject | undefined): Options => {
  const options: Options = {
    timeouts: readOption(TIMEOUTS, timeouts, metadata),
    busy: readOption(BUSY, busy, metadata, `must be one of ${BUSY_POLICIES.join(', ')}`),
    effects: readOption(EFFECTS, effects, metadata, 'must be a list of names'),
    budget: readOption(BUDGET, budget, metadata),
    author: readAuthor(metadata),
    priority: readOption(PRIORITY_MEMBER, priority, metadata, 'must be 0, 1 or 2'),
    notBefore: readOption(NOT_BEFORE, moment, metadata, 'must be a time with its zone (RFC 3339)'),
    delaySeconds: readOption(
      DELAY,
      delay,
      metadata,
      `must be a whole number from 0 to ${SEND_DELAY.maxSeconds}`,
    ),
  }
  if (!atMostOneStart(options)) {
    throw invalid(`metadata.${DELAY}`, `cannot stand beside ${NOT_BEFORE}`)
  }
  // The other policies are about what the conversation does at the moment of the send.
  if (hasStart(options) && (options.busy ?? 'enqueue') !== 'enqueue') {
    throw invalid(`metadata.${BUSY}`, 'must be enqueue for a task that waits for its time')
  }
  return options
}

/** Milliseconds; what the server itself allows is another bound. Refuses: invalid. */
export const readWait = (metadata: JsonObject | undefined): number | undefined =>
  readOption(WAIT_MEMBER, wait, metadata)?.maxMs

const IDEMPOTENCY_HEADER = 'Idempotency-Key'

/** 1 to 255 printable characters of ASCII. */
const isKey = (value: unknown): value is string =>
  typeof value === 'string' && /^[ -~]{1,255}$/.test(value)

/** By the header or by the metadata; by both only if they agree. Refuses: invalid. */
export const readIdempotencyKey = (
  header: string | null,
  metadata: JsonObject | undefined,
): string | undefined => {
  const given = metadata?.[IDEMPOTENCY_MEMBER]
  const rule = 'must be 1 to 255 printable ASCII characters'
  if (header !== null && !isKey(header)) throw invalid(IDEMPOTENCY_HEADER, rule)
  if (given === undefined) return header ?? undefined
  const field = `metadata.${IDEMPOTENCY_MEMBER}`
  if (!isKey(given)) throw invalid(field, rule)
  if (header === null || header === given) return given
  throw invalid(field, `must be the same as the header ${IDEMPOTENCY_HEADER}`)
}
