/**
 * What A2A 0.1 may send with the methods that only it has (docs/protocol.md, "The oldest clients").
 * Parts name their kind in `type`, messages have no id, and what 0.3 calls configuration is in the
 * params themselves.
 */
import type { z } from 'zod'
import { id, list, MAX_PARTS, message as members, optionalId, struct, texts } from '../v1/schema.ts'
import { historyLength, partBy, pushNotificationConfig, userRole } from '../v03/schema.ts'

const message = members({
  role: userRole,
  parts: list(partBy('type'), 1, MAX_PARTS),
  metadata: struct,
})

export const PARAMS = {
  TaskSendParams: members({
    id,
    sessionId: optionalId,
    message,
    acceptedOutputModes: texts,
    pushNotification: pushNotificationConfig.optional(),
    historyLength,
    metadata: struct,
  }),
  TaskIdParams: members({ id, metadata: struct }),
  TaskPushNotificationConfig: members({ id, pushNotificationConfig }),
} as const

export type TaskSendParams = z.output<(typeof PARAMS)['TaskSendParams']>
