/**
 * The methods of A2A 0.1, for clients that know no other, beside those of 0.3 over the same rows
 * (docs/protocol.md, "The oldest clients"). Methods whose names are its own are recognized by them.
 * Those that it shares with 0.3 answer in 0.1's shapes if the id is one that a client made, which
 * only 0.1 allows.
 */
import { randomUUID } from 'node:crypto'
import type { z } from 'zod'
import { isRefusal } from '../../domain/errors.ts'
import { notOfThisSend } from '../v1/cursors.ts'
import type { V1Methods } from '../v1/methods.ts'
import type { SendMessageRequest } from '../v1/schema.ts'
import type { Task } from '../v1/wire.ts'
import type { V03Methods } from '../v03/methods.ts'
import { PARAMS as PARAMS_03 } from '../v03/schema.ts'
import { toStream } from '../v03/stream.ts'
import { fromTask as toTask03 } from '../v03/translate.ts'
import {
  type MethodTable,
  type QueueCall,
  type Right,
  reading,
  stream,
  unary,
} from '../wire/method.ts'
import { PARAMS, type TaskSendParams } from './schema.ts'
import { taskIdOf } from './task-id.ts'
import {
  DEFAULT_HISTORY,
  fromStream,
  fromTask,
  toFirst,
  toFollowUp,
  toSameSend,
} from './translate.ts'

/** With the id as it is; then, if there is no such task, with the one that the client means by it. */
const byEither = async <P extends { id: string }, T>(
  ctx: QueueCall,
  params: P,
  run: (params: P) => Promise<T>,
): Promise<T> => {
  try {
    return await run(params)
  } catch (error) {
    if (!isRefusal(error, 'not_found')) throw error
    return run({ ...params, id: taskIdOf(ctx, params.id) })
  }
}

/** A row about one task. `given` is the id in the request; the task's own differs if a client made it. */
const taskRow = <S extends z.ZodType<{ id: string }>, R>(
  params: S,
  run: (ctx: QueueCall, params: z.output<S>, given: string) => Promise<R>,
  right: Right<QueueCall>,
) =>
  unary(
    params,
    async (ctx: QueueCall, read) => byEither(ctx, read, (found) => run(ctx, found, read.id)),
    right,
  )

type Run<T> = (ctx: QueueCall, request: SendMessageRequest) => Promise<T>

export const createV01Methods = (v1: V1Methods, v03: V03Methods) => {
  const read = async (ctx: QueueCall, id: string): Promise<Task> =>
    byEither(ctx, { id }, (named) => v1.GetTask.call(ctx, named))

  const find = async (ctx: QueueCall, id: string): Promise<Task | null> => {
    try {
      return await read(ctx, id)
    } catch (error) {
      if (isRefusal(error, 'not_found')) return null
      throw error
    }
  }

  /** Makes the task or continues it, even one that was made a moment ago. */
  const send = async <T>(ctx: QueueCall, params: TaskSendParams, run: Run<T>): Promise<T> => {
    const messageId = randomUUID()
    const begin = async (): Promise<T> =>
      run({ ...ctx, newTaskId: taskIdOf(ctx, params.id) }, toFirst(params, messageId))
    const goOn = async (task: Task): Promise<T> => {
      try {
        return await run(ctx, toFollowUp(params, task, messageId))
      } catch (error) {
        // Its key may be that of the send which made the task; if so, this is that send again.
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

  /** A stream that broke goes on; the words that opened it are not sent again. Refuses: invalid. */
  const goOnWith = async (ctx: QueueCall, params: TaskSendParams) => {
    const found = await find(ctx, params.id)
    const same = found && toSameSend(params, found)
    if (!same) throw notOfThisSend()
    return v1.SendStreamingMessage.call(ctx, same)
  }

  /** Streams of 0.1 are those of 0.3 translated, under the id that the client gave. */
  const toStream01 = (ctx: QueueCall, items: Parameters<typeof fromStream>[0], id: string) =>
    fromStream(items, id, async () => toTask03(await read(ctx, id)))

  return {
    'tasks/send': unary(
      PARAMS.TaskSendParams,
      async (ctx: QueueCall, params) => {
        const sent = await send(ctx, params, v1.SendMessage.call)
        if ('task' in sent) return fromTask(toTask03(sent.task), params.id)
        // 0.1 always gets a task, even if the agent answered with a message.
        const { historyLength = DEFAULT_HISTORY } = params
        const id = sent.message.taskId ?? taskIdOf(ctx, params.id)
        return fromTask(toTask03(await v1.GetTask.call(ctx, { id, historyLength })), params.id)
      },
      v1.SendMessage.right,
    ),

    'tasks/sendSubscribe': stream(
      PARAMS.TaskSendParams,
      async (ctx: QueueCall, params) => {
        const items =
          ctx.lastEventId === null
            ? await send(ctx, params, v1.SendStreamingMessage.call)
            : await goOnWith(ctx, params)
        return toStream01(ctx, toStream(items), params.id)
      },
      v1.SendStreamingMessage.right,
    ),

    'tasks/get': reading(
      taskRow(
        PARAMS_03.TaskQueryParams,
        async (ctx, params, given) => {
          const { id, historyLength = DEFAULT_HISTORY } = params
          if (id === given) return v03['tasks/get'].call(ctx, params)
          return fromTask(await v03['tasks/get'].call(ctx, { id, historyLength }), given)
        },
        v1.GetTask.right,
      ),
    ),

    'tasks/cancel': reading(
      taskRow(
        PARAMS_03.TaskIdParams,
        async (ctx, params, given) => {
          const task = await v03['tasks/cancel'].call(ctx, params)
          return params.id === given ? task : fromTask(task, given)
        },
        v1.CancelTask.right,
      ),
    ),

    'tasks/resubscribe': reading(
      stream<typeof PARAMS_03.TaskIdParams, unknown, QueueCall>(
        PARAMS_03.TaskIdParams,
        async (ctx, given) =>
          byEither(ctx, given, async (params) => {
            const items = await v03['tasks/resubscribe'].call(ctx, params)
            return params.id === given.id ? items : toStream01(ctx, items, given.id)
          }),
        v1.SubscribeToTask.right,
      ),
    ),

    'tasks/pushNotification/set': taskRow(
      PARAMS.TaskPushNotificationConfig,
      async (ctx, { id: taskId, pushNotificationConfig }, id) => {
        const set = v03['tasks/pushNotificationConfig/set']
        const kept = await set.call(ctx, { taskId, pushNotificationConfig })
        return { id, pushNotificationConfig: kept.pushNotificationConfig }
      },
      v1.CreateTaskPushNotificationConfig.right,
    ),

    'tasks/pushNotification/get': taskRow(
      PARAMS.TaskIdParams,
      async (ctx, { id: taskId }, id) => {
        const kept = await v03['tasks/pushNotificationConfig/get'].call(ctx, { id: taskId })
        return { id, pushNotificationConfig: kept.pushNotificationConfig }
      },
      v1.GetTaskPushNotificationConfig.right,
    ),
  } satisfies MethodTable<QueueCall>
}
