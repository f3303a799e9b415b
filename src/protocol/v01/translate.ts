/**
 * A2A 0.1 (docs/protocol.md, "The oldest clients"): its send as a request of 1.0, and objects of
 * 0.3 as its own, under the id that the client gave. Pure. Without a length, 0.1 asks for no
 * history.
 */

import { isDeepStrictEqual } from 'node:util'
import { translated } from '../../base/streams.ts'
import { invalid } from '../../domain/errors.ts'
import type { Message } from '../../domain/todo.ts'
import type { SendMessageRequest } from '../v1/schema.ts'
import type { Task } from '../v1/wire.ts'
import { isOver } from '../v03/stream.ts'
import { type Event03, type State03, type Task03, toPart, toPushConfig } from '../v03/translate.ts'
import type { StreamItem } from '../wire/method.ts'
import type { TaskSendParams } from './schema.ts'

/** The task's metadata tells everybody else under this key what its client calls it. */
const CLIENT_TASK_ID = 'urn:switchboard:client-task-id'

export const DEFAULT_HISTORY = 0

/** A state that 0.1 lacks becomes the nearest one that asks the same of a client. */
const STATES = {
  submitted: 'submitted',
  working: 'working',
  'input-required': 'input-required',
  'auth-required': 'input-required',
  completed: 'completed',
  failed: 'failed',
  canceled: 'canceled',
  rejected: 'failed',
} as const satisfies Record<State03, string>

/* ------------------------------------------------------------------ to 1.0 */

const toMessage = ({ message }: TaskSendParams): Pick<Message, 'parts' | 'metadata'> => ({
  parts: message.parts.map(toPart),
  ...(message.metadata && { metadata: message.metadata }),
})

const toRequest = (
  params: TaskSendParams,
  ids: { messageId: string; taskId?: string; contextId?: string },
): SendMessageRequest => {
  const { acceptedOutputModes, pushNotification, historyLength = DEFAULT_HISTORY } = params
  return {
    message: { ...ids, role: 'ROLE_USER', ...toMessage(params) },
    configuration: {
      acceptedOutputModes,
      historyLength,
      ...(pushNotification && { taskPushNotificationConfig: toPushConfig(pushNotification) }),
    },
    metadata: params.metadata,
  }
}

/** A send whose task does not exist yet. */
export const toFirst = (params: TaskSendParams, messageId: string): SendMessageRequest => ({
  ...toRequest(params, {
    messageId,
    ...(params.sessionId !== undefined && { contextId: params.sessionId }),
  }),
  metadata: { ...params.metadata, [CLIENT_TASK_ID]: params.id },
})

const ASKS = new Set<Task['status']['state']>([
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_AUTH_REQUIRED',
])

/** The client's last message, if this one has the same words. */
const sameAsLast = (params: TaskSendParams, { history }: Task): string | undefined => {
  const last = history?.findLast(({ role }) => role === 'ROLE_USER')
  if (!last) return undefined
  const { parts, metadata } = last
  const same = isDeepStrictEqual({ parts, ...(metadata && { metadata }) }, toMessage(params))
  return same ? last.messageId : undefined
}

/** The same, if nobody has asked anything: as an answer the same words count anew. */
const repeated = (params: TaskSendParams, task: Task): string | undefined =>
  ASKS.has(task.status.state) ? undefined : sameAsLast(params, task)

/**
 * A send whose client goes on with a stream that broke: the message that opened it, whatever was
 * asked since. Null if the client's last message was another one.
 */
export const toSameSend = (params: TaskSendParams, task: Task): SendMessageRequest | null => {
  const messageId = sameAsLast(params, task)
  return messageId === undefined ? null : toRequest(params, { messageId, taskId: task.id })
}

/**
 * A send to an existing task. Messages of 0.1 have no id, so one that repeats the last, while nothing
 * was asked, counts as the same message sent again. Refuses: invalid.
 */
