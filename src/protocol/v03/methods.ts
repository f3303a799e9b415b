/**
 * The methods of A2A 0.3 over JSON-RPC, each over its row of 1.0: its params become that row's
 * request, and what the row answers is put into the words of 0.3. Rights, refusals and what a task
 * may do are the row's.
 */
import { Refusal } from '../../domain/errors.ts'
import { toV03Card } from '../a2a/card-forms.ts'
import { type MethodTable, type QueueCall, type StreamItem, stream, unary } from '../method.ts'
import { acceptStream } from '../v1/accept.ts'
import type { V1Methods } from '../v1/methods.ts'
import { createPush } from './push.ts'
import { PARAMS } from './schema.ts'
import { toStream } from './stream.ts'
import { type Event03, fromSent, fromTask, toSendRequest } from './translate.ts'

async function* only(result: Event03): AsyncGenerator<StreamItem<Event03>> {
  yield { result }
}

const isUnsupported = (error: unknown): boolean =>
  error instanceof Refusal && error.kind === 'unsupported'

export const createV03Methods = (v1: V1Methods) => {
  const read = async (ctx: QueueCall, id: string, historyLength?: number) =>
    fromTask(await v1.GetTask.call(ctx, { id, historyLength }))

  /** A task that has ended is no error in 0.3: it is given as it is, and that is all. */
  const resubscribe = async (ctx: QueueCall, id: string) => {
    acceptStream(ctx.queue)
    try {
      const items = await v1.SubscribeToTask.call(ctx, { id })
      const now = ctx.lastEventId === null ? undefined : (await read(ctx, id, 0)).status
      return toStream(items, now)
    } catch (error) {
      // Streams are served, so what is not supported is to follow what has ended.
      if (!isUnsupported(error)) throw error
      return only(await read(ctx, id))
    }
  }

  const push = createPush(v1)
  const extendedCard = unary(
    PARAMS.Nothing,
    async (ctx: QueueCall) => toV03Card(await v1.GetExtendedAgentCard.call(ctx, {})),
    v1.GetExtendedAgentCard.right,
  )

  return {
    'message/send': unary(
      PARAMS.MessageSendParams,
      async (ctx: QueueCall, params) =>
        fromSent(await v1.SendMessage.call(ctx, toSendRequest(params))),
      v1.SendMessage.right,
    ),

    'message/stream': stream(
      PARAMS.MessageSendParams,
      async (ctx: QueueCall, params) =>
        toStream(await v1.SendStreamingMessage.call(ctx, toSendRequest(params))),
      v1.SendStreamingMessage.right,
    ),

    'tasks/get': unary(
      PARAMS.TaskQueryParams,
      async (ctx: QueueCall, { id, historyLength }) => read(ctx, id, historyLength),
      v1.GetTask.right,
    ),

    'tasks/cancel': unary(
      PARAMS.TaskIdParams,
      async (ctx: QueueCall, { id, metadata }) =>
        fromTask(await v1.CancelTask.call(ctx, { id, metadata })),
      v1.CancelTask.right,
    ),

    'tasks/resubscribe': stream(
      PARAMS.TaskIdParams,
      async (ctx: QueueCall, { id }) => resubscribe(ctx, id),
      v1.SubscribeToTask.right,
    ),

    'tasks/pushNotificationConfig/set': unary(
      PARAMS.TaskPushNotificationConfig,
      async (ctx: QueueCall, { taskId, pushNotificationConfig }) =>
        push.set(ctx, taskId, pushNotificationConfig),
      v1.CreateTaskPushNotificationConfig.right,
    ),
    'tasks/pushNotificationConfig/get': unary(
      PARAMS.GetTaskPushNotificationConfigParams,
      async (ctx: QueueCall, { id, pushNotificationConfigId }) =>
        push.get(ctx, id, pushNotificationConfigId),
      v1.GetTaskPushNotificationConfig.right,
    ),
    'tasks/pushNotificationConfig/list': unary(
      PARAMS.ListTaskPushNotificationConfigParams,
      async (ctx: QueueCall, { id }) => push.list(ctx, id),
      v1.ListTaskPushNotificationConfigs.right,
    ),
    'tasks/pushNotificationConfig/delete': unary(
      PARAMS.DeleteTaskPushNotificationConfigParams,
      async (ctx: QueueCall, { id, pushNotificationConfigId }) =>
        push.delete(ctx, id, pushNotificationConfigId),
      v1.DeleteTaskPushNotificationConfig.right,
    ),

    'agent/getAuthenticatedExtendedCard': extendedCard,
    /** As 0.2 called it, and once 0.3 itself. */
    'agent/authenticatedExtendedCard': extendedCard,
  } satisfies MethodTable<QueueCall>
}

export type V03Methods = ReturnType<typeof createV03Methods>
