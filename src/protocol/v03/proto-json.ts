/**
 * The objects of A2A 0.3 in the JSON of its proto, which its clients speak over HTTP+JSON
 * (docs/protocol.md, "In 0.3"): `content` in a message, no `kind`, enums by name, parts told apart
 * by their member. Pure, made from the objects of its JSON Schema. The proto has no place for a
 * part's metadata, a file's name or referenced tasks, and strict readers refuse unknown members, so
 * these are left out.
 */

import { defined } from '../../base/defined.ts'
import type { JsonObject } from '../../domain/todo.ts'
import type {
  Event03,
  fromMessage,
  fromPushConfig,
  fromSent,
  State03,
  Task03,
} from './translate.ts'

/** The proto spells CANCELLED with two Ls. */
export const PROTO_STATES = {
  submitted: 'TASK_STATE_SUBMITTED',
  working: 'TASK_STATE_WORKING',
  'input-required': 'TASK_STATE_INPUT_REQUIRED',
  'auth-required': 'TASK_STATE_AUTH_REQUIRED',
  completed: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
  canceled: 'TASK_STATE_CANCELLED',
  rejected: 'TASK_STATE_REJECTED',
} as const satisfies Record<State03, string>

type Message03 = ReturnType<typeof fromMessage>
type Part03 = Message03['parts'][number]

const protoPart = (part: Part03) => {
  switch (part.kind) {
    case 'text':
      return { text: part.text }
    case 'file': {
      const { bytes, uri, mimeType } = part.file
      return { file: defined({ fileWithBytes: bytes, fileWithUri: uri, mimeType }) }
    }
    case 'data':
      return { data: { data: part.data } }
  }
}

const protoMessage = ({ kind: _, referenceTaskIds: __, role, parts, ...rest }: Message03) => ({
  ...rest,
  role: role === 'agent' ? 'ROLE_AGENT' : 'ROLE_USER',
  content: parts.map(protoPart),
})

const protoStatus = ({ state, message, timestamp }: Task03['status']) => ({
  state: PROTO_STATES[state],
  ...(message && { message: protoMessage(message) }),
  timestamp,
})

type Artifact03 = NonNullable<Task03['artifacts']>[number]

const protoArtifact = ({ parts, ...rest }: Artifact03) => ({
  ...rest,
  parts: parts.map(protoPart),
})

export const protoTask = ({ kind: _, status, artifacts, history, ...rest }: Task03) => ({
  ...rest,
  status: protoStatus(status),
  ...(artifacts && { artifacts: artifacts.map(protoArtifact) }),
  ...(history && { history: history.map(protoMessage) }),
})

export const protoSent = (sent: ReturnType<typeof fromSent>) =>
  sent.kind === 'task' ? { task: protoTask(sent) } : { message: protoMessage(sent) }

export const protoEvent = (event: Event03) => {
  switch (event.kind) {
    case 'task':
      return { task: protoTask(event) }
    case 'status-update': {
      const { kind: _, status, ...rest } = event
      return { statusUpdate: { ...rest, status: protoStatus(status) } }
    }
    case 'artifact-update': {
      const { kind: _, artifact, ...rest } = event
      return { artifactUpdate: { ...rest, artifact: protoArtifact(artifact) } }
    }
  }
}

/** A resource under its name, as gRPC writes it. */
export const protoPushConfig = ({
  taskId,
  pushNotificationConfig,
}: ReturnType<typeof fromPushConfig>) => ({
  name: `tasks/${taskId}/pushNotificationConfigs/${pushNotificationConfig.id ?? ''}`,
  pushNotificationConfig,
})

/** `{type:'http', …}` and the same again under the proto's name for it. */
const bothSchemes = (scheme: JsonObject): JsonObject => {
  const { type, ...httpAuthSecurityScheme } = scheme
  return type === 'http' ? { ...scheme, httpAuthSecurityScheme } : scheme
}

/**
 * Even over HTTP+JSON some clients read a card by the JSON Schema, and others by the proto. Both find
 * their form of each security scheme in this one.
 */
export const protoCard = (card: JsonObject): JsonObject => {
  const schemes = Object.entries(card.securitySchemes as JsonObject)
  const both = schemes.map(([name, scheme]) => [name, bothSchemes(scheme as JsonObject)])
  return { ...card, securitySchemes: Object.fromEntries(both) as JsonObject }
}