export const toFollowUp = (
  params: TaskSendParams,
  task: Task,
  messageId: string,
): SendMessageRequest => {
  if (params.sessionId !== undefined && params.sessionId !== task.contextId) {
    throw invalid('sessionId', 'is not the session of this task')
  }
  return toRequest(params, { messageId: repeated(params, task) ?? messageId, taskId: task.id })
}

/* ---------------------------------------------------------------- from 0.3 */

type Message03 = NonNullable<Task03['history']>[number]
type Artifact03 = NonNullable<Task03['artifacts']>[number]

const fromPart = ({ kind, ...rest }: Message03['parts'][number]) => ({ type: kind, ...rest })

const fromMessage = ({ role, parts, metadata }: Message03) => ({
  role,
  parts: parts.map(fromPart),
  ...(metadata && { metadata }),
})

const fromStatus = ({ state, message, timestamp }: Task03['status']) => ({
  state: STATES[state],
  ...(message && { message: fromMessage(message) }),
  timestamp,
})

/** In 0.1 an artifact is identified by its index among those of its task. */
const fromArtifact = ({ name, description, parts, metadata }: Artifact03, index: number) => ({
  ...(name !== undefined && { name }),
  ...(description !== undefined && { description }),
  parts: parts.map(fromPart),
  ...(metadata && { metadata }),
  index,
})

export const fromTask = (
  { contextId, status, artifacts, history, metadata }: Task03,
  id: string,
) => {
  const { [CLIENT_TASK_ID]: _, ...rest } = metadata ?? {}
  return {
    id,
    sessionId: contextId,
    status: fromStatus(status),
    ...(artifacts && { artifacts: artifacts.map(fromArtifact) }),
    ...(history && { history: history.map(fromMessage) }),
    ...(Object.keys(rest).length > 0 && { metadata: rest }),
  }
}

type Status01 = ReturnType<typeof fromStatus>
type Artifact01 = ReturnType<typeof fromArtifact> & { append?: boolean; lastChunk?: boolean }
export type Event01 =
  | { id: string; status: Status01; final: boolean }
  | { id: string; artifact: Artifact01 }

/** The index of each artifact; one that was not seen before gets the next. */
const createIndexes = ({ artifacts = [] }: Pick<Task03, 'artifacts'>) => {
  const indexes = new Map(artifacts.map(({ artifactId }, index) => [artifactId, index]))
  return (artifactId: string): number => {
    const index = indexes.get(artifactId) ?? indexes.size
    indexes.set(artifactId, index)
    return index
  }
}

/**
 * A stream of 0.3 under the client's id. 0.1 has no event for a whole task, so that becomes one event
 * for each artifact and one for the status. A stream that does not begin with a task calls
 * `readTask` for the indexes of the artifacts before it.
 */
export const fromStream = (
  items: AsyncIterable<StreamItem<Event03>>,
  id: string,
  readTask: () => Promise<Task03>,
): AsyncIterable<StreamItem<Event01>> => {
  let indexOf: ReturnType<typeof createIndexes> | undefined
  return translated(items, async ({ result: event, ...item }) => {
    if (event.kind === 'task') {
      indexOf = createIndexes(event)
      const isLast = isOver(event)
      const artifacts = (event.artifacts ?? []).map((artifact, index) => ({
        result: { id, artifact: fromArtifact(artifact, index) },
      }))
      const status = { ...item, result: { id, status: fromStatus(event.status), final: isLast } }
      return { made: [...artifacts, status], isLast }
    }
    if (event.kind === 'status-update') {
      const { status, final } = event
      return { made: [{ ...item, result: { id, status: fromStatus(status), final } }] }
    }
    indexOf ??= createIndexes(await readTask())
    const { artifact, append, lastChunk } = event
    const shown = {
      ...fromArtifact(artifact, indexOf(artifact.artifactId)),
      ...(append && { append }),
      ...(lastChunk && { lastChunk }),
    }
    return { made: [{ ...item, result: { id, artifact: shown } }] }
  })
}
