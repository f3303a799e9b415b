/**
 * What the agent API answers (docs/agents.md, "Without the kit"). Agents outside rely on these
 * shapes, so members may be added but are never renamed.
 */
import type { Attempt, Todo, TodoPage, TodoView } from '../../domain/todo.ts'
import type { ClaimedTodo } from '../../service/claims/claim.ts'
import type { DocumentPage } from '../../service/document-page.ts'
import { withoutSecret, withoutSecrets } from '../json/secrets.ts'
import {
  fromAttempt,
  fromBudget,
  fromChild,
  fromDeadlines,
  fromDocuments,
  fromMessages,
  fromPriorAttempt,
  fromSender,
  fromStart,
  fromStored,
  fromTime,
  fromTimeOrNull,
  fromView,
} from '../json/todo.ts'

export const fromClaimed = ({ view, unread, priorAttempts, children }: ClaimedTodo) => ({
  id: view.todo.id,
  queue: view.todo.queue,
  contextId: view.todo.contextId,
  state: view.todo.state,
  attempt: view.todo.attempt,
  maxAttempts: view.todo.maxAttempts,
  fence: view.todo.fence,
  leaseExpiresAt: fromTimeOrNull(view.todo.leaseExpiresAt),
  createdAt: fromTime(view.todo.createdAt),
  ...fromStart(view.todo),
  ...fromMessages(view.messages),
  unread: unread.map(fromStored),
  artifacts: view.artifacts ?? [],
  result: view.result,
  priorAttempts: priorAttempts.map(fromPriorAttempt),
  attemptsTotal: view.todo.attemptsTotal,
  metadata: view.metadata,
  ...fromSender(view),
  effects: view.todo.effects,
  ...fromBudget(view.todo),
  ...(view.todo.parentId && { parentId: view.todo.parentId }),
  children: children.map(fromChild),
  ...(view.todo.joinTimedOutAt && { joinTimedOutAt: fromTime(view.todo.joinTimedOutAt) }),
  deadlines: fromDeadlines(view.todo),
  ...(view.omitted && { omitted: view.omitted }),
})

export const fromPageOfDocuments = (page: DocumentPage, readerId: string) =>
  fromDocuments(page, (message) =>
    page.todo.owner === readerId ? message : withoutSecret(message),
  )

/** The holder gets the answer to an authorization request; another agent does not. */
const fromViewFor = (view: TodoView, readerId: string) =>
  fromView(view.todo.owner === readerId ? view : withoutSecrets(view))

export const fromGot = (
  { view, attempts }: { view: TodoView; attempts: Attempt[] },
  readerId: string,
) => ({
  ...fromViewFor(view, readerId),
  attempts: attempts.map(fromAttempt),
})

export const fromPage = ({ todos, nextPageToken }: TodoPage, readerId: string) => ({
  todos: todos.map((view) => fromViewFor(view, readerId)),
  nextPageToken,
})

/** The answer to a heartbeat. `heldUntil` is there only while the holder holds an interrupted todo. */
export const fromHeartbeat = (todo: Todo) => ({
  state: todo.state,
  leaseExpiresAt: fromTimeOrNull(todo.leaseExpiresAt),
  ...(todo.interruptHeldUntil && { heldUntil: fromTime(todo.interruptHeldUntil) }),
  unread: todo.unread,
})

export const fromInterrupted = ({ todo, deadline }: { todo: Todo; deadline: Date | null }) => ({
  state: todo.state,
  interruptedAt: fromTimeOrNull(todo.interruptedAt),
  deadline: fromTimeOrNull(deadline),
  fence: todo.fence,
})

export const fromFailed = (todo: Todo) => ({
  state: todo.state,
  deadLetter: todo.nextRetryAt === null,
  nextRetryAt: fromTimeOrNull(todo.nextRetryAt),
})
