/**
 * A todo, its attempts and its events as JSON for our own surfaces: the agent API, the operator
 * API and the event feeds. A2A has its own words for these in v1/ and v03/. The same
 * names as in the domain; times in RFC 3339 with milliseconds, so that a change of the domain
 * does not reach the wire unnoticed, each member is written down.
 */
import type { Attempt, Event, FeedEvent, StoredMessage, Todo, TodoView } from '../../domain/todo.ts'

export const fromTime = (time: Date): string => time.toISOString()

export const fromTimeOrNull = (time: Date | null): string | null =>
  time === null ? null : fromTime(time)

/** An inbox message that the holder has not acknowledged; any message where seqs matter. */
export const fromStored = ({ seq, message, receivedAt, answers }: StoredMessage) => ({
  seq,
  message,
  receivedAt: fromTime(receivedAt),
  ...(answers !== null && { answers }),
})

/** Everything said so far, oldest first, and what it began with. */
export const fromMessages = (messages: readonly StoredMessage[]) => ({
  message: messages[0]?.message ?? null,
  history: messages.map(({ message }) => message),
})

/** The limits that bind this attempt: moments, and the seconds it may go without progress. */
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

const fromRow = (todo: Todo) => ({
  id: todo.id,
  queue: todo.queue,
  contextId: todo.contextId,
  state: todo.state,
  attempt: todo.attempt,
  maxAttempts: todo.maxAttempts,
  attemptsTotal: todo.attemptsTotal,
  fence: todo.fence,
  owner: todo.owner,
  claimant: todo.claimant,
  leaseExpiresAt: fromTimeOrNull(todo.leaseExpiresAt),
  interruptedAt: fromTimeOrNull(todo.interruptedAt),
  heldUntil: fromTimeOrNull(todo.interruptHeldUntil),
  dueAt: fromTimeOrNull(todo.dueAt),
  nextRetryAt: fromTimeOrNull(todo.nextRetryAt),
  progressAt: fromTimeOrNull(todo.progressAt),
  seq: todo.seq,
  unread: todo.unread,
  createdAt: fromTime(todo.createdAt),
  updatedAt: fromTime(todo.updatedAt),
  finishedAt: fromTimeOrNull(todo.finishedAt),
  statusAt: fromTime(todo.statusAt),
  deadlines: fromDeadlines(todo),
  retryOf: todo.retryOf,
  effects: todo.effects,
  ...(todo.parentId && { parentId: todo.parentId }),
  ...(todo.join && { join: todo.join }),
  idleSeconds: todo.idleSeconds === null ? null : Math.floor(todo.idleSeconds),
})

/** A todo with its documents. `artifacts` is absent where they were not read, as in lists. */
export const fromView = (view: TodoView) => ({
  ...fromRow(view.todo),
  ...fromMessages(view.messages),
  ...(view.artifacts && { artifacts: view.artifacts }),
  metadata: view.metadata,
  result: view.result,
  ...(view.waitsBehind && { waitsBehind: view.waitsBehind }),
})

/** What the next holder learns of an attempt before its own. */
export const fromPriorAttempt = (attempt: Attempt) => ({
  seq: attempt.seq,
  attempt: attempt.attempt,
  claimant: attempt.claimant,
  claimedAt: fromTime(attempt.claimedAt),
  lastHeartbeatAt: fromTimeOrNull(attempt.lastHeartbeatAt),
  endedAt: fromTimeOrNull(attempt.endedAt),
  outcome: attempt.outcome,
  disposition: attempt.disposition,
  died: attempt.died,
  summary: attempt.summary,
})

export const fromAttempt = (attempt: Attempt) => ({
  ...fromPriorAttempt(attempt),
  endpointId: attempt.endpointId,
  progressAt: fromTimeOrNull(attempt.progressAt),
  leaseExpiresAt: fromTimeOrNull(attempt.leaseExpiresAt),
  cause: attempt.cause,
})

/** A committed fact, without the documents it carried. */
export const fromEvent = (event: Event | FeedEvent) => ({
  id: event.todoId,
  queue: event.queue,
  contextId: event.contextId,
  seq: event.seq,
  from: event.from,
  to: event.to,
  verb: event.verb,
  retrying: event.retrying,
  attempt: event.attempt,
  fence: event.fence,
  owner: event.owner,
  claimant: event.claimant,
  ready: event.ready,
  detail: event.detail,
  at: fromTime(event.at),
})
