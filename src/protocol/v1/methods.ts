/**
 * The eleven methods of A2A 1.0, one row each (spec 3.1, 9.4). A row translates, calls one service
 * and translates back. How long a send waits and what a stream shows is decided here; what a state
 * allows is not.
 */
import type { z } from 'zod'
import { defined } from '../../base/defined.ts'
import { firstThen } from '../../base/streams.ts'
import { withDeadline } from '../../base/time.ts'
import { ARTIFACT_BYTES } from '../../domain/budget.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { invalid, isRefusal, Refusal } from '../../domain/errors.ts'
import type { State } from '../../domain/lifecycle.ts'
import type { JsonObject, RequestFacts, TodoView } from '../../domain/todo.ts'
import type { Send, Sent } from '../../service/tasks/client.ts'
import { answering, own, sending, sendingOwn } from '../a2a/access.ts'
import { type AgentCard, agentCard, extendedCard } from '../a2a/card.ts'
import { resumesBare } from '../a2a/extensions.ts'
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
import {
  type Cursor,
  checkReached,
  notOfThisSend,
  placeOf,
  sendEventId,
  toCursor,
  toSendCursor,
} from './cursors.ts'
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
  publicUrl: (host?: string) => string
  /** Signs a card for this public address; absent: cards are not signed. */
  signCard?: (card: AgentCard, publicUrl: string) => Promise<AgentCard>
  /** The longest that a blocking send waits, in milliseconds; then it answers with the task as it is. */
  maxWaitMs?: number
}

export const MAX_WAIT_MS = 600_000

/** Somebody who reads a task that another sent does not get the sender's credentials with it. */
const shown = ({ caller }: QueueCall, view: TodoView): TodoView =>
  caller.kind === 'endpoint' && caller.endpoint.id === view.todo.clientId
    ? view
    : withoutSecrets(view)

/** W3C trace context: one that is malformed is as good as none. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** What a send says beside its message and its metadata, for the agent; undefined if that is nothing. */
const factsOf = (
  { extensions, traceparent }: QueueCall,
  { configuration }: SendMessageRequest,
): RequestFacts | undefined => {
  const modes = configuration?.acceptedOutputModes
  const facts = defined<RequestFacts>({
    extensions: extensions.size > 0 ? [...extensions] : undefined,
    acceptedOutputModes: modes && modes.length > 0 ? modes : undefined,
    traceparent: traceparent && TRACEPARENT.test(traceparent) ? traceparent : undefined,
  })
  return Object.keys(facts).length > 0 ? facts : undefined
}

