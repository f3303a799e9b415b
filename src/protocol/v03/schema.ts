/**
 * What A2A 0.3 may send over JSON-RPC (its JSON Schema decides): one schema for each kind of params,
 * under its official name. It is read like 1.0, with unknown members dropped, null absent, ids and
 * lists bounded, so that whatever passes here also passes there. `kind` is optional, since 0.3's own
 * examples leave it out, but a wrong one is refused.
 */
import { z } from 'zod'
import {
  bytes,
  flag,
  id,
  int32,
  list,
  MAX_LIST,
  MAX_PARTS,
  message as members,
  NO_CREDENTIALS,
  optionalId,
  optionalText,
  orNothing,
  struct,
  texts,
} from '../v1/schema.ts'

const text = z.string().exactOptional()
const object = struct.unwrap()

const setOf = <K extends string>(given: object, names: readonly K[]): K[] =>
  names.filter((name) => Object.hasOwn(given, name))

/* ------------------------------------------------------------------- parts */

const BYTES = ['bytes', 'fileWithBytes', 'data'] as const
const URIS = ['uri', 'fileWithUri'] as const

/** `bytes` or `uri`, also under the names that texts about 0.3 give them by mistake. */
const file = members({
  name: optionalText,
  mimeType: optionalText,
  bytes: bytes.exactOptional(),
  fileWithBytes: bytes.exactOptional(),
  data: bytes.exactOptional(),
  uri: text,
  fileWithUri: text,
})
  .superRefine((given, context) => {
    if (setOf(given, [...BYTES, ...URIS]).length === 1) return
    context.addIssue({ code: 'custom', message: 'must hold exactly one of bytes, uri' })
  })
  .transform(({ name, mimeType, ...given }) => ({
    name,
    mimeType,
    bytes: given.bytes ?? given.fileWithBytes ?? given.data,
    uri: given.uri ?? given.fileWithUri,
  }))

const KINDS = ['text', 'file', 'data'] as const

const NO_KIND = `must be one of ${KINDS.join(', ')}`

const kind = z.enum(KINDS, NO_KIND).optional()

const partMembers = {
  text,
  file: file.exactOptional(),
  data: object.exactOptional(),
  metadata: struct,
}

/**
 * A part whose kind is in `discriminator`, which 0.1 calls `type`. If a part of 0.3 has no `kind`, a
 * `type` is most likely an older client's, and may not be wrong either.
 */
export const partBy = (discriminator: 'kind' | 'type') =>
  members<typeof partMembers>({
    ...partMembers,
    ...{ type: z.unknown().optional(), [discriminator]: kind },
  })
    .superRefine((given, context) => {
      const contents = setOf(given, KINDS)
      const { type, kind: named = type } = given as { kind?: string; type?: string }
      if (contents.length !== 1) {
        context.addIssue({
          code: 'custom',
          message: `must hold exactly one of ${KINDS.join(', ')}`,
        })
      } else if (named !== undefined && named !== contents[0]) {
        const isKind = KINDS.some((name) => name === named)
        const path = [isKind ? named : 'type']
        const message = isKind ? `is required by its ${discriminator}` : NO_KIND
        context.addIssue({ code: 'custom', path, message })
      }
    })
    .transform(({ text, file, data, metadata }) => ({ text, file, data, metadata }))

export type Part03 = z.output<ReturnType<typeof partBy>>

/* ---------------------------------------------------------------- messages */

export const userRole = z.literal('user', 'must be user')

const message = members({
  kind: z.literal('message', 'must be message').optional(),
  messageId: id,
  contextId: optionalId,
  taskId: optionalId,
  role: userRole,
  parts: list(partBy('kind'), 1, MAX_PARTS),
  metadata: struct,
  extensions: texts,
  referenceTaskIds: list(id, 0, MAX_LIST).optional(),
})

/**
 * 0.3 lists schemes, with one text for the credentials of all; only the first can be used. An
 * authentication without any is one that a proto has written out, and may have empty credentials.
 */
const authentication = members({
  schemes: list(z.string().min(1), 0, 10),
  credentials: z.string().optional(),
}).superRefine(({ schemes, credentials }, context) => {
  if (schemes.length > 0 && credentials === '') {
    context.addIssue({ code: 'custom', path: ['credentials'], message: NO_CREDENTIALS })
  }
  if (schemes.length === 0 && credentials) {
    const message = 'must have at least 1 item, to be used with the credentials'
    context.addIssue({ code: 'custom', path: ['schemes'], message })
  }
})

export const pushNotificationConfig = members({
  id: optionalId,
  url: z.string().min(1, 'must not be empty'),
  token: optionalText,
  authentication: authentication.optional(),
})

export const historyLength = int32(0)

const configuration = members({
  acceptedOutputModes: texts,
  historyLength,
  pushNotificationConfig: pushNotificationConfig.optional(),
  blocking: flag,
})

/** Params of one or more methods each, under their names in the JSON Schema. */
export const PARAMS = {
  MessageSendParams: members({
    message,
    configuration: configuration.optional(),
    metadata: struct,
  }),
  TaskQueryParams: members({ id, historyLength, metadata: struct }),
  TaskIdParams: members({ id, metadata: struct }),
  TaskPushNotificationConfig: members({ taskId: id, pushNotificationConfig }),
  GetTaskPushNotificationConfigParams: members({
    id,
    pushNotificationConfigId: optionalId,
    metadata: struct,
  }),
  ListTaskPushNotificationConfigParams: members({ id, metadata: struct }),
  DeleteTaskPushNotificationConfigParams: members({
    id,
    pushNotificationConfigId: id,
    metadata: struct,
  }),
  /** For the one method without params. */
  Nothing: orNothing(members({})),
} as const

export type MessageSendParams = z.output<(typeof PARAMS)['MessageSendParams']>
export type PushNotificationConfig = z.output<typeof pushNotificationConfig>

/** What occurs only inside params, for tests that compare it with the JSON Schema. */
export const NESTED = {
  Message: message,
  MessageSendConfiguration: configuration,
  PushNotificationConfig: pushNotificationConfig,
  PushNotificationAuthenticationInfo: authentication,
} as const
