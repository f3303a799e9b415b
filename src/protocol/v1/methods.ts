/**
 * The eleven methods of A2A 1.0, one row each (spec 3.1, 9.4). A row translates, calls one service
 * and translates back. How long a send waits and what a stream shows is decided here; what a state
 * allows is not.
 */
import type { z } from 'zod'
import { defined } from '../../base/defined.ts'
import { withDeadline } from '../../base/time.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import type { TodoView } from '../../domain/todo.ts'
import type { Send, Sent } from '../../service/tasks/client.ts'
import { answering, own, sending, sendingOwn } from '../a2a/access.ts'
import { type AgentCard, agentCard, extendedCard } from '../a2a/card.ts'
import { readIdempotencyKey, readWait } from '../a2a/send-options.ts'
import { withoutSecrets } from '../json/secrets.ts'
import {
  type MethodTable,
  type QueueCall,
  reading,
  type StreamItem,
  stream,
  unary,
} from '../wire/method.ts'
import { acceptPush, acceptSend, acceptStream } from './accept.ts'
import { fromPushConfig, toPushConfig } from './push.ts'
import { REQUESTS, type SendMessageRequest } from './schema.ts'
import {
  fromEvent,
  fromPage,
  fromSent,
  fromTodo,
  hasEnded,
  toFilter,
  toSend,
  withReceipt,
} from './translate.ts'
import type { StreamResponse } from './wire.ts'

export interface V1Options {
  /** Where clients reach the server. */
  publicUrl: () => string
  /** Signs a card for this public address; absent: cards are not signed. */
  signCard?: (card: AgentCard, publicUrl: string) => Promise<AgentCard>
  /** The longest that a blocking send waits, in milliseconds; then it answers with the task as it is. */
  maxWaitMs?: number
}

const MAX_WAIT_MS = 600_000

/** Somebody who reads a task that another sent does not get the sender's credentials with it. */
const shown = ({ caller }: QueueCall, view: TodoView): TodoView =>
  caller.kind === 'endpoint' && caller.endpoint.id === view.todo.clientId
    ? view
    : withoutSecrets(view)

/** An endpoint that may only answer can reply to a task, but cannot begin one. */
const send = async (ctx: QueueCall, request: SendMessageRequest): Promise<Sent> => {
  acceptSend(ctx.queue, request)
  if (request.message.taskId === undefined) own(ctx)
  const idempotencyKey = readIdempotencyKey(ctx.idempotencyKey, request.metadata)
  const send = toSend(ctx.queue.name, request, ctx.dialect)
  const sent = await ctx.services.client.send(
    defined<Send>({ ...send, id: ctx.newTaskId, idempotencyKey }),
    ctx.access,
  )
  if (sent.pushSecret !== undefined) showSecret(ctx, sent.pushSecret)
  return sent
}

/** The secret goes into a header, because no object of the protocol has a place for it. */
const showSecret = (ctx: QueueCall, secret: string): void =>
  ctx.setHeader('Switchboard-Webhook-Secret', secret)

/** The todo once it is settled, or as it is if that takes too long or the server stops. */
const settled = async (ctx: QueueCall, sent: Sent, maxWaitMs: number): Promise<TodoView> => {
  const { id } = sent.view.todo
  const { watch, client } = ctx.services
  const view = await withDeadline(ctx.signal, maxWaitMs, (signal) =>
    watch.settle(id, sent.after, signal),
  )
  return view ?? client.get(id, answering(ctx))
}

/** The events after `after` that a stream shows, each with its seq as id. */
async function* events(
  ctx: QueueCall,
  id: string,
  after: number,
  options?: { justRead: boolean },
): AsyncGenerator<StreamItem<StreamResponse>> {
  for await (const event of ctx.services.watch.follow(id, after, ctx.signal, options)) {
    const result = fromEvent(event)
    if (result) yield { id: String(event.seq), result }
  }
}

/** The task as it is, then what happens to it. */
const taskThenEvents = (
  ctx: QueueCall,
  view: TodoView,
  historyLength?: number,
): AsyncGenerator<StreamItem<StreamResponse>> => {
  const { id, seq } = view.todo
  const first = [{ id: String(seq), result: { task: fromTodo(view, historyLength) } }]
  const rest = hasEnded(view.todo) ? nothing() : events(ctx, id, seq, { justRead: true })
  return firstThen(first, rest)
}

/** `first` is emptied: a stream that lasts would keep the whole task as long. */
async function* firstThen<T>(first: T[], rest: AsyncIterable<T>): AsyncGenerator<T> {
  yield first.pop()!
  yield* rest
}

async function* nothing(): AsyncGenerator<StreamItem<never>> {}

const CURSOR_FIELD = 'Last-Event-ID'

/** The seq that a stream resumes after; null if there is none. Refuses: invalid. */
const toCursor = (lastEventId: string | null): number | null => {
  if (lastEventId === null) return null
  if (/^\d{1,10}$/.test(lastEventId)) return Number(lastEventId)
  throw invalid(CURSOR_FIELD, 'must be the id of an event of this task')
}