/** An endpoint that may only answer can reply to a task, but cannot begin one. */
const send = async (ctx: QueueCall, request: SendMessageRequest): Promise<Sent> => {
  acceptSend(ctx.queue, request)
  if (request.message.taskId === undefined) own(ctx)
  const idempotencyKey = readIdempotencyKey(ctx.idempotencyKey, request.metadata)
  const send = toSend(ctx.queue.name, request, ctx.dialect)
  const sent = await ctx.services.client.send(
    defined<Send>({ ...send, id: ctx.newTaskId, idempotencyKey, request: factsOf(ctx, request) }),
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

/** A task whose artifacts were left out would be taken for one that has none. Refuses: limit. */
const withArtifacts = (view: TodoView): TodoView => {
  const bytes = view.omitted?.artifactBytes ?? 0
  if (bytes === 0) return view
  throw new Refusal(
    'limit',
    { id: view.todo.id, limit: ARTIFACT_BYTES },
    `Its artifacts come to ${bytes} bytes, and an answer holds ${ARTIFACT_BYTES} at most`,
  )
}

/** Why a client cancels: for the agent that works on the task, and for operators. Refuses: invalid. */
const reasonIn = (metadata: JsonObject | undefined): string | undefined => {
  const reason = metadata?.reason
  if (reason === undefined || typeof reason === 'string') return reason
  throw invalid('metadata.reason', 'must be a text')
}

interface StreamOptions {
  justRead?: boolean
  /** The stream of a send: its ids name the task, and it ends when the agent asks for input. */
  ofSend?: boolean
}

/** The events after `after` that a stream shows, each with its id. */
async function* events(
  ctx: QueueCall,
  id: string,
  after: number,
  { ofSend = false, ...options }: StreamOptions = {},
): AsyncGenerator<StreamItem<StreamResponse>> {
  for await (const event of ctx.services.watch.follow(id, after, ctx.signal, options)) {
    const result = fromEvent(event)
    if (!result) continue
    yield { id: ofSend ? sendEventId(id, event.seq) : String(event.seq), result }
    // Nothing more happens until the client answers, and it may read to the end before it does.
    // A request for authorization may be met without it, so that stream goes on (spec 7.6.1).
    if (ofSend && event.to === ASKS_INPUT) return
  }
}

const ASKS_INPUT: State = 'input-required'

/** The task as it is, then what happens to it. */
const taskThenEvents = (
  ctx: QueueCall,
  view: TodoView,
): AsyncIterable<StreamItem<StreamResponse>> => {
  const { id, seq } = view.todo
  const first = { id: String(seq), result: { task: fromTodo(view) } }
  const rest = hasEnded(view.todo) ? nothing() : events(ctx, id, seq, { justRead: true })
  return firstThen(first, rest)
}

/**
 * The stream of a send that was just accepted. A task that shows a question which came before the
 * message goes on: its answer waits for its turn.
 */
const sentThenEvents = (
  ctx: QueueCall,
  view: TodoView,
  historyLength: number | undefined,
  after: number,
): AsyncIterable<StreamItem<StreamResponse>> => {
  const { id, seq, state, statusSeq } = view.todo
  const first = { id: sendEventId(id, seq), result: { task: fromTodo(view, historyLength) } }
  const asked = state === ASKS_INPUT && (after === 0 || statusSeq > after)
  const isOver = hasEnded(view.todo) || asked
  return firstThen(
    first,
    isOver ? nothing() : events(ctx, id, seq, { justRead: true, ofSend: true }),
  )
}

async function* nothing(): AsyncGenerator<StreamItem<never>> {}

const subscribe = (ctx: QueueCall, view: TodoView, cursor: number | null) => {
  const { todo } = view
  if (cursor === null) {
    if (hasEnded(todo)) throw new Refusal('unsupported')
    return taskThenEvents(ctx, view)
  }
  checkReached(cursor, view)
  // The task holds what was missed, its end included; the events of that would double its artifacts.
  if (!resumesBare(ctx)) return taskThenEvents(ctx, view)
  // The client has seen everything, and an ended task has nothing more to say.
  if (cursor === todo.seq && hasEnded(todo)) return nothing()
  return events(ctx, todo.id, cursor)
}

/** The stream that this very send has opened, after the last event that its client saw. */
const goOn = async (ctx: QueueCall, { message }: SendMessageRequest, { taskId, seq }: Cursor) => {
  const view = await ctx.services.client.get(taskId, own(ctx)).catch((error: unknown) => {
    throw isRefusal(error, 'not_found') ? notOfThisSend() : error
  })
  const sentAt = placeOf(message, view)
  checkReached(seq, view)
  const { todo } = view
  const asked = todo.state === ASKS_INPUT && todo.statusSeq > sentAt && todo.statusSeq <= seq
  if (asked || (seq === todo.seq && hasEnded(todo))) return nothing()
  return events(ctx, taskId, seq, { ofSend: true })
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
        const cursor = toSendCursor(ctx.lastEventId, request.message)
        if (cursor) return goOn(ctx, request, cursor)
        const { view, receipt, after } = await send(ctx, request)
        const task = withReceipt(shown(ctx, view), receipt)
        return sentThenEvents(ctx, task, request.configuration?.historyLength, after)
      },
      sendingOwn,
    ),

    GetTask: reading(
      unary(
        REQUESTS.GetTaskRequest,
        async (ctx: QueueCall, { id, historyLength }) => {
          const view = withArtifacts(await ctx.services.client.get(id, answering(ctx)))
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
        async (ctx: QueueCall, { id, metadata }) =>
          fromTodo(await ctx.services.client.cancel(id, own(ctx), reasonIn(metadata))),
        own,
      ),
    ),

    SubscribeToTask: reading(
      stream(
        REQUESTS.SubscribeToTaskRequest,
        async (ctx: QueueCall, { id }) => {
          acceptStream(ctx.queue)
          const view = await ctx.services.client.get(id, own(ctx))
          return subscribe(ctx, view, toCursor(ctx.lastEventId, view.todo.id))
        },
        own,
      ),
    ),

    ...PUSH_METHODS,

    GetExtendedAgentCard: unary(
      REQUESTS.GetExtendedAgentCardRequest,
      async ({ queue, host }: QueueCall) => {
        const card = extendedCard(queue, agentCard(queue, publicUrl(host)))
        return signCard ? signCard(card, publicUrl(host)) : card
      },
      answering,
    ),
  } satisfies MethodTable<QueueCall>
}

export type V1Methods = ReturnType<typeof createV1Methods>
