/**
 * A2A 1.0 translated to 0.3 and back (docs/protocol.md, "Version 0.3"). Pure: params become requests
 * of 1.0, objects of 1.0 become objects of 0.3. Ids, texts and times stay as they are. What 0.3 has
 * no place for goes into its part's metadata, and comes back from there.
 */

import { defined } from '../../base/defined.ts'
import type { Artifact, JsonObject, Message, Part } from '../../domain/todo.ts'
import type { TaskState } from '../json/enums.ts'
import { isObject } from '../json/object.ts'
import type { SendMessageRequest } from '../v1/schema.ts'
import type {
  PushConfig,
  SendMessageResponse,
  StreamResponse,
  Task,
  TaskIds,
  TaskStatus,
} from '../v1/wire.ts'
import type { MessageSendParams, Part03, PushNotificationConfig } from './schema.ts'

/** Until a new state of 1.0 has a name here, nothing compiles. */
export const STATES = {
  TASK_STATE_SUBMITTED: 'submitted',
  TASK_STATE_WORKING: 'working',
  TASK_STATE_INPUT_REQUIRED: 'input-required',
  TASK_STATE_AUTH_REQUIRED: 'auth-required',
  TASK_STATE_COMPLETED: 'completed',
  TASK_STATE_FAILED: 'failed',
  TASK_STATE_CANCELED: 'canceled',
  TASK_STATE_REJECTED: 'rejected',
} as const satisfies Record<TaskState, string>

export type State03 = (typeof STATES)[TaskState]

const ROLES = { ROLE_USER: 'user', ROLE_AGENT: 'agent' } as const

/** Keys of a part's metadata, for what 0.3 has on files only and for data that is no object. */
const MEDIA_TYPE = 'urn:switchboard:media-type'
const FILENAME = 'urn:switchboard:filename'
const WRAPPED = 'urn:switchboard:wrapped'

/* ------------------------------------------------------------------ to 1.0 */

const isOnly = (data: JsonObject, name: string): boolean =>
  Object.hasOwn(data, name) && Object.keys(data).length === 1

/** What {@link fromPart} put into the metadata, and what else is there. */
const unpack = ({ metadata = {}, data }: Part03) => {
  const packed: string[] = []
  const unpacked = (key: string): string | undefined => {
    const value = metadata[key]
    if (typeof value !== 'string' || value === '') return undefined
    packed.push(key)
    return value
  }
  const mediaType = unpacked(MEDIA_TYPE)
  const filename = unpacked(FILENAME)
  const isWrapped = metadata[WRAPPED] === true && data !== undefined && isOnly(data, 'value')
  if (isWrapped) packed.push(WRAPPED)
  const rest = Object.entries(metadata).filter(([key]) => !packed.includes(key))
  return {
    mediaType,
    filename,
    isWrapped,
    metadata: packed.length > 0 && rest.length === 0 ? undefined : Object.fromEntries(rest),
  }
}

export const toPart = (part: Part03): Part => {
  const { text, file, data } = part
  if (file) {
    const { bytes: raw, uri: url, name: filename, mimeType: mediaType } = file
    return defined<Part>({ raw, url, filename, mediaType, metadata: part.metadata })
  }
  if (!part.metadata) return text === undefined ? defined<Part>({ data }) : { text }
  const { isWrapped, ...rest } = unpack(part)
  if (text !== undefined) return defined<Part>({ text, ...rest })
  return defined<Part>({ data: isWrapped ? data?.value : data, ...rest })
}

/** The id of a config without one, so that setting it again replaces it. */
export const DEFAULT_CONFIG_ID = 'default'

export const toPushConfig = (config: PushNotificationConfig): PushConfig => {
  const { id = DEFAULT_CONFIG_ID, url, token, authentication } = config
  const { schemes: [scheme] = [], credentials } = authentication ?? {}
  return defined<PushConfig>({
    id,
    url,
    token,
    authentication: scheme === undefined ? undefined : { scheme, credentials },
  })
}

