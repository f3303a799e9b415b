/**
 * The methods of A2A 0.3 over JSON-RPC, each over its row of 1.0: its params become that row's
 * request, and the row's answer is translated back. Rights, refusals and what a task may do are the
 * row's.
 */
import { isRefusal } from '../../domain/errors.ts'
import { toV03Card } from '../a2a/card-forms.ts'
import { acceptStream } from '../v1/accept.ts'
import type { V1Methods } from '../v1/methods.ts'
import {
  type MethodTable,
  over,
  type QueueCall,
  reading,
  type StreamItem,
  stream,
  unary,
} from '../wire/method.ts'
import { createPush } from './push.ts'
import { PARAMS } from './schema.ts'
import { toStream } from './stream.ts'
import {
  type Event03,
  fromPushConfig,
  fromSent,
  fromTask,
  toPushConfig,
  toSendRequest,
} from './translate.ts'

async function* only(result: Event03): AsyncGenerator<StreamItem<Event03>> {
  yield { result }
}

export const createV03Methods = (v1: V1Methods) => {
  const read = async (ctx: QueueCall, id: string, historyLength?: number) =>
    fromTask(await v1.GetTask.call(ctx, { id, historyLength }))

  /** In 0.3 a task that has ended is no error: the stream is the task as it is, and nothing more. */
  const resubscribe = async (ctx: QueueCall, id: string) => {
    acceptStream(ctx.queue)
    try {
      const items = await v1.SubscribeToTask.call(ctx, { id })
      const now = ctx.lastEventId === null ? undefined : (await read(ctx, id, 0)).status
      return toStream(items, now)
    } catch (error) {
      // Streams are served, so what is unsupported is following a task that has ended.
      if (!isRefusal(error, 'unsupported')) throw error
      return only(await read(ctx, id))
    }
  }

  const push = createPush(v1)
  const extendedCard = over(v1.GetExtendedAgentCard, PARAMS.Nothing, toV03Card)

  return {
    'message/send': over(v1.SendMessage, PARAMS.MessageSendParams, fromSent, toSendRequest),

    'message/stream': stream(
      PARAMS.MessageSendParams,
      async (ctx: QueueCall, params) =>
        toStream(await v1.SendStreamingMessage.call(ctx, toSendRequest(params))),
      v1.SendStreamingMessage.right,
    ),

    'tasks/get': over(v1.GetTask, PARAMS.TaskQueryParams, fromTask),
    'tasks/cancel': over(v1.CancelTask, PARAMS.TaskIdParams, fromTask),

    'tasks/resubscribe': reading(
      stream(
        PARAMS.TaskIdParams,
        async (ctx: QueueCall, { id }) => resubscribe(ctx, id),
        v1.SubscribeToTask.right,
      ),
    ),

    'tasks/pushNotificationConfig/set': over(
      v1.CreateTaskPushNotificationConfig,
      PARAMS.TaskPushNotificationConfig,
      (kept, { taskId }) => fromPushConfig(kept, taskId),
      ({ taskId, pushNotificationConfig }) => ({ ...toPushConfig(pushNotificationConfig), taskId }),
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
    'tasks/pushNotificationConfig/delete': over(
      v1.DeleteTaskPushNotificationConfig,
      PARAMS.DeleteTaskPushNotificationConfigParams,
      () => null,
      ({ id, pushNotificationConfigId }) => ({ taskId: id, id: pushNotificationConfigId }),
    ),

    'agent/getAuthenticatedExtendedCard': extendedCard,
    /** Its name in 0.2, and once in 0.3 itself. */
    'agent/authenticatedExtendedCard': extendedCard,
  } satisfies MethodTable<QueueCall>
}

export type V03Methods = ReturnType<typeof createV03Methods>
