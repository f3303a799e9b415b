/**
 * The params of each method of `POST /agent` (docs/agents.md, "Without the kit").
 */
import { z } from 'zod'
import { INTERRUPT_STATES, type InterruptState } from '../../domain/lifecycle.ts'
import { LEASE } from '../../domain/policy.ts'
import {
  artifact,
  children,
  effects,
  joinMembers,
  messageFrom,
  needsTimeout,
  seconds,
  seq,
  spending,
  timesOut,
} from '../json/fields.ts'
import { jsonObject, name, text } from '../json/parts.ts'

export const MAX_WAIT_MS = 60_000
const message = messageFrom('ROLE_AGENT')
const leaseSeconds = seconds(1, LEASE.maxSeconds)
const summary = text.exactOptional()
/** By which a call is known when it is made again. */
const key = name.max(200)
const waitMs = z.int().min(0).max(MAX_WAIT_MS).default(0)

/**
 * Params that name the todo and the claim it is held by. Eighteen digits are more claims than there
 * will ever be, and fit a bigint.
 */
const fence = z.string().regex(/^(0|[1-9]\d{0,17})$/, 'must be a number as a decimal string')
const held = <S extends z.ZodRawShape>(members: S) =>
  z.strictObject({ id: name, fence, ...members })

export const claim = z
  .strictObject({
    queues: z.array(name).min(1).max(100).exactOptional(),
    limit: z.int().min(1).max(100).default(1),
    waitMs,
    leaseSeconds: leaseSeconds.exactOptional(),
    claimant: name.max(200).exactOptional(),
    effects: effects.min(1).exactOptional(),
  })
  .prefault({})

export const heartbeat = held({
  leaseSeconds: leaseSeconds.exactOptional(),
  holdSeconds: seconds().exactOptional(),
})

/** It goes into the event's row, which the feeds read, so it stays small. */
const MAX_EVENT_METADATA = 8192
const eventMetadata = jsonObject
  .refine(
    (metadata) => JSON.stringify(metadata).length <= MAX_EVENT_METADATA,
    `must be at most ${MAX_EVENT_METADATA} characters of JSON`,
  )
  .exactOptional()

export const progress = held({
  note: text.exactOptional(),
  percent: z.number().min(0).max(100).exactOptional(),
  metadata: eventMetadata,
})

export const say = held({ message, metadata: eventMetadata })

export const addArtifact = held({
  artifact,
  append: z.boolean().default(false),
  lastChunk: z.boolean().default(false),
  key: key.exactOptional(),
  metadata: eventMetadata,
})

export const discardArtifacts = held({
  artifactIds: z.array(name).min(1).max(1000).exactOptional(),
})

export const interrupt = held({
  state: z.enum(INTERRUPT_STATES as [InterruptState, ...InterruptState[]]),
  message,
  hold: z.boolean().default(true),
  schema: jsonObject.exactOptional(),
})

export const messages = held({ after: seq.default(0), waitMs })
export const acknowledge = held({ through: seq })

export const complete = held({
  message: message.exactOptional(),
  artifacts: z.array(artifact).exactOptional(),
  result: jsonObject.exactOptional(),
  summary,
  acknowledge: seq.exactOptional(),
  direct: z.boolean().exactOptional(),
})

export const fail = held({
  error: z.strictObject({ code: name, message: text }),
  message: message.exactOptional(),
  retryable: z.boolean().default(true),
  retryInSeconds: seconds(0).exactOptional(),
  summary,
})

export const release = held({ summary, inSeconds: seconds(0).exactOptional() })
export const reject = held({ message: message.exactOptional() })
export const cancel = held({ message: message.exactOptional() })
export const withdraw = held({ message: message.exactOptional() })
export const get = z.strictObject({ id: name })
export const documents = z.strictObject({
  id: name,
  fence: fence.exactOptional(),
  after: seq.default(0),
})
export const child = held({ child: name })
export const spend = spending({ id: name, fence, key: key.exactOptional() })
export const fork = held({ children, key: key.exactOptional() })
export const join = held(joinMembers).refine(timesOut, needsTimeout)
