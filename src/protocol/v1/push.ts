/** Webhook configs of A2A 1.0, translated in both directions (spec 4.3). Pure. */

import { defined } from '../../base/defined.ts'
import type { Dialect, NewPushConfig, PushAuthentication, PushConfig } from '../../domain/push.ts'
import type { PushConfigRequest } from './schema.ts'

/** The path of a config that comes with a message. */
export const INLINE_PUSH = 'configuration.taskPushNotificationConfig'

/** `path` is where the config is in the request; its faults are reported under that path. */
export const toPushConfig = (
  { id, url, token, authentication }: Omit<PushConfigRequest, 'taskId'>,
  dialect: Dialect,
  path?: string,
): NewPushConfig =>
  defined<NewPushConfig>({
    id,
    url,
    token,
    authentication: authentication && defined<PushAuthentication>(authentication),
    dialect,
    path,
  })

/** A flat TaskPushNotificationConfig. The token is given back; credentials never are. */
export const fromPushConfig = ({ todoId, id, url, token, scheme }: PushConfig) =>
  defined({
    id,
    taskId: todoId,
    url,
    token: token ?? undefined,
    authentication: scheme === null ? undefined : { scheme },
  })