/**
 * A send waits unless it says otherwise. The schema of 0.3 gives `blocking` no default; 1.0 waits,
 * and so do the servers of the 0.3 SDKs.
 */
export const toSendRequest = (params: MessageSendParams): SendMessageRequest => {
  const { message, configuration, metadata } = params
  const { kind: _, role: __, parts, ...rest } = message
  const { blocking, pushNotificationConfig, ...options } = configuration ?? {}
  return {
    message: { ...rest, role: 'ROLE_USER', parts: parts.map(toPart) },
    configuration: {
      ...options,
      returnImmediately: blocking === false,
      ...(pushNotificationConfig && {
        taskPushNotificationConfig: toPushConfig(pushNotificationConfig),
      }),
    },
    metadata,
  }
}

/* ---------------------------------------------------------------- from 1.0 */

const fromPart = (part: Part) => {
  const { text, raw, url, data, filename, mediaType, metadata } = part
  if (raw !== undefined || url !== undefined) {
    const file = defined({ name: filename, mimeType: mediaType, bytes: raw, uri: url })
    return defined({ kind: 'file' as const, file, metadata })
  }
  const isWrapped = text === undefined && !isObject(data)
  const packs = mediaType || filename || isWrapped
  const rest = {
    metadata: packs
      ? {
          ...metadata,
          ...(mediaType && { [MEDIA_TYPE]: mediaType }),
          ...(filename && { [FILENAME]: filename }),
          ...(isWrapped && { [WRAPPED]: true }),
        }
      : metadata,
  }
  if (text !== undefined) return defined({ kind: 'text' as const, text, ...rest })
  const shown: JsonObject = isObject(data) ? data : { value: data ?? null }
  return defined({ kind: 'data' as const, data: shown, ...rest })
}

export const fromMessage = ({ role, parts, ...rest }: Message) => ({
  kind: 'message' as const,
  ...rest,
  role: ROLES[role],
  parts: parts.map(fromPart),
})

const fromArtifact = ({ parts, ...rest }: Artifact) => ({ ...rest, parts: parts.map(fromPart) })

const fromStatus = ({ state, message, timestamp }: TaskStatus) => ({
  state: STATES[state],
  ...(message && { message: fromMessage(message) }),
  timestamp,
})

export const fromTask = ({ id, contextId, status, artifacts, history, metadata }: Task) => ({
  kind: 'task' as const,
  id,
  contextId,
  status: fromStatus(status),
  ...(artifacts && { artifacts: artifacts.map(fromArtifact) }),
  ...(history && { history: history.map(fromMessage) }),
  ...(metadata && { metadata }),
})

export type Task03 = ReturnType<typeof fromTask>

/** A send's answer: the bare task or message. */
export const fromSent = (response: SendMessageResponse) =>
  'task' in response ? fromTask(response.task) : fromMessage(response.message)

/** A status update, `final` if its stream ends with it. */
export const toStatusUpdate = (
  { taskId, contextId }: TaskIds,
  status: Task03['status'],
  final: boolean,
) => ({ kind: 'status-update' as const, taskId, contextId, status, final })

/** One event of a stream; the stream decides what is `final`. */
export const fromStreamed = (response: StreamResponse) => {
  if ('task' in response) return fromTask(response.task)
  if ('statusUpdate' in response) {
    const { statusUpdate } = response
    const { metadata } = statusUpdate
    const update = toStatusUpdate(statusUpdate, fromStatus(statusUpdate.status), false)
    return metadata ? { ...update, metadata } : update
  }
  const { artifact, ...rest } = response.artifactUpdate
  return { kind: 'artifact-update' as const, ...rest, artifact: fromArtifact(artifact) }
}

export type Event03 = ReturnType<typeof fromStreamed>

/** Nested again; `schemes` lists the one that is used. */
export const fromPushConfig = ({ id, url, token, authentication }: PushConfig, taskId: string) => ({
  taskId,
  pushNotificationConfig: defined({
    id,
    url,
    token,
    authentication:
      authentication &&
      defined({ schemes: [authentication.scheme], credentials: authentication.credentials }),
  }),
})
