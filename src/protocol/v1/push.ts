/** A2A 1.0 words for webhooks: their configs, both directions (spec 4.3). Pure. */

import { defined } from '../../base/defined.ts'
import type { Dialect, NewPushConfig, PushAuthentication, PushConfig } from '../../domain/push.ts'
import type { PushConfigRequest } from './schema.ts'

/** Where a config stands that comes with a message. */
export const INLINE_PUSH = 'configuration.taskPushNotificationConfig'

/** `path` is where the config stands in the request; faults in it are named so. */
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

/** TaskPushNotificationConfig, flat. The token is given back; credentials never are. */
export const fromPushConfig = ({ todoId, id, url, token, scheme }: PushConfig) =>
  defined({
    id,
    taskId: todoId,
    url,
    token: token ?? undefined,
    authentication: scheme === null ? undefined : { scheme },
  })
