/**
 * Todos as A2A 1.0 writes them, in both directions (spec 4 and 3.2.4; for the states, "States" in
 * docs/protocol.md). Pure. It emits the fields of the proto and no others, in camelCase: required
 * ones always, defaults never.
 */

import { defined } from '../../base/defined.ts'
import { exactText } from '../../base/exact-json.ts'
import { phaseOf, type State, shownAs } from '../../domain/lifecycle.ts'
import type { Dialect } from '../../domain/push.ts'
import { AUTHOR_MEMBER } from '../../domain/sends/author.ts'
import type {
  Artifact,
  ArtifactChunk,
  Event,
  JsonObject,
  Message,
  Part,
  Receipt,
  StoredMessage,
  Todo,
  TodoFilter,
  TodoPage,
  TodoView,
} from '../../domain/todo.ts'
import type { Send } from '../../service/tasks/client.ts'
import { readSendOptions } from '../a2a/send-options.ts'
import { PROJECTION, type TaskState } from '../json/enums.ts'
import { INLINE_PUSH, toPushConfig } from './push.ts'
import type { ListTasksRequest, SendMessageRequest } from './schema.ts'
import type { StreamResponse, TaskIds } from './wire.ts'

/** To clients a failed todo with a retry to come has not failed: it waits, as a new task does. */
const RETRYING: TaskState = PROJECTION.pending

/** To clients a parent that waits for its children is at work. */
const JOINING: TaskState = PROJECTION.claimed

const taskState = (state: State, retrying: boolean, joining = false): TaskState => {
  if (state === 'pending' && joining) return JOINING
  return state === 'failed' && retrying ? RETRYING : PROJECTION[state]
}

/* -------------------------------------------------------------- to domain */

/** A SendMessage to the queue with this name. Ids that the client left out stay out. */
export const toSend = (
  queue: string,
  { message, metadata, configuration }: SendMessageRequest,
  dialect: Dialect,
): Send => {
  const push = configuration?.taskPushNotificationConfig
  return defined<Send>({
    queue,
    message: defined<Message>(message),
    metadata,
    ...readSendOptions(metadata),
    push: push && toPushConfig(push, dialect, INLINE_PUSH),
  })
}

const statesOf = (requested: TaskState): Pick<TodoFilter, 'states' | 'retrying' | 'joining'> => {
  const states = (Object.keys(PROJECTION) as State[]).filter((s) => PROJECTION[s] === requested)
  if (requested === RETRYING) {
    return { states: [...states, 'failed'], retrying: 'only', joining: 'never' }
  }
  if (requested === JOINING) return { states: [...states, 'pending'], joining: 'only' }
  return states.includes('failed') ? { states, retrying: 'never' } : { states }
}

const DEFAULT_PAGE_SIZE = 50

/** The filter of ListTasks. `statusTimestampAfter` is inclusive, to the millisecond. */
export const toFilter = (request: ListTasksRequest): TodoFilter =>
  defined<TodoFilter>({
    contextId: request.contextId,
    ...(request.status && statesOf(request.status)),
    statusAfter: request.statusTimestampAfter,
    pageToken: request.pageToken,
    pageSize: request.pageSize ?? DEFAULT_PAGE_SIZE,
    includeArtifacts: request.includeArtifacts ?? false,
  })

/* ------------------------------------------------------------ from domain */

const idsOf = ({ id, contextId }: Pick<Todo, 'id' | 'contextId'>): TaskIds => ({
  taskId: id,
  contextId,
})

const some = <T>(items: T[] | undefined): T[] | undefined =>
  items && items.length > 0 ? items : undefined

const fromPart = ({ text, raw, url, data, metadata, filename, mediaType }: Part) =>
  defined({ text, raw, url, data, metadata, filename, mediaType })

/** A message of either side, with the ids of its task in place of what the sender put there. */
const fromMessage = (message: Message, ids: TaskIds) =>
  defined({
    messageId: message.messageId,
    contextId: ids.contextId,
    taskId: ids.taskId,
    role: message.role,
    parts: message.parts.map(fromPart),
    metadata: message.metadata,
    extensions: some(message.extensions),
    referenceTaskIds: some(message.referenceTaskIds),
  })

const fromArtifact = (artifact: Artifact) =>
  defined({
    artifactId: artifact.artifactId,
    name: artifact.name,
    description: artifact.description,
    parts: artifact.parts.map(fromPart),
    metadata: artifact.metadata,
    extensions: some(artifact.extensions),
  })

/** A status speaks for the agent, so a client's message is never in it but in the history. */
const isStatusMessage = (stored: StoredMessage, todo: Todo): boolean =>
  stored.seq === todo.statusSeq && stored.message.role === 'ROLE_AGENT'

const fromStatus = (state: TaskState, at: Date, message: Message | undefined, ids: TaskIds) =>
  defined({ state, message: message && fromMessage(message, ids), timestamp: at.toISOString() })

/** Why a task failed, if nobody wrote a message about it for the client. */
const failureMessage = (seq: number, code: string, text: string | undefined): Message => ({
  messageId: `failure-${seq}`,
  role: 'ROLE_AGENT',
  parts: [{ text: text ? `${code}: ${text}` : code }],
})

