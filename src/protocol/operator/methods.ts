/**
 * The operator API (`POST /operator`; docs/operating.md, "The operator API"): one row for each
 * method, and who may call it. The admin token may call everything; an endpoint that may watch
 * reads todos, one that may answer answers them. Which of them it sees, the service decides.
 */

import { watchScope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { readIdempotencyKey } from '../a2a/send-options.ts'
import { fromTime } from '../json/todo.ts'
import { type Call, type MethodTable, unary } from '../method.ts'
import * as schema from './schema.ts'
import {
  fromAnswerLink,
  fromBoardSession,
  fromDelivery,
  fromEndpoint,
  fromPage,
  fromQueue,
  fromShown,
  fromVended,
  fromViewForOperators,
  fromWhy,
  toListFilter,
  toPut,
} from './translate.ts'

const admin = ({ caller }: Call): void => {
  if (caller.kind !== 'operator') throw new Refusal('forbidden')
}
const watch = ({ caller }: Call) => watchScope(caller, 'watch')
const answer = ({ caller }: Call) => watchScope(caller, 'answer')

export const OPERATOR_METHODS: MethodTable = {
  'queues.put': unary(
    schema.putQueue,
    async ({ services }, put) => fromQueue(await services.operator.putQueue(toPut(put))),
    admin,
  ),

  'queues.list': unary(
    schema.none,
    async ({ services }) => ({ queues: (await services.operator.listQueues()).map(fromQueue) }),
    admin,
  ),

  'queues.remove': unary(
    schema.removeQueue,
    async ({ services }, { name }) => {
      await services.operator.removeQueue(name)
      return {}
    },
    admin,
  ),

  'endpoints.vend': unary(
    schema.vend,
    async ({ services }, vend) => fromVended(await services.operator.vend(vend)),
    admin,
  ),

  'endpoints.list': unary(
    schema.none,
    async ({ services }) => ({
      endpoints: (await services.operator.listEndpoints()).map(fromEndpoint),
    }),
    admin,
  ),

  'endpoints.revoke': unary(
    schema.revoke,
    async ({ services }, { id, cancelTasks }) => ({
      endpoint: fromEndpoint(await services.operator.revoke(id, cancelTasks)),
    }),
    admin,
  ),

  'endpoints.rotate': unary(
    schema.byId,
    async ({ services }, { id }) => fromVended(await services.operator.rotate(id)),
    admin,
  ),

  'endpoints.update': unary(
    schema.update,
    async ({ services }, { id, ...change }) => ({
      endpoint: fromEndpoint(await services.operator.updateEndpoint(id, change)),
    }),
    admin,
  ),

  'settings.get': unary(
    schema.none,
    async ({ services }) => ({ settings: await services.operator.getSettings() }),
    admin,
  ),

  'settings.set': unary(
    schema.setSetting,
    async ({ services }, { key, value }) => {
      await services.operator.setSetting(key, value)
      return { key, value }
    },
    admin,
  ),

  'settings.unset': unary(
    schema.unsetSetting,
    async ({ services }, { key }) => {
      await services.operator.unsetSetting(key)
      return { key, value: null }
    },
    admin,
  ),

  'sessions.list': unary(
    schema.none,
    async ({ services }) => ({
      sessions: (await services.boardSessions.list()).map(fromBoardSession),
    }),
    admin,
  ),

  'sessions.revoke': unary(
    schema.revokeSession,
    async ({ services }, { id }) => ({
      revoked: await services.boardSessions.revoke(id ?? null),
    }),
    admin,
  ),

  'todos.list': unary(
    schema.todoList,
    async ({ services, caller }, query) =>
      fromPage(await services.operator.list(toListFilter(query), caller)),
    watch,
  ),

  'todos.show': unary(
    schema.byId,
    async ({ services, caller }, { id }) => fromShown(await services.operator.show(id, caller)),
    watch,
  ),

  'todos.send': unary(
    schema.send,
    async ({ services, idempotencyKey: header }, send) => {
      const idempotencyKey = readIdempotencyKey(header, undefined)
      const asked = idempotencyKey === undefined ? send : { ...send, idempotencyKey }
      return fromViewForOperators(await services.operator.send(asked))
    },
    admin,
  ),

  'todos.answer': unary(
    schema.answer,
    async ({ services, caller }, { id, message, question }) => {
      const { view, receipt } = await services.operator.answer(id, message, caller, question)
      return { ...fromViewForOperators(view), receipt }
    },
    answer,
  ),

  'todos.answerLink': unary(
    schema.answerLink,
    async ({ services, caller }, { id, expiresInSeconds }) =>
      fromAnswerLink(await services.answerLinks.create(id, expiresInSeconds, caller)),
    answer,
  ),

  'todos.fork': unary(
    schema.fork,
    async ({ services }, { id, children }) => ({
      children: await services.operator.fork(id, children),
    }),
    admin,
  ),

  'todos.join': unary(
    schema.join,
    async ({ services }, { id, children, until }) =>
      fromViewForOperators(await services.operator.join(id, children, until)),
    admin,
  ),

  'todos.retry': unary(
    schema.byId,
    async ({ services }, { id }) => fromViewForOperators(await services.operator.retry(id)),
    admin,
  ),

  'todos.why': unary(
    schema.byId,
    async ({ services, caller }, { id }) => fromWhy(await services.operator.why(id, caller)),
    watch,
  ),

  'todos.cancel': unary(
    schema.byId,
    async ({ services }, { id }) => fromViewForOperators(await services.operator.cancel(id)),
    admin,
  ),

  'deliveries.list': unary(
    schema.deliveryList,
    async ({ services, caller }, filter) => {
      const { deliveries, nextPageToken } = await services.push.deliveries(filter, caller)
      return { deliveries: deliveries.map(fromDelivery), nextPageToken }
    },
    watch,
  ),

  'deliveries.retry': unary(
    schema.byId,
    async ({ services }, { id }) => fromDelivery(await services.push.retry(id)),
    admin,
  ),

  'push.rotateSecret': unary(
    schema.rotateSecret,
    async ({ services }, { todoId, id, overlapSeconds }) => {
      const rotated = await services.push.rotateSecret(todoId, id, overlapSeconds)
      return { secret: rotated.secret, previousUntil: fromTime(rotated.previousUntil) }
    },
    admin,
  ),
}
