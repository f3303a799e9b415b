/**
 * The push configs of 0.3 over those of 1.0. In 0.3 a config needs no name: a request without an id
 * means the config that was set without an id, or else the only one there is.
 */
import { exactText } from '../../base/exact-json.ts'
import { isRefusal } from '../../domain/errors.ts'
import type { TodoView } from '../../domain/todo.ts'
import { withoutSecrets } from '../json/secrets.ts'
import type { V1Methods } from '../v1/methods.ts'
import { fromTodo } from '../v1/translate.ts'
import type { PushConfig } from '../v1/wire.ts'
import type { QueueCall } from '../wire/method.ts'
import { DEFAULT_CONFIG_ID, fromPushConfig, fromTask } from './translate.ts'

/**
 * The body of a webhook: the whole task, as the event left it. Whoever listens there is not
 * authenticated, so the body holds no credentials.
 */
export const fromOwed = ({ view }: { view: TodoView | null }) => ({
  contentType: 'application/json',
  body: exactText(view && fromTask(fromTodo(withoutSecrets(view)))),
})

interface Page {
  configs: readonly PushConfig[]
  nextPageToken?: string
}

export const createPush = (v1: V1Methods) => {
  const list = async (ctx: QueueCall, taskId: string): Promise<PushConfig[]> => {
    const configs: PushConfig[] = []
    let pageToken: string | undefined
    do {
      const page: Page = await v1.ListTaskPushNotificationConfigs.call(ctx, { taskId, pageToken })
      configs.push(...page.configs)
      pageToken = page.nextPageToken || undefined
    } while (pageToken !== undefined)
    return configs
  }

  const read = async (ctx: QueueCall, taskId: string, id: string): Promise<PushConfig> =>
    v1.GetTaskPushNotificationConfig.call(ctx, { taskId, id })

  /** Refuses: not_found, also if there are several and none is the default. */
  const readUnnamed = async (ctx: QueueCall, taskId: string): Promise<PushConfig> => {
    try {
      return await read(ctx, taskId, DEFAULT_CONFIG_ID)
    } catch (error) {
      if (!isRefusal(error, 'not_found')) throw error
      const [only, ...others] = await list(ctx, taskId)
      if (!only || others.length > 0) throw error
      return only
    }
  }

  return {
    get: async (ctx: QueueCall, taskId: string, id?: string) =>
      fromPushConfig(
        await (id === undefined ? readUnnamed(ctx, taskId) : read(ctx, taskId, id)),
        taskId,
      ),
    list: async (ctx: QueueCall, taskId: string) =>
      (await list(ctx, taskId)).map((config) => fromPushConfig(config, taskId)),
  }
}