const statusMessageOf = ({ todo, messages, result }: TodoView): Message | undefined => {
  const message = messages.find((stored) => isStatusMessage(stored, todo))?.message
  if (message || todo.state !== 'failed' || !hasEnded(todo)) return message
  const { error, detail } = result ?? {}
  return failureMessage(
    todo.statusSeq,
    typeof error === 'string' ? error : 'failed',
    typeof detail === 'string' ? detail : undefined,
  )
}

/** The newest `length` messages before the status message, oldest first; all if undefined. */
const historyOf = ({ todo, messages }: TodoView, length: number | undefined) => {
  const before = messages.filter((stored) => !isStatusMessage(stored, todo))
  // slice(-length) would return all of them for zero.
  const newest = length === undefined ? before : before.slice(Math.max(0, before.length - length))
  return newest.map(({ message }) => fromMessage(message, idsOf(todo)))
}

/** A Task. `artifacts: 'always'` keeps an empty list, `'never'` omits even a full one. */
export const fromTodo = (
  view: TodoView,
  historyLength?: number,
  artifacts: 'always' | 'some' | 'never' = 'some',
) => {
  const { todo } = view
  const metadata = {
    ...view.metadata,
    ...(todo.author !== null && { [AUTHOR_MEMBER]: todo.author }),
    ...(view.waitsBehind && !view.behindOther && { [WAITS_BEHIND]: view.waitsBehind }),
    ...(todo.retryOf && { [RETRY_OF]: todo.retryOf }),
    ...(view.retriedAs && { [RETRIED_AS]: view.retriedAs }),
    ...(view.omitted && { [OMITTED]: view.omitted }),
  }
  const shown = (view.artifacts ?? []).map(fromArtifact)
  const state = taskState(todo.state, todo.nextRetryAt !== null, todo.join !== null)
  return defined({
    id: todo.id,
    contextId: todo.contextId,
    status: fromStatus(state, todo.statusAt, statusMessageOf(view), idsOf(todo)),
    artifacts: { always: shown, some: some(shown), never: undefined }[artifacts],
    history: some(historyOf(view, historyLength)),
    metadata: some(Object.keys(metadata)) && metadata,
  })
}

/** A waiting task's metadata says under this key which task of its conversation is at work. */
const WAITS_BEHIND = 'urn:switchboard:waits-behind'

/** A task that an operator made to redo a dead one names it, and the dead one names its successor. */
const RETRY_OF = 'urn:switchboard:retry-of'
const RETRIED_AS = 'urn:switchboard:retried-as'

/** What of the task is left out, where it holds more than one answer shows. */
const OMITTED = 'urn:switchboard:omitted'

/** The task's metadata says under this key what became of the sender's message. */
export const RECEIPT = 'urn:switchboard:receipt'

/** Adds what became of the message that has just come in. */
export const withReceipt = (view: TodoView, receipt: Receipt | undefined): TodoView =>
  receipt
    ? { ...view, metadata: { ...view.metadata, [RECEIPT]: { ...receipt } as JsonObject } }
    : view

/** SendMessageResponse: the task, or the bare message if the agent asked for that. */
export const fromSent = (view: TodoView, historyLength?: number) => {
  const message = view.direct && view.todo.state === 'done' ? statusMessageOf(view) : undefined
  return message
    ? { message: fromMessage(message, idsOf(view.todo)) }
    : { task: fromTodo(view, historyLength) }
}

/** ListTasksResponse: all four members, always. */
export const fromPage = (page: TodoPage, request: ListTasksRequest) => ({
  tasks: page.todos.map((view) =>
    fromTodo(view, request.historyLength, request.includeArtifacts ? 'always' : 'never'),
  ),
  nextPageToken: page.nextPageToken,
  pageSize: page.pageSize,
  totalSize: page.totalSize,
})

const fromChunk = (
  { artifact, append, lastChunk }: ArtifactChunk,
  ids: TaskIds,
  metadata: JsonObject | undefined,
) =>
  defined({
    ...ids,
    artifact: fromArtifact(artifact),
    append: append || undefined,
    lastChunk: lastChunk || undefined,
    metadata,
  })

/** A StreamResponse with its one member; null for an event that streams do not show. */
export const fromEvent = (event: Event): StreamResponse | null => {
  const ids = { taskId: event.todoId, contextId: event.contextId }
  const metadata = event.detail?.metadata
  switch (shownAs(event.verb)) {
    case 'status': {
      const state = taskState(event.to, event.retrying)
      const error = state === PROJECTION.failed ? event.detail?.error : undefined
      const message =
        event.message?.role === 'ROLE_AGENT'
          ? event.message
          : error && failureMessage(event.seq, error.code, error.message)
      const status = fromStatus(state, event.at, message, ids)
      return { statusUpdate: defined({ ...ids, status, metadata }) }
    }
    case 'artifact':
      return event.artifact ? { artifactUpdate: fromChunk(event.artifact, ids, metadata) } : null
    case null:
      return null
  }
}

/** The body of a webhook: what a stream would show, a StreamResponse without envelope (4.3.3). */
export const fromOwed = ({ event }: { event: Event }) => ({
  contentType: 'application/a2a+json',
  body: exactText(fromEvent(event)),
})

/** True for the states after which a stream ends. */
export const hasEnded = (todo: Todo): boolean => phaseOf(todo) === 'ended'
