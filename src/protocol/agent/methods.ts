/**
 * The agent API (`POST /agent`; docs/agents.md, "Without the kit"): one row for each method. Only
 * an endpoint that may work has a say here; which queues and which todos are its own is the
 * service's to decide.
 */
import { endpointWith } from '../../domain/endpoint.ts'
import { todoQuery, toFilter } from '../json/fields.ts'
import { fromStored, fromTimeOrNull } from '../json/todo.ts'
import { type Call, type MethodTable, unary } from '../method.ts'
import * as schema from './schema.ts'
import {
  fromClaimed,
  fromFailed,
  fromGot,
  fromHeartbeat,
  fromInterrupted,
  fromPage,
} from './translate.ts'

const work = ({ caller }: Call) => endpointWith(caller, 'work')

export const AGENT_METHODS: MethodTable = {
  'todos.claim': unary(
    schema.claim,
    async ({ services, caller, signal }, params) => ({
      todos: (await services.agent.claim(params, caller, signal)).map(fromClaimed),
    }),
    work,
  ),

  'todos.heartbeat': unary(
    schema.heartbeat,
    async ({ services, caller }, params) =>
      fromHeartbeat(await services.agent.heartbeat(params, caller)),
    work,
  ),

  'todos.progress': unary(
    schema.progress,
    async ({ services, caller }, params) => ({
      progressAt: fromTimeOrNull((await services.agent.progress(params, caller)).progressAt),
    }),
    work,
  ),

  'todos.say': unary(
    schema.say,
    async ({ services, caller }, params) => ({
      seq: (await services.agent.say(params, caller)).seq,
    }),
    work,
  ),

  'todos.artifact': unary(
    schema.addArtifact,
    async ({ services, caller }, params) => ({
      seq: (await services.agent.artifact(params, caller)).seq,
    }),
    work,
  ),

  'todos.interrupt': unary(
    schema.interrupt,
    async ({ services, caller }, params) =>
      fromInterrupted(await services.agent.interrupt(params, caller)),
    work,
  ),

  'todos.messages': unary(
    schema.messages,
    async ({ services, caller, signal }, params) => {
      const { state, messages } = await services.agent.messages(params, caller, signal)
      return { state, messages: messages.map(fromStored) }
    },
    work,
  ),

  'todos.acknowledge': unary(
    schema.acknowledge,
    async ({ services, caller }, params) => ({
      unread: (await services.agent.acknowledge(params, caller)).unread,
    }),
    work,
  ),

  'todos.complete': unary(
    schema.complete,
    async ({ services, caller }, params) => ({
      state: (await services.agent.complete(params, caller)).state,
    }),
    work,
  ),

  'todos.fail': unary(
    schema.fail,
    async ({ services, caller }, params) => fromFailed(await services.agent.fail(params, caller)),
    work,
  ),

  'todos.release': unary(
    schema.release,
    async ({ services, caller }, params) => ({
      state: (await services.agent.release(params, caller)).state,
    }),
    work,
  ),

  'todos.reject': unary(
    schema.reject,
    async ({ services, caller }, params) => ({
      state: (await services.agent.reject(params, caller)).state,
    }),
    work,
  ),

  'todos.fork': unary(
    schema.fork,
    async ({ services, caller }, params) => ({
      children: await services.agent.fork(params, caller),
    }),
    work,
  ),

  'todos.join': unary(
    schema.join,
    async ({ services, caller }, params) => {
      const { state, fence } = await services.agent.join(params, caller)
      return { state, fence }
    },
    work,
  ),

  'todos.get': unary(
    schema.get,
    async (ctx, { id }) => fromGot(await ctx.services.agent.get(id, ctx.caller), work(ctx).id),
    work,
  ),

  'todos.list': unary(
    todoQuery,
    async (ctx, query) =>
      fromPage(await ctx.services.agent.list(toFilter(query), ctx.caller), work(ctx).id),
    work,
  ),
}

/** The calls of a batch about one todo take turns; what names none waits for all, and all for it. */
export const turnOf = ({ params }: { params?: unknown }): string | null => {
  const { id } = (typeof params === 'object' && params !== null ? params : {}) as { id?: unknown }
  return typeof id === 'string' ? id : null
}
