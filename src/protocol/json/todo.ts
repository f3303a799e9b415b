/**
 * A todo, its attempts and its events as JSON for our own surfaces: the agent API, the operator
 * API and the event feeds. A2A writes these its own way, in v1/ and v03/. Names are those of the
 * domain and times are RFC 3339 with milliseconds. Each member is written down, so that a change to
 * the domain does not reach the wire unnoticed.
 */
import type {
  Attempt,
  Child,
  Fact,
  StoredDocument,
  StoredMessage,
  Todo,
  TodoView,
} from '../../domain/todo.ts'
import { members } from './object.ts'

export const fromTime = (time: Date): string => time.toISOString()

export const fromTimeOrNull = (time: Date | null): string | null =>
  time === null ? null : fromTime(time)

/** A message with its seq: one that the holder has not acknowledged, or any whose seq matters. */
export const fromStored = (stored: StoredMessage) => ({
  seq: stored.seq,
  message: stored.message,
  receivedAt: fromTime(stored.receivedAt),
  ...(stored.answers !== null && { answers: stored.answers }),
  ...(stored.sender !== null && stored.message.role === 'ROLE_USER' && { sender: stored.sender }),
  ...(stored.request?.author !== undefined && { author: stored.request.author }),
  ...(stored.request && { request: stored.request }),
})

/** A page of `todos.documents`, with the seq after which the next one begins. */
export const fromDocuments = (
  { documents, next }: { documents: readonly StoredDocument[]; next: number | null },
  shown: (message: StoredMessage) => StoredMessage,
) => ({
  documents: documents.map(({ seq, message, owed, artifact }) => ({
    seq,
    ...(message && fromStored(shown(message))),
    ...(owed && { unread: true }),
    ...(artifact && { artifact }),
  })),
  next,
})
/** Absent where nobody is named. */
const byAuthor = ({ author }: Pick<Todo, 'author'>) => (author === null ? {} : { author })

/** Who sent a todo and what they said beside its first message; its metadata is a member of its own. */
export const fromSender = ({ todo, messages }: TodoView) => {
  const { extensions = [], acceptedOutputModes, traceparent } = messages[0]?.request ?? {}
  return {
    sender: todo.clientId,
    ...byAuthor(todo),
    extensions,
    ...(acceptedOutputModes && { configuration: { acceptedOutputModes } }),
    ...(traceparent !== undefined && { traceparent }),
  }
}

/** The message that it began with, and everything said so far, oldest first. */
export const fromMessages = (messages: readonly StoredMessage[]) => ({
  message: messages[0]?.message ?? null,
  history: messages.map(({ message }) => message),
})

/** The limits of this attempt: points in time, and the seconds it may go without progress. */
export const fromDeadlines = (todo: Todo) => ({
  ...(todo.startedAt &&
    todo.startToCloseSeconds !== null && {
      startToClose: fromTime(new Date(todo.startedAt.getTime() + todo.startToCloseSeconds * 1000)),
    }),
  ...(todo.closeAt && { scheduleToClose: fromTime(todo.closeAt) }),
  ...(todo.heartbeatSeconds !== null && { heartbeatSeconds: todo.heartbeatSeconds }),
  ...(todo.scheduleToStartSeconds !== null && {
    scheduleToStartSeconds: todo.scheduleToStartSeconds,
  }),
})

/** Of a todo that was made for a moment: which one, and by which schedule. */
export const fromStart = ({ notBefore, schedule }: Todo) => ({
  ...(notBefore && { notBefore: fromTime(notBefore) }),
  ...(schedule !== null && { schedule }),
})

const upToInterrupt = members<Todo>()(
  'id queue contextId state attempt maxAttempts attemptsTotal fence owner claimant',
  'leaseExpiresAt interruptedAt',
)
const afterInterrupt = members<Todo>()(
  'dueAt nextRetryAt progressAt seq unread createdAt updatedAt finishedAt statusAt',
)

/** There only where it has a limit, or has spent. */
export const fromBudget = ({ budget, spent }: Pick<Todo, 'budget' | 'spent'>) => ({
  ...(budget && { budget }),
  ...(spent && { spent }),
})

const fromRow = (todo: Todo) => ({
  ...upToInterrupt(todo),
  heldUntil: fromTimeOrNull(todo.interruptHeldUntil),
  ...afterInterrupt(todo),
  deadlines: fromDeadlines(todo),
  retryOf: todo.retryOf,
  ...fromStart(todo),
  effects: todo.effects,
  ...byAuthor(todo),
  ...fromBudget(todo),
  ...(todo.parentId && { parentId: todo.parentId }),
  ...(todo.join && { join: todo.join }),
  ...(todo.joinTimedOutAt && { joinTimedOutAt: fromTime(todo.joinTimedOutAt) }),
  idleSeconds: todo.idleSeconds === null ? null : Math.floor(todo.idleSeconds),
})

/** A todo with its documents. `artifacts` is absent if they were not read, as in lists. */
export const fromView = (view: TodoView) => ({
  ...fromRow(view.todo),
  ...fromMessages(view.messages),
  ...(view.artifacts && { artifacts: view.artifacts }),
  metadata: view.metadata,
  result: view.result,
  ...(view.omitted && { omitted: view.omitted }),
  ...(view.waitsBehind && { waitsBehind: view.waitsBehind }),
  ...(view.retriedAs && { retriedAs: view.retriedAs }),
})

/** `resultBytes` is there only where the result was left out. */
export const fromChild = ({ resultBytes, ...child }: Child) => ({
  ...child,
  ...(resultBytes !== null && { resultBytes }),
})

/** What the next holder learns about an earlier attempt. */
export const fromPriorAttempt = members<Attempt>()(
  'seq attempt claimant claimedAt lastHeartbeatAt endedAt outcome disposition died summary',
)

const ofOwnAttempt = members<Attempt>()('endpointId progressAt leaseExpiresAt cause')

export const fromAttempt = (attempt: Attempt) => ({
  ...fromPriorAttempt(attempt),
  ...ofOwnAttempt(attempt),
})

const ofEvent = members<Fact>()(
  'queue contextId seq from to verb retrying attempt fence owner claimant ready detail at',
)

/** A committed event, without the documents it carried. */
export const fromEvent = (event: Fact) => ({
  id: event.todoId,
  ...ofEvent(event),
  ...byAuthor(event),
})
