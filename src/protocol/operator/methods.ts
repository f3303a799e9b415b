/**
 * The operator API (`POST /operator`; docs/operating.md, "The operator API"): one row for each
 * method, and who may call it. The admin token may call everything; an endpoint with the verb
 * `watch` reads todos, one with `answer` answers them. The service decides which todos it sees.
 */
import type { z } from 'zod'
import { defined } from '../../base/defined.ts'
import { type Endpoint, watchScope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { readIdempotencyKey } from '../a2a/send-options.ts'
import { withoutSecret } from '../json/secrets.ts'
import { fromDocuments, fromTime } from '../json/todo.ts'
import {
  type Call,
  type MethodTable,
  type Right,
  reading,
  type Services,
  unary,
} from '../wire/method.ts'
import * as schema from './schema.ts'
import {
  fromAnswerLink,
  fromBoardSession,
  fromDelivery,
  fromEndpoint,
  fromPage,
  fromPut,
  fromQueue,
  fromSchedule,
  fromShown,
  fromShownSchedule,
  fromTodo,
  fromVended,
  fromWhy,
  toListFilter,
  toPut,
} from './translate.ts'

/** Makes rows that share a right. Each says which service it calls and how it answers the result. */
const rowsFor =
  (right: Right<Call>) =>
  <S extends z.ZodType, R>(
    params: S,
    ask: (services: Services, params: z.output<S>, ctx: Call) => Promise<R>,
    answer: (result: R, params: z.output<S>) => unknown = () => ({}),
  ) =>
    unary(params, async (ctx, read) => answer(await ask(ctx.services, read, ctx), read), right)

const admin = rowsFor(({ caller }) => {
  if (caller.kind !== 'operator') throw new Refusal('forbidden')
})
const watch = rowsFor(({ caller }) => watchScope(caller, 'watch'))
const answer = rowsFor(({ caller }) => watchScope(caller, 'answer'))

/** A list under its name. */
const listed =
  <T>(name: string, from: (item: T) => unknown) =>
  (items: readonly T[]) => ({ [name]: items.map(from) })

const endpointOf = (endpoint: Endpoint) => ({ endpoint: fromEndpoint(endpoint) })

export const OPERATOR_METHODS: MethodTable = {
  'queues.put': admin(
    schema.putQueue,
    ({ operator }, put) => operator.putQueue(toPut(put)),
    fromPut,
  ),
  'queues.list': admin(
    schema.none,
    ({ operator }) => operator.listQueues(),
    listed('queues', fromQueue),
  ),
  'queues.remove': admin(schema.removeQueue, ({ operator }, { name }) =>
    operator.removeQueue(name),
  ),

  'endpoints.vend': admin(schema.vend, ({ operator }, vend) => operator.vend(vend), fromVended),
  'endpoints.list': admin(
    schema.none,
    ({ operator }) => operator.listEndpoints(),
    listed('endpoints', fromEndpoint),
  ),
  'endpoints.revoke': admin(
    schema.revoke,
    ({ operator }, { id, cancelTasks }) => operator.revoke(id, cancelTasks),
    endpointOf,
  ),
  'endpoints.rotate': admin(schema.byId, ({ operator }, { id }) => operator.rotate(id), fromVended),
  'endpoints.update': admin(
    schema.update,
    ({ operator }, { id, ...change }) => operator.updateEndpoint(id, change),
    endpointOf,
  ),

  'doctor.run': admin(
    schema.none,
    ({ operator }) => operator.diagnose(),
    ({ ok, checks }) => ({ ok, checks }),
  ),

  'settings.get': admin(
    schema.none,
    ({ operator }) => operator.getSettings(),
    (settings) => ({ settings }),
  ),
  'settings.set': admin(
    schema.setSetting,
    ({ operator }, { key, value }) => operator.setSetting(key, value),
    (_, { key, value }) => ({ key, value }),
  ),
  'settings.unset': admin(
    schema.unsetSetting,
    ({ operator }, { key }) => operator.unsetSetting(key),
    (_, { key }) => ({ key, value: null }),
  ),

  'schedules.put': admin(
    schema.putSchedule,
    ({ operator }, put) => operator.putSchedule(put),
    fromShownSchedule,
  ),
  'schedules.get': admin(
    schema.byName,
    ({ operator }, { name }) => operator.getSchedule(name),
    fromShownSchedule,
  ),
  'schedules.list': admin(
    schema.none,
    ({ operator }) => operator.listSchedules(),
    listed('schedules', fromSchedule),
  ),
  'schedules.remove': admin(schema.byName, ({ operator }, { name }) =>
    operator.removeSchedule(name),
  ),
  'schedules.pause': admin(
    schema.pauseSchedule,
    ({ operator }, { name, paused }) => operator.pauseSchedule(name, paused),
    fromShownSchedule,
  ),

  'sessions.list': admin(
    schema.none,
    ({ boardSessions }) => boardSessions.list(),
    listed('sessions', fromBoardSession),
  ),
  'sessions.revoke': admin(
    schema.revokeSession,
    ({ boardSessions }, { id }) => boardSessions.revoke(id ?? null),
    (revoked) => ({ revoked }),
  ),

  'todos.list': reading(
    watch(
      schema.todoList,
      ({ operator }, query, { caller }) => operator.list(toListFilter(query), caller),
      fromPage,
    ),
  ),
  'todos.show': reading(
    watch(schema.byId, ({ operator }, { id }, { caller }) => operator.show(id, caller), fromShown),
  ),
  'todos.documents': watch(
    schema.documents,
    ({ operator }, page, { caller }) => operator.documents(page, caller),
    (page) => fromDocuments(page, withoutSecret),
  ),
  'todos.send': admin(
    schema.send,
    ({ operator }, send, ctx) =>
      operator.send(
        defined<typeof send & { idempotencyKey?: string }>({
          ...send,
          idempotencyKey: readIdempotencyKey(ctx.idempotencyKey, undefined),
        }),
      ),
    fromTodo,
  ),
  'todos.answer': answer(
    schema.answer,
    ({ operator }, { id, message, question }, { caller }) =>
      operator.answer(id, message, caller, question),
    ({ view, receipt }) => ({ ...fromTodo(view), receipt }),
  ),
  'todos.answerLink': answer(
    schema.answerLink,
    ({ answerLinks }, { id, expiresInSeconds }, { caller }) =>
      answerLinks.create(id, expiresInSeconds, caller),
    fromAnswerLink,
  ),
  'todos.fork': admin(
    schema.fork,
    ({ operator }, { id, children }) => operator.fork(id, children),
    (children) => ({ children }),
  ),
  'todos.join': admin(
    schema.join,
    ({ operator }, { id, children, until, ...limits }) =>
      operator.join(id, children, until, limits),
    fromTodo,
  ),
  'todos.retry': reading(
    admin(
      schema.retry,
      ({ operator }, { id, artifacts }) => operator.retry(id, artifacts),
      fromTodo,
    ),
  ),
  'todos.why': reading(
    watch(schema.byId, ({ operator }, { id }, { caller }) => operator.why(id, caller), fromWhy),
  ),
  'todos.cancel': reading(
    admin(schema.byId, ({ operator }, { id }) => operator.cancel(id), fromTodo),
  ),

  'deliveries.list': reading(
    watch(
      schema.deliveryList,
      ({ push }, filter, { caller }) => push.deliveries(filter, caller),
      ({ deliveries, nextPageToken }) => ({
        deliveries: deliveries.map(fromDelivery),
        nextPageToken,
      }),
    ),
  ),
  'deliveries.retry': admin(schema.byId, ({ push }, { id }) => push.retry(id), fromDelivery),
  'push.rotateSecret': admin(
    schema.rotateSecret,
    ({ push }, { todoId, id, overlapSeconds }) => push.rotateSecret(todoId, id, overlapSeconds),
    ({ secret, previousUntil }) => ({ secret, previousUntil: fromTime(previousUntil) }),
  ),
}
