/**
 * What the operator API answers (docs/operating.md, "The operator API"). An endpoint is shown
 * without its token: only the answer to a vending or a rotation contains one, once.
 */
import type { z } from 'zod'
import type { Endpoint } from '../../domain/endpoint.ts'
import { type Delivery, maskUrl } from '../../domain/push.ts'
import type { Queue } from '../../domain/queue.ts'
import type { Schedule } from '../../domain/sends/schedule.ts'
import type { JsonObject, TodoFilter, TodoPage, TodoView } from '../../domain/todo.ts'
import type { Why } from '../../domain/why.ts'
import type { AnswerLinks } from '../../service/board/answer-links.ts'
import type { BoardSession } from '../../service/board/sessions.ts'
import type { OperatorService, Shown } from '../../service/operator/operator.ts'
import type { ShownSchedule } from '../../service/schedules/schedules.ts'
import type { Question } from '../../service/tasks/questions.ts'
import { formOf } from '../json/answer-form.ts'
import { toFilter } from '../json/fields.ts'
import { members } from '../json/object.ts'
import { withoutSecret, withoutSecrets } from '../json/secrets.ts'
import {
  fromAttempt,
  fromChild,
  fromEvent,
  fromStored,
  fromTime,
  fromTimeOrNull,
  fromView,
} from '../json/todo.ts'
import { warningsOf } from './card.ts'
import type { putQueue, todoList } from './schema.ts'

type Put = Parameters<OperatorService['putQueue']>[0]

/** A partial backoff passes for a whole one, because the service merges it into the one it has. */
export const toPut = (put: z.output<typeof putQueue>): Put => put as Put

export const fromQueue = members<Queue>()('name card policy createdAt updatedAt')

/** `warnings` names all of the card that is not published as it was written. */
export const fromPut = (queue: Queue, { card }: z.output<typeof putQueue>) => ({
  ...fromQueue(queue),
  warnings: card === undefined ? [] : warningsOf(card as JsonObject),
})

export const fromEndpoint = members<Endpoint>()(
  'id name queues verbs defaultLeaseSeconds interruptTtlSeconds effects sendPerMinute concurrency',
  'highestPriority lowestPriority createdAt expiresAt revokedAt',
)

/** In a list, without its message: that may be long. */
export const fromSchedule = members<Schedule>()(
  'name queue cron timeZone catchUp catchUpLimit priority timeouts paused nextAt lastTickAt',
  'lastTodoId made skipped error createdAt updatedAt',
)

export const fromShownSchedule = ({ schedule, upcoming }: ShownSchedule) => ({
  ...fromSchedule(schedule),
  message: schedule.message,
  upcoming: upcoming.map(fromTime),
})

export const fromVended = ({ endpoint, token }: { endpoint: Endpoint; token: string }) => ({
  endpoint: fromEndpoint(endpoint),
  token,
})

/** `dead` means only failures without a retry to come. */
export const toListFilter = ({ dead, ...query }: z.output<typeof todoList>): TodoFilter => ({
  ...toFilter(query),
  ...(dead && { states: ['failed'], retrying: 'never' }),
})

export const fromTodo = (view: TodoView) => fromView(withoutSecrets(view))

export const fromWhy = members<Why>()('why since until')

export const fromPage = ({ todos, nextPageToken, totalSize }: TodoPage) => ({
  todos: todos.map(fromTodo),
  nextPageToken,
  totalSize,
})

/** The whole record. `messages` is the history again, with the seq of each message. */
export const fromShown = (shown: Shown) => ({
  ...fromTodo(shown.view),
  messages: withoutSecrets(shown.view).messages.map(fromStored),
  attempts: shown.attempts.map(fromAttempt),
  children: shown.children.map(fromChild),
  events: shown.events.map(fromEvent),
  question: shown.question && fromQuestion(shown.question),
  owed: shown.owed.map(withoutSecret).map(fromStored),
})

export const fromQuestion = ({ seq, deadline, schema }: Question) => ({
  seq,
  deadline: fromTimeOrNull(deadline),
  schema,
  /** The schema, for a person. */
  form: schema && formOf(schema),
})

export const fromAnswerLink =
  members<Awaited<ReturnType<AnswerLinks['create']>>>()('url question expiresAt')

const lifeOf = members<BoardSession>()('live createdAt expiresAt')

export const fromBoardSession = (session: BoardSession) => ({
  id: session.id,
  endpoint: session.endpoint && { id: session.endpoint.id, name: session.endpoint.name },
  ...lifeOf(session),
})

const addressOf = members<Delivery>()('id todoId configId queue')
const outcomeOf = members<Delivery>()(
  'seq state attempts status reason createdAt attemptedAt nextAttemptAt settledAt',
)

/** The URL is shown without the parts that may be secret. */
export const fromDelivery = (delivery: Delivery) => ({
  ...addressOf(delivery),
  url: delivery.url === null ? null : maskUrl(delivery.url),
  ...outcomeOf(delivery),
})
