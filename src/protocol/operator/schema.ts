/**
 * The params of each method of `POST /operator` (docs/operating.md, "The operator API").
 * A policy and a card may be partial; the service merges them with the ones it has.
 */
import { z } from 'zod'
import { ENDPOINT_VERBS } from '../../domain/endpoint.ts'
import { LEASE, TIMEOUT_NAMES } from '../../domain/policy.ts'
import { DELIVERY_STATES } from '../../domain/push.ts'
import { CATCH_UPS, SCHEDULES } from '../../domain/sends/schedule.ts'
import { PRIORITY } from '../../domain/sends/send.ts'
import {
  atMostOneStart,
  author,
  budget,
  children,
  delay,
  interruptTtl,
  joinMembers,
  messageFrom,
  moment,
  needsTimeout,
  queueName,
  seconds,
  seq,
  timeouts,
  timesOut,
  todoQueryMembers,
} from '../json/fields.ts'
import { name, text } from '../json/parts.ts'
import { card } from './card.ts'

const message = messageFrom('ROLE_USER')
const count = (min: number, max: number) => z.int().min(min).max(max)
/** Where it can be changed, null removes it. */
const concurrency = count(1, 100_000)
const positive = z.number().positive()
/** Where the normal priority is always among those that may be named. */
const highest = count(PRIORITY.first, PRIORITY.normal)
const lowest = count(PRIORITY.normal, PRIORITY.last)

const unsettableTimeouts = z.strictObject(
  Object.fromEntries(
    TIMEOUT_NAMES.map((name) => [name, seconds().nullable().exactOptional()]),
  ) as Record<
    (typeof TIMEOUT_NAMES)[number],
    z.ZodExactOptional<z.ZodNullable<ReturnType<typeof seconds>>>
  >,
)

/** Null puts the default back in a member's place, or removes the limit. */
const policy = z.strictObject({
  maxAttempts: count(1, 100).nullable().exactOptional(),
  backoff: z
    .strictObject({
      initialSeconds: positive.max(86_400).nullable().exactOptional(),
      factor: z.number().min(1).max(100).nullable().exactOptional(),
      maxSeconds: positive.max(31_536_000).nullable().exactOptional(),
      jitter: z.number().min(0).max(1).nullable().exactOptional(),
    })
    .nullable()
    .exactOptional(),
  contexts: z.enum(['serial', 'parallel']).nullable().exactOptional(),
  line: z.enum(['client', 'context']).nullable().exactOptional(),
  reentry: z.enum(['explicit', 'question', 'author']).nullable().exactOptional(),
  dedupe: z.enum(['off', 'messageId']).nullable().exactOptional(),
  concurrency: concurrency.nullable().exactOptional(),
  interruptTtlSeconds: interruptTtl.nullable().exactOptional(),
  highestPriority: highest.nullable().exactOptional(),
  lowestPriority: lowest.nullable().exactOptional(),
  timeouts: unsettableTimeouts.nullable().exactOptional(),
  retentionDays: count(0, 36_500).nullable().exactOptional(),
})

export const none = z.strictObject({}).prefault({})

export const putQueue = z.strictObject({
  name: queueName,
  card: card.exactOptional(),
  policy: policy.exactOptional(),
})

export const removeQueue = z.strictObject({ name: queueName })

/** What an endpoint is vended with and can be changed to afterwards. */
const terms = {
  name: name.max(200),
  queues: z.array(queueName).min(1).max(1000),
  verbs: z.array(z.enum(ENDPOINT_VERBS)).min(1).max(ENDPOINT_VERBS.length),
  defaultLeaseSeconds: seconds(LEASE.minDefaultSeconds, LEASE.maxSeconds).exactOptional(),
  interruptTtlSeconds: interruptTtl.exactOptional(),
  effects: z.array(name).max(1000).exactOptional(),
  sendPerMinute: count(1, 1_000_000).exactOptional(),
  concurrency: concurrency.exactOptional(),
  highestPriority: highest.exactOptional(),
  lowestPriority: lowest.exactOptional(),
}

export const vend = z.strictObject({ ...terms, expiresInSeconds: seconds().exactOptional() })

export const update = z.strictObject({
  ...terms,
  id: name,
  name: terms.name.exactOptional(),
  queues: terms.queues.exactOptional(),
  verbs: terms.verbs.exactOptional(),
  concurrency: concurrency.nullable().exactOptional(),
  highestPriority: highest.nullable().exactOptional(),
  lowestPriority: lowest.nullable().exactOptional(),
})

export const revoke = z.strictObject({ id: name, cancelTasks: z.boolean().default(false) })

export const byId = z.strictObject({ id: name })
/** Without `artifacts` the new todo begins without those of the dead one. */
export const retry = z.strictObject({ id: name, artifacts: z.boolean().default(false) })
export const documents = z.strictObject({ id: name, after: seq.default(0) })
export const setSetting = z.strictObject({ key: name, value: text })
export const unsetSetting = z.strictObject({ key: name })

/** 0 first, 1 by default, 2 last. */
const priority = count(PRIORITY.first, PRIORITY.last)

export const send = z
  .strictObject({
    queue: queueName,
    message,
    priority: priority.exactOptional(),
    timeouts: timeouts.exactOptional(),
    author: author.exactOptional(),
    budget: budget.exactOptional(),
    notBefore: moment.exactOptional(),
    delaySeconds: delay.exactOptional(),
  })
  .refine(atMostOneStart, 'names a moment or a delay, not both')

export const putSchedule = z.strictObject({
  name: queueName,
  queue: queueName.exactOptional(),
  cron: text.exactOptional(),
  timeZone: text.max(100).exactOptional(),
  message: message.exactOptional(),
  priority: priority.exactOptional(),
  timeouts: timeouts.nullable().exactOptional(),
  catchUp: z.enum(CATCH_UPS).exactOptional(),
  catchUpLimit: count(1, SCHEDULES.catchUp.max).exactOptional(),
  paused: z.boolean().exactOptional(),
})
export const byName = z.strictObject({ name: queueName })
export const pauseSchedule = z.strictObject({ name: queueName, paused: z.boolean().default(true) })

export const fork = z.strictObject({ id: name, children })
export const join = z.strictObject({ id: name, ...joinMembers }).refine(timesOut, needsTimeout)

/** `question` is the seq of the question it is meant for, so that it never answers another one. */
export const answer = z.strictObject({ id: name, message, question: seq.exactOptional() })

/** A link lives at most as long as a question waits under the default settings. */
export const answerLink = z.strictObject({
  id: name,
  expiresInSeconds: seconds(1, 7 * 86_400).exactOptional(),
})

export const revokeSession = z
  .strictObject({ id: name.exactOptional(), all: z.literal(true).exactOptional() })
  .refine(({ id, all }) => (id === undefined) !== (all === undefined), 'names one, or all')

export const todoList = z
  .strictObject({
    ...todoQueryMembers,
    /** Dead letters only: todos that failed and have no retry to come. */
    dead: z.boolean().exactOptional(),
  })
  .prefault({})

export const deliveryList = z
  .strictObject({
    todoId: text.exactOptional(),
    state: z.enum(DELIVERY_STATES).exactOptional(),
    pageSize: count(1, 100).default(50),
    pageToken: text.exactOptional(),
  })
  .prefault({})

/** The previous secret may keep signing for up to thirty days. */
export const rotateSecret = z.strictObject({
  todoId: name,
  id: name,
  overlapSeconds: seconds(0, 2_592_000).exactOptional(),
})
