/**
 * What A2A 1.0 may send (spec 4 and 5.5 to 5.7; the proto decides): one schema for each message
 * that we read. It is read as ProtoJSON: field names in both spellings, unknown fields dropped, null
 * absent (except in `data`, where it is a value), empty strings of optional fields absent, enums by
 * name or number. Our own bounds are ids of 256 characters and 1000 parts in a message.
 */
import { z } from 'zod'
import type { JsonObject } from '../../domain/todo.ts'
import { enumName, ROLES, TASK_STATES } from '../json/enums.ts'
import { isObject, snake } from '../json/object.ts'
import { oneContent, partMembers } from '../json/parts.ts'

const MAX_ID = 256
export const MAX_PARTS = 1000
export const MAX_LIST = 1000
const MAX_INT32 = 2_147_483_647

/* ----------------------------------------------------------- message shape */

const ownMember = (object: Record<string, unknown>, name: string): unknown =>
  Object.hasOwn(object, name) ? object[name] : undefined

/** Keeps known fields, under their camelCase names; `values` names those for which null is a value. */
const known = (names: readonly string[], values: readonly string[]) => {
  const fields = names.map((name) => ({
    name,
    other: snake(name),
    nullable: values.includes(name),
  }))
  return (message: unknown): unknown => {
    if (!isObject(message)) return message
    const read: Record<string, unknown> = {}
    for (const { name, other, nullable } of fields) {
      const value = ownMember(message, Object.hasOwn(message, name) ? name : other)
      if (value !== undefined && (value !== null || nullable)) read[name] = value
    }
    return read
  }
}

export const message = <S extends z.ZodRawShape>(shape: S, values: readonly string[] = []) =>
  z.preprocess(known(Object.keys(shape), values), z.object(shape))

/* ------------------------------------------------------------------ fields */

/** An implicit-presence field that holds its default was not set. */
const unlessEmpty = <S extends z.ZodType>(schema: S) =>
  z.preprocess((value) => (value === '' ? undefined : value), schema.optional()).optional()

const isPrintable = (text: string): boolean => !/\p{Cc}/u.test(text)

export const id = z
  .string()
  .min(1, 'must not be empty')
  .max(MAX_ID, `must be at most ${MAX_ID} characters`)
  .refine(isPrintable, 'must hold no control characters')

export const optionalId = unlessEmpty(id)
export const optionalText = unlessEmpty(z.string())

/** ProtoJSON also reads an integer from a string. */
export const int32 = (min: number, max = MAX_INT32) =>
  z
    .preprocess(
      (value) => (typeof value === 'string' && /^-?\d{1,10}$/.test(value) ? Number(value) : value),
      z
        .int('must be a whole number')
        .min(min, `must be at least ${min}`)
        .max(max, `must be at most ${max}`),
    )
    .optional()

export const flag = z.boolean().optional()

/** The items are counted before they are read, so that an overlong list costs nothing. */
export const list = <S extends z.ZodType>(item: S, min: number, max: number) =>
  z
    .array(z.unknown())
    .min(min, `must have at least ${min} item`)
    .max(max, `must have at most ${max} items`)
    .pipe(z.array(item))

export const texts = list(z.string(), 0, MAX_LIST).optional()
export const struct = z.custom<JsonObject>(isObject, 'must be an object').optional()

const RFC3339 =
  /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i

/** Null if the text is no point in time. Truncated to milliseconds, the finest that we show. */
const toMoment = (text: string): Date | null => {
  const match = RFC3339.exec(text)
  if (!match) return null
  const [, year, month, day, hour, minute, second, fraction = '', offset] = match
  // Date would turn the 30th of February into March, so we check the length of the month.
  const daysInMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (Number(day) > daysInMonth || Number(hour) > 23 || Number(year) < 1) return null
  const millis = fraction.slice(0, 3).padEnd(3, '0')
  const moment = new Date(
    `${year}-${month}-${day}T${hour}:${minute}:${second}.${millis}${offset?.toUpperCase()}`,
  )
  return Number.isNaN(moment.getTime()) ? null : moment
}

const timestamp = z
  .string()
  .transform((text, context): Date => {
    const moment = toMoment(text)
    if (moment) return moment
    context.addIssue({ code: 'custom', message: 'must be an RFC 3339 timestamp' })
    return z.NEVER
  })
  .optional()

