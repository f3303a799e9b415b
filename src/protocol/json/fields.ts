/**
 * The fields that the agent and the operator API read alike: names, spans, A2A documents, pages.
 * Both APIs are ours, so they refuse unknown members by name: a typing error never passes for
 * consent. Every number has a bound that its column can hold.
 */
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { defined } from '../../base/defined.ts'
import { STATE_NAMES } from '../../domain/lifecycle.ts'
import type { TIMEOUT_NAMES } from '../../domain/policy.ts'
import { AUTHOR_RULE, isAuthor, normalAuthor } from '../../domain/sends/author.ts'
import { SEND_DELAY, type Start } from '../../domain/sends/send.ts'
import { MAX_AMOUNT, SPEND_KINDS, type SpendKind } from '../../domain/spend.ts'
import { type Message, ON_JOIN_TIMEOUT, type TodoFilter } from '../../domain/todo.ts'
import { enumName, ROLES } from './enums.ts'
import { artifactMembers, jsonObject, name, oneContent, partMembers, text } from './parts.ts'

/** Ten years, for spans that have no narrower bound. */
const MAX_SPAN_SECONDS = 315_360_000

/** A whole number of seconds, at least one by default. */
export const seconds = (min = 1, max = MAX_SPAN_SECONDS) => z.int().min(min).max(max)

/** How long an interrupt may wait: zero or less means without bound, as in the settings. */
export const interruptTtl = seconds(-MAX_SPAN_SECONDS)

/** The number of one of a todo's events, within what a column can hold. */
export const seq = z.int().min(0).max(2_147_483_647)

export const queueName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must match ^[a-z0-9][a-z0-9-]{0,62}$')

const part = z.strictObject(partMembers).superRefine(oneContent)

export const artifact = z.strictObject({ ...artifactMembers, parts: z.array(part).min(1) })

/** A message whose author follows from the method; the server can fill in its id and its role. */
export const messageFrom = (role: Message['role']) =>
  z.strictObject({
    messageId: name.default(() => randomUUID()),
    contextId: text.exactOptional(),
    taskId: text.exactOptional(),
    role: z.preprocess(enumName(ROLES), z.literal(role)).default(role),
    parts: z.array(part).min(1),
    metadata: jsonObject.exactOptional(),
    extensions: z.array(text).exactOptional(),
    referenceTaskIds: z.array(text).exactOptional(),
  })

/** Whom a send is from. */
export const author = z.custom<string>(isAuthor, AUTHOR_RULE).transform(normalAuthor)

/** When a todo may begin: a moment with its time zone, or seconds from now. */
export const moment = z.iso.datetime({ offset: true }).transform((text) => new Date(text))
export const delay = seconds(0, SEND_DELAY.maxSeconds)

export const atMostOneStart = ({ notBefore, delaySeconds }: Start): boolean =>
  notBefore === undefined || delaySeconds === undefined

/** Names of what a todo may do. */
export const effects = z.array(name.max(120)).max(100)

const amount = z.int().min(0).max(MAX_AMOUNT).exactOptional()

const amounts = {
  tokens: amount,
  cents: amount,
  calls: amount,
} satisfies Record<SpendKind, unknown>

/** It is of no use without a kind. */
const namesOne = (given: object): boolean => SPEND_KINDS.some((kind) => kind in given)
const NAMES_ONE = `must name one of ${SPEND_KINDS.join(', ')}`

/** What a todo may spend, in whole numbers: `{ "tokens": 100000, "cents": 50 }`. */
export const budget = z.strictObject(amounts).refine(namesOne, NAMES_ONE)

/** The same members beside others. */
export const spending = <S extends z.ZodRawShape>(others: S) =>
  z.strictObject({ ...others, ...amounts }).refine(namesOne, NAMES_ONE)

const limit = seconds().exactOptional()

/** Seconds by the names of a queue's policy: `{ "heartbeat": 600, "scheduleToClose": 86400 }`. */
export const timeouts = z.strictObject({
  scheduleToStart: limit,
  startToClose: limit,
  scheduleToClose: limit,
  heartbeat: limit,
} satisfies Record<(typeof TIMEOUT_NAMES)[number], unknown>)

const child = z
  .strictObject({
    queue: name,
    message: messageFrom('ROLE_USER'),
    effects: effects.exactOptional(),
    budget: budget.exactOptional(),
    /** The older word for the timeout `scheduleToClose`. */
    deadlineSeconds: seconds().exactOptional(),
    timeouts: timeouts.exactOptional(),
    maxAttempts: z.int().min(1).max(100).exactOptional(),
  })
  .refine(
    (given) => given.deadlineSeconds === undefined || !given.timeouts?.scheduleToClose,
    'names deadlineSeconds or timeouts.scheduleToClose, which say the same',
  )

/** How many children one call may make, and what a join may wait for. */
export const children = z.array(child).min(1).max(100)
const MAX_JOINED = 1000
const childIds = z.array(name).min(1).max(MAX_JOINED)

/** What a join says, whoever parks the todo. */
export const joinMembers = {
  children: childIds,
  until: z.enum(['all', 'any', 'each']),
  timeoutSeconds: seconds().exactOptional(),
  onTimeout: z.enum(ON_JOIN_TIMEOUT).exactOptional(),
}

/** For what only means something beside a timeout. */
export const timesOut = (join: { timeoutSeconds?: number; onTimeout?: unknown }): boolean =>
  join.onTimeout === undefined || join.timeoutSeconds !== undefined
export const needsTimeout = { path: ['onTimeout'], error: 'needs timeoutSeconds' }

/**
 * The params of both `todos.list`. A filter matches what equals it, so any text is allowed. Every
 * member may be left out, and so may the params.
 */
export const todoQueryMembers = {
  queue: text.exactOptional(),
  state: z.enum(STATE_NAMES).exactOptional(),
  contextId: text.exactOptional(),
  pageSize: z.int().min(1).max(100).default(50),
  pageToken: text.exactOptional(),
}

export const todoQuery = z.strictObject(todoQueryMembers).prefault({})

/** An empty page token is what the last page ends with, and asks for the first page. */
export const toFilter = (query: z.output<typeof todoQuery>): TodoFilter =>
  defined<TodoFilter>({
    queue: query.queue,
    contextId: query.contextId,
    states: query.state && [query.state],
    pageToken: query.pageToken || undefined,
    pageSize: query.pageSize,
    includeArtifacts: false,
  })
