/**
 * The methods of A2A 0.1, for clients that know no other, beside those of 0.3 over the same rows
 * (docs/protocol.md, "The oldest clients"). Its own names are told by themselves. Names that it
 * shares with 0.3 are answered in 0.1's shapes where the id is one that its client made, which
 * nothing but 0.1 allows.
 */
import { randomUUID } from 'node:crypto'
import { Refusal, type RefusalKind } from '../../domain/errors.ts'
import { type MethodTable, type QueueCall, stream, unary } from '../method.ts'
import type { V1Methods } from '../v1/methods.ts'
import type { SendMessageRequest } from '../v1/schema.ts'
import type { Task } from '../v1/wire.ts'
import type { V03Methods } from '../v03/methods.ts'
import { createPush, isNotFound } from '../v03/push.ts'
import { PARAMS as PARAMS_03 } from '../v03/schema.ts'
import { toStream } from '../v03/stream.ts'
import { fromTask as toTask03 } from '../v03/translate.ts'
import { PARAMS, type TaskSendParams } from './schema.ts'
import { taskIdOf } from './task-id.ts'
import { DEFAULT_HISTORY, fromStream, fromTask, toFirst, toFollowUp } from './translate.ts'

const isRefusal = (error: unknown, kind: RefusalKind): boolean =>
  error instanceof Refusal && error.kind === kind

/** With the id as it is; then, where there is no such task, with the one the client means by it. */
const byEither = async <T>(
  ctx: QueueCall,
  id: string,
  run: (taskId: string, own: boolean) => Promise<T>,
): Promise<T> => {
  try {
    return await run(id, false)
  } catch (error) {
    if (!isNotFound(error)) throw error
    return run(taskIdOf(ctx, id), true)
  }
}

type Run<T> = (ctx: QueueCall, request: SendMessageRequest) => Promise<T>

export const createV01Methods = (v1: V1Methods, v03: V03Methods) => {
  const push = createPush(v1)

  const read = async (ctx: QueueCall, id: string): Promise<Task> =>
    byEither(ctx, id, (taskId) => v1.GetTask.call(ctx, { id: taskId }))

  const find = async (ctx: QueueCall, id: string): Promise<Task | null> => {
    try {
      return await read(ctx, id)
    } catch (error) {
      if (isNotFound(error)) return null
      throw error
    }
  }

  /** Makes the task, or goes on with it: also with one that was made a moment ago. */
  const send = async <T>(ctx: QueueCall, params: TaskSendParams, run: Run<T>): Promise<T> => {
    const messageId = randomUUID()
    const begin = async (): Promise<T> =>
      run({ ...ctx, newTaskId: taskIdOf(ctx, params.id) }, toFirst(params, messageId))
    const goOn = async (task: Task): Promise<T> => {
      try {
        return await run(ctx, toFollowUp(params, task, messageId))
      } catch (error) {
        // Its key may be that of the send which made the task; if so, it is that one again.
        if (!isRefusal(error, 'idempotency_conflict')) throw error
        return begin()
      }
    }
    const found = await find(ctx, params.id)
    if (found) return goOn(found)
    try {
      return await begin()
    } catch (error) {
      const made = isRefusal(error, 'duplicate') && (await find(ctx, params.id))
      if (!made) throw error
      return goOn(made)
    }
  }

  /** Streams of 0.1 are those of 0.3 in its words, under the id of its client. */
  const toStream01 = (ctx: QueueCall, items: Parameters<typeof fromStream>[0], id: string) =>
    fromStream(items, id, async () => toTask03(await read(ctx, id)))

  return {
    'tasks/send': unary(
      PARAMS.TaskSendParams,
      async (ctx: QueueCall, params) => {
        const sent = await send(ctx, params, v1.SendMessage.call)
        if ('task' in sent) return fromTask(toTask03(sent.task), params.id)
        // 0.1 is always answered with a task, also by an agent that answered with a message.
        const { historyLength = DEFAULT_HISTORY } = params
        const id = sent.message.taskId ?? taskIdOf(ctx, params.id)
        return fromTask(toTask03(await v1.GetTask.call(ctx, { id, historyLength })), params.id)
      },
      v1.SendMessage.right,
    ),

    'tasks/sendSubscribe': stream(
      PARAMS.TaskSendParams,
      async (ctx: QueueCall, params) =>
        toStream01(ctx, toStream(await send(ctx, params, v1.SendStreamingMessage.call)), params.id),
      v1.SendStreamingMessage.right,
    ),

    'tasks/get': unary(
      PARAMS_03.TaskQueryParams,
      async (ctx: QueueCall, params) =>
        byEither(ctx, params.id, async (id, own) => {
          if (!own) return v03['tasks/get'].call(ctx, params)
          const { historyLength = DEFAULT_HISTORY } = params
          return fromTask(await v03['tasks/get'].call(ctx, { id, historyLength }), params.id)
        }),
      v1.GetTask.right,
    ),

    'tasks/cancel': unary(
      PARAMS_03.TaskIdParams,
      async (ctx: QueueCall, params) =>
        byEither(ctx, params.id, async (id, own) => {
          const task = await v03['tasks/cancel'].call(ctx, { ...params, id })
          return own ? fromTask(task, params.id) : task
        }),
      v1.CancelTask.right,
    ),

    'tasks/resubscribe': stream<typeof PARAMS_03.TaskIdParams, unknown, QueueCall>(
      PARAMS_03.TaskIdParams,
      async (ctx, params) =>
        byEither(ctx, params.id, async (id, own) => {
          const items = await v03['tasks/resubscribe'].call(ctx, { ...params, id })
          return own ? toStream01(ctx, items, params.id) : items
        }),
      v1.SubscribeToTask.right,
    ),

    'tasks/pushNotification/set': unary(
      PARAMS.TaskPushNotificationConfig,
      async (ctx: QueueCall, { id, pushNotificationConfig: config }) =>
        byEither(ctx, id, async (taskId) => {
          const { pushNotificationConfig } = await push.set(ctx, taskId, config)
          return { id, pushNotificationConfig }
        }),
      v1.CreateTaskPushNotificationConfig.right,
    ),

    'tasks/pushNotification/get': unary(
      PARAMS.TaskIdParams,
      async (ctx: QueueCall, { id }) =>
        byEither(ctx, id, async (taskId) => {
          const { pushNotificationConfig } = await push.get(ctx, taskId)
          return { id, pushNotificationConfig }
        }),
      v1.GetTaskPushNotificationConfig.right,
    ),
  } satisfies MethodTable<QueueCall>
}
