/**
 * What the operator API answers (docs/operating.md, "The operator API"). An endpoint is shown
 * without its token: only the answer to a vending or a rotation holds one, once.
 */
import type { z } from 'zod'
import type { Endpoint } from '../../domain/endpoint.ts'
import { type Delivery, maskUrl } from '../../domain/push.ts'
import type { Queue } from '../../domain/queue.ts'
import type { TodoFilter, TodoPage, TodoView } from '../../domain/todo.ts'
import type { Why } from '../../domain/why.ts'
import type { AnswerLinks } from '../../service/board/answer-links.ts'
import type { BoardSession } from '../../service/board/sessions.ts'
import type { OperatorService, Shown } from '../../service/operator/operator.ts'
import type { Question } from '../../service/tasks/questions.ts'
import { formOf } from '../json/answer-form.ts'
import { toFilter } from '../json/fields.ts'
import { withoutSecrets } from '../json/secrets.ts'
import {
  fromAttempt,
  fromEvent,
  fromStored,
  fromTime,
  fromTimeOrNull,
  fromView,
} from '../json/todo.ts'
import type { putQueue, todoList } from './schema.ts'

type Put = Parameters<OperatorService['putQueue']>[0]

/** Half a backoff passes as a whole one: the service lays it over the one that is there. */
export const toPut = (put: z.output<typeof putQueue>): Put => put as Put

export const fromQueue = ({ name, card, policy, createdAt, updatedAt }: Queue) => ({
  name,
  card,
  policy,
  createdAt: fromTime(createdAt),
  updatedAt: fromTime(updatedAt),
})

export const fromEndpoint = (endpoint: Endpoint) => ({
  id: endpoint.id,
  name: endpoint.name,
  queues: endpoint.queues,
  verbs: endpoint.verbs,
  defaultLeaseSeconds: endpoint.defaultLeaseSeconds,
  interruptTtlSeconds: endpoint.interruptTtlSeconds,
  effects: endpoint.effects,
  sendPerMinute: endpoint.sendPerMinute,
  concurrency: endpoint.concurrency,
  createdAt: fromTime(endpoint.createdAt),
  expiresAt: fromTimeOrNull(endpoint.expiresAt),
  revokedAt: fromTimeOrNull(endpoint.revokedAt),
})

export const fromVended = ({ endpoint, token }: { endpoint: Endpoint; token: string }) => ({
  endpoint: fromEndpoint(endpoint),
  token,
})

/** `dead`: ended failures only. */
export const toListFilter = ({ dead, ...query }: z.output<typeof todoList>): TodoFilter => ({
  ...toFilter(query),
  ...(dead && { states: ['failed'], retrying: 'never' }),
})

export const fromViewForOperators = (view: TodoView) => fromView(withoutSecrets(view))

export const fromWhy = ({ why, since, until }: Why) => ({
  why,
  since: fromTime(since),
  until: fromTimeOrNull(until),
})

export const fromPage = ({ todos, nextPageToken, totalSize }: TodoPage) => ({
  todos: todos.map(fromViewForOperators),
  nextPageToken,
  totalSize,
})

/** The whole record: `messages` is the history with the place each has among the events. */
export const fromShown = (shown: Shown) => ({
  ...fromViewForOperators(shown.view),
  messages: withoutSecrets(shown.view).messages.map(fromStored),
  attempts: shown.attempts.map(fromAttempt),
  children: shown.children,
  events: shown.events.map(fromEvent),
  question: shown.question && fromQuestion(shown.question),
})

export const fromQuestion = ({ seq, deadline, schema }: Question) => ({
  seq,
  deadline: fromTimeOrNull(deadline),
  schema,
  /** The same for a person. */
  form: schema && formOf(schema),
})

export const fromAnswerLink = ({
  url,
  question,
  expiresAt,
}: Awaited<ReturnType<AnswerLinks['create']>>) => ({
  url,
  question,
  expiresAt: fromTime(expiresAt),
})

export const fromBoardSession = (session: BoardSession) => ({
  id: session.id,
  endpoint: session.endpoint && { id: session.endpoint.id, name: session.endpoint.name },
  live: session.live,
  createdAt: fromTime(session.createdAt),
  expiresAt: fromTime(session.expiresAt),
})

/** Where it goes is shown without what may be secret in it. */
export const fromDelivery = (delivery: Delivery) => ({
  id: delivery.id,
  todoId: delivery.todoId,
  configId: delivery.configId,
  queue: delivery.queue,
  url: delivery.url === null ? null : maskUrl(delivery.url),
  seq: delivery.seq,
  state: delivery.state,
  attempts: delivery.attempts,
  status: delivery.status,
  reason: delivery.reason,
  createdAt: fromTime(delivery.createdAt),
  attemptedAt: fromTimeOrNull(delivery.attemptedAt),
  nextAttemptAt: fromTimeOrNull(delivery.nextAttemptAt),
  settledAt: fromTimeOrNull(delivery.settledAt),
})