const taskState = z
  .preprocess(enumName(TASK_STATES), z.enum(TASK_STATES, 'must be the name of a task state'))
  .transform((state) => (state === 'TASK_STATE_UNSPECIFIED' ? undefined : state))
  .optional()

/** Bytes as ProtoJSON reads them: either alphabet, padded or not. They are kept in standard form. */
export const bytes = z
  .string()
  .refine(
    (text) =>
      /^[A-Za-z0-9+/_-]*={0,2}$/.test(text) &&
      (text.endsWith('=') ? text.length % 4 === 0 : text.length % 4 !== 1),
    'must be base64',
  )
  .transform((text) => {
    const standard = text.replaceAll('-', '+').replaceAll('_', '/')
    return standard.padEnd(Math.ceil(standard.length / 4) * 4, '=')
  })

/* ---------------------------------------------------------------- messages */

const part = message({ ...partMembers, raw: bytes.exactOptional() }, ['data']).superRefine(
  oneContent,
)

/**
 * A client's message. The specification does not restrict its role (spec 4.1.4), so we do: a client
 * that spoke as the agent would put words into the agent's mouth.
 */
const userMessage = message({
  messageId: id,
  contextId: optionalId,
  taskId: optionalId,
  role: z.preprocess(enumName(ROLES), z.literal('ROLE_USER', 'must be ROLE_USER')),
  parts: list(part, 1, MAX_PARTS),
  metadata: struct,
  extensions: texts,
  referenceTaskIds: list(id, 0, MAX_LIST).optional(),
})

/**
 * Empty credentials are refused although a proto takes them for none: a variable that was not set would
 * otherwise show only in webhooks that come without their header.
 */
export const NO_CREDENTIALS = 'must not be empty: leave it out where nothing is to be sent'

const authenticationInfo = message({
  scheme: z.string().min(1),
  credentials: z.string().min(1, NO_CREDENTIALS).optional(),
})

const pushConfigFields = {
  tenant: optionalText,
  id: optionalId,
  taskId: optionalId,
  token: optionalText,
  authentication: authenticationInfo.optional(),
}
const pushUrl = z.string().min(1, 'must not be empty')

const configuration = message({
  acceptedOutputModes: texts,
  taskPushNotificationConfig: message({ ...pushConfigFields, url: pushUrl }).optional(),
  historyLength: int32(0),
  returnImmediately: flag,
})

/** A request; its tenant is read, as the proto has it, and means nothing here. */
const request = <S extends z.ZodRawShape>(shape: S) => message({ tenant: optionalText, ...shape })

/** `params` may be missing if no field is required. */
export const orNothing = <S extends z.ZodType>(schema: S) =>
  z.preprocess((params) => params ?? {}, schema)

/** Params of one or more methods each, under their names in the proto. */
export const REQUESTS = {
  SendMessageRequest: request({
    message: userMessage,
    configuration: configuration.optional(),
    metadata: struct,
  }),
  GetTaskRequest: request({ id, historyLength: int32(0) }),
  ListTasksRequest: orNothing(
    request({
      contextId: optionalId,
      status: taskState,
      pageSize: int32(1, 100),
      pageToken: optionalText,
      historyLength: int32(0),
      statusTimestampAfter: timestamp,
      includeArtifacts: flag,
    }),
  ),
  CancelTaskRequest: request({ id, metadata: struct }),
  SubscribeToTaskRequest: request({ id }),
  TaskPushNotificationConfig: message({ ...pushConfigFields, taskId: id, url: pushUrl }),
  GetTaskPushNotificationConfigRequest: request({ taskId: id, id }),
  ListTaskPushNotificationConfigsRequest: request({
    taskId: id,
    pageSize: int32(0),
    pageToken: optionalText,
  }),
  DeleteTaskPushNotificationConfigRequest: request({ taskId: id, id }),
  GetExtendedAgentCardRequest: orNothing(request({})),
} as const

export type SendMessageRequest = z.output<(typeof REQUESTS)['SendMessageRequest']>
export type PushConfigRequest = z.output<(typeof REQUESTS)['TaskPushNotificationConfig']>
export type ListTasksRequest = z.output<(typeof REQUESTS)['ListTasksRequest']>

/** Messages that occur only inside requests, for tests that compare them with the proto. */
export const NESTED = {
  Message: userMessage,
  Part: part,
  SendMessageConfiguration: configuration,
  AuthenticationInfo: authenticationInfo,
} as const