const subscribe = (ctx: QueueCall, view: TodoView, cursor: number | null) => {
  const { todo } = view
  if (cursor === null) {
    if (hasEnded(todo)) throw new Refusal('unsupported')
    return taskThenEvents(ctx, view)
  }
  if (cursor > todo.seq) throw invalid(CURSOR_FIELD, 'must be the id of an event of this task')
  // The client has seen everything, and an ended task has nothing more to say.
  if (cursor === todo.seq && hasEnded(todo)) return nothing()
  return events(ctx, todo.id, cursor)
}

/** A row about the webhooks of the caller's own task. Refuses: push_unsupported. */
const pushRow = <S extends z.ZodType, R>(
  params: S,
  call: (ctx: QueueCall, params: z.output<S>, scope: Scope) => Promise<R>,
) =>
  unary(
    params,
    async (ctx: QueueCall, read) => {
      acceptPush(ctx.queue)
      return call(ctx, read, own(ctx))
    },
    own,
  )

const PUSH_METHODS = {
  CreateTaskPushNotificationConfig: pushRow(
    REQUESTS.TaskPushNotificationConfig,
    async (ctx, request, scope) => {
      const requested = toPushConfig(request, ctx.dialect)
      const { push } = ctx.services
      const { config, secret } = await push.create(request.taskId, requested, scope, ctx.caller)
      showSecret(ctx, secret)
      return fromPushConfig(config)
    },
  ),

  GetTaskPushNotificationConfig: pushRow(
    REQUESTS.GetTaskPushNotificationConfigRequest,
    async ({ services }, { taskId, id }, scope) =>
      fromPushConfig(await services.push.get(taskId, id, scope)),
  ),

  ListTaskPushNotificationConfigs: pushRow(
    REQUESTS.ListTaskPushNotificationConfigsRequest,
    async ({ services }, { taskId, pageSize, pageToken }, scope) => {
      // Zero is the field's default, so it means that the field was not set.
      const page = defined<{ pageSize?: number; pageToken?: string }>({
        pageSize: pageSize || undefined,
        pageToken,
      })
      const { configs, nextPageToken } = await services.push.list(taskId, page, scope)
      return defined({
        configs: configs.map(fromPushConfig),
        nextPageToken: nextPageToken || undefined,
      })
    },
  ),

  DeleteTaskPushNotificationConfig: pushRow(
    REQUESTS.DeleteTaskPushNotificationConfigRequest,
    async ({ services }, { taskId, id }, scope) => {
      await services.push.delete(taskId, id, scope)
      return {}
    },
  ),
} satisfies MethodTable<QueueCall>

/** The table. rpc/ turns params that break a schema, and refusals of a service, into errors. */
export const createV1Methods = (options: V1Options) => {
  const { publicUrl, signCard, maxWaitMs = MAX_WAIT_MS } = options
  return {
    SendMessage: unary(
      REQUESTS.SendMessageRequest,
      async (ctx: QueueCall, request) => {
        const { historyLength, returnImmediately } = request.configuration ?? {}
        const limitMs = Math.min(readWait(request.metadata) ?? maxWaitMs, maxWaitMs)
        const sent = await send(ctx, request)
        const waits = !returnImmediately && limitMs > 0 && sent.after > 0
        const view = waits ? await settled(ctx, sent, limitMs) : sent.view
        return fromSent(withReceipt(shown(ctx, view), sent.receipt), historyLength)
      },
      sending,
    ),

    SendStreamingMessage: stream(
      REQUESTS.SendMessageRequest,
      async (ctx: QueueCall, request) => {
        acceptStream(ctx.queue)
        // There is nothing to wait for, but an option that cannot be read is refused all the same.
        readWait(request.metadata)
        const { view, receipt } = await send(ctx, request)
        const task = withReceipt(shown(ctx, view), receipt)
        return taskThenEvents(ctx, task, request.configuration?.historyLength)
      },
      sendingOwn,
    ),

    GetTask: reading(
      unary(
        REQUESTS.GetTaskRequest,
        async (ctx: QueueCall, { id, historyLength }) => {
          const view = await ctx.services.client.get(id, answering(ctx))
          return fromTodo(shown(ctx, view), historyLength)
        },
        answering,
      ),
    ),

    ListTasks: reading(
      unary(
        REQUESTS.ListTasksRequest,
        async (ctx: QueueCall, request) =>
          fromPage(await ctx.services.client.list(toFilter(request), own(ctx)), request),
        own,
      ),
    ),

    CancelTask: reading(
      unary(
        REQUESTS.CancelTaskRequest,
        async (ctx: QueueCall, { id }) => fromTodo(await ctx.services.client.cancel(id, own(ctx))),
        own,
      ),
    ),

    SubscribeToTask: reading(
      stream(
        REQUESTS.SubscribeToTaskRequest,
        async (ctx: QueueCall, { id }) => {
          acceptStream(ctx.queue)
          const cursor = toCursor(ctx.lastEventId)
          return subscribe(ctx, await ctx.services.client.get(id, own(ctx)), cursor)
        },
        own,
      ),
    ),

    ...PUSH_METHODS,

    GetExtendedAgentCard: unary(
      REQUESTS.GetExtendedAgentCardRequest,
      async ({ queue }: QueueCall) => {
        const card = extendedCard(queue, agentCard(queue, publicUrl()))
        return signCard ? signCard(card, publicUrl()) : card
      },
      answering,
    ),
  } satisfies MethodTable<QueueCall>
}

export type V1Methods = ReturnType<typeof createV1Methods>
