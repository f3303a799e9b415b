/**
 * The rows of A2A 0.3 over HTTP+JSON: those over JSON-RPC, with bodies of either dialect read and
 * all answers in the JSON of the proto. Two differ in more: a list of tasks, which JSON-RPC has not
 * got, is a bare array, and what is deleted is answered with an object.
 */

import type { V1Methods } from '../v1/methods.ts'
import {
  type MethodTable,
  type QueueCall,
  type StreamItem,
  type StreamRow,
  type UnaryRow,
  unary,
} from '../wire/method.ts'
import type { V03Methods } from './methods.ts'
import { protoCard, protoEvent, protoPushConfig, protoSent, protoTask } from './proto-json.ts'
import { REST_PARAMS } from './rest-schema.ts'
import { type Event03, fromTask } from './translate.ts'

async function* protoEvents(
  items: AsyncIterable<StreamItem<Event03>>,
): AsyncGenerator<StreamItem<ReturnType<typeof protoEvent>>> {
  for await (const { result, ...item } of items) yield { ...item, result: protoEvent(result) }
}

/** The row, with its answer put into other words, and with what it reads put into its own. */
const worded = <P, R, W>(
  row: UnaryRow<QueueCall, P, R>,
  words: (result: R) => W,
  params = row.params,
): UnaryRow<QueueCall, P, W> => ({
  ...row,
  params,
  call: async (ctx, read) => words(await row.call(ctx, read)),
})

const streamed = <P>(
  row: StreamRow<QueueCall, P, Event03>,
  params = row.params,
): StreamRow<QueueCall, P, ReturnType<typeof protoEvent>> => ({
  ...row,
  params,
  call: async (ctx, read) => protoEvents(await row.call(ctx, read)),
})

export const createV03RestMethods = (v1: V1Methods, v03: V03Methods) => {
  const { MessageSendParams, TaskQueryParams, TaskPushNotificationConfig } = REST_PARAMS
  return {
    'message/send': worded(v03['message/send'], protoSent, MessageSendParams),
    'message/stream': streamed(v03['message/stream'], MessageSendParams),
    'tasks/get': worded(v03['tasks/get'], protoTask, TaskQueryParams),
    'tasks/list': unary(
      REST_PARAMS.ListTasks,
      async (ctx: QueueCall, request) =>
        (await v1.ListTasks.call(ctx, request)).tasks.map((task) => protoTask(fromTask(task))),
      v1.ListTasks.right,
    ),
    'tasks/cancel': worded(v03['tasks/cancel'], protoTask),
    'tasks/resubscribe': streamed(v03['tasks/resubscribe']),
    'tasks/pushNotificationConfig/set': worded(
      v03['tasks/pushNotificationConfig/set'],
      protoPushConfig,
      TaskPushNotificationConfig,
    ),
    'tasks/pushNotificationConfig/get': worded(
      v03['tasks/pushNotificationConfig/get'],
      protoPushConfig,
    ),
    'tasks/pushNotificationConfig/list': worded(
      v03['tasks/pushNotificationConfig/list'],
      (configs) => ({ configs: configs.map(protoPushConfig) }),
    ),
    'tasks/pushNotificationConfig/delete': worded(
      v03['tasks/pushNotificationConfig/delete'],
      () => ({}),
    ),
    'agent/getAuthenticatedExtendedCard': worded(
      v03['agent/getAuthenticatedExtendedCard'],
      protoCard,
    ),
  } satisfies MethodTable<QueueCall>
}

export type V03RestMethods = ReturnType<typeof createV03RestMethods>
