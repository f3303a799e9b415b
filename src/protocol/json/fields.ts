/**
 * The fields that the agent and the operator API read alike: names, spans, A2A documents, pages.
 * Both are ours, so what they do not know they refuse by name; a typing error never reads as
 * consent. Every number has an end that a column can hold.
 */
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { defined } from '../../base/defined.ts'
import { STATE_NAMES } from '../../domain/lifecycle.ts'
import type { TIMEOUT_NAMES } from '../../domain/policy.ts'
import type { Message, TodoFilter } from '../../domain/todo.ts'
import { artifactMembers, jsonObject, name, oneContent, partMembers, text } from './parts.ts'

/** Ten years: a bound for spans that have no narrower one. */
const MAX_SPAN_SECONDS = 315_360_000

/** A whole number of seconds; longer than nothing unless said otherwise. */
export const seconds = (min = 1, max = MAX_SPAN_SECONDS) => z.int().min(min).max(max)

/** How long an interrupt may wait: zero or less is unbounded, as it is in the settings. */
export const interruptTtl = seconds(-MAX_SPAN_SECONDS)

/** A place in a todo's order of events, as a column can hold it. */
export const seq = z.int().min(0).max(2_147_483_647)

export const queueName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must match ^[a-z0-9][a-z0-9-]{0,62}$')

const part = z.strictObject(partMembers).superRefine(oneContent)

export const artifact = z.strictObject({ ...artifactMembers, parts: z.array(part).min(1) })

/** A message whose author is known by the method; its id and its role may be left to the server. */
export const messageFrom = (role: Message['role']) =>
  z.strictObject({
    messageId: name.default(() => randomUUID()),
    contextId: text.exactOptional(),
    taskId: text.exactOptional(),
    role: z.literal(role).default(role),
    parts: z.array(part).min(1),
    metadata: jsonObject.exactOptional(),
    extensions: z.array(text).exactOptional(),
    referenceTaskIds: z.array(text).exactOptional(),
  })

/** Names of what a todo may do. */
export const effects = z.array(name.max(120)).max(100)

const limit = seconds().exactOptional()

/** Seconds by the names of a queue's policy: `{ "heartbeat": 600, "scheduleToClose": 86400 }`. */
export const timeouts = z.strictObject({
  scheduleToStart: limit,
  startToClose: limit,
  scheduleToClose: limit,
  heartbeat: limit,
} satisfies Record<(typeof TIMEOUT_NAMES)[number], unknown>)

const child = z.strictObject({
  queue: name,
  message: messageFrom('ROLE_USER'),
  effects: effects.exactOptional(),
  deadlineSeconds: seconds().exactOptional(),
  maxAttempts: z.int().min(1).max(100).exactOptional(),
})

/** How many children one call may make, and what a join may wait for. */
export const children = z.array(child).min(1).max(100)
export const childIds = z.array(name).min(1).max(1000)
export const until = z.enum(['all', 'any', 'each'])

/**
 * The params of both `todos.list`. A filter is what equals it: any text may be asked for. As
 * wherever every member may be left out, so may the params.
 */
export const todoQueryMembers = {
  queue: text.exactOptional(),
  state: z.enum(STATE_NAMES).exactOptional(),
  contextId: text.exactOptional(),
  pageSize: z.int().min(1).max(100).default(50),
  pageToken: text.exactOptional(),
}

export const todoQuery = z.strictObject(todoQueryMembers).prefault({})

/** An empty page token is what the last page gives, and asks for the first. */
export const toFilter = (query: z.output<typeof todoQuery>): TodoFilter =>
  defined<TodoFilter>({
    queue: query.queue,
    contextId: query.contextId,
    states: query.state && [query.state],
    pageToken: query.pageToken || undefined,
    pageSize: query.pageSize,
    includeArtifacts: false,
  })
