/**
 * The rows of A2A 0.3 over HTTP+JSON: those over JSON-RPC, but they read bodies of either dialect
 * and answer in the JSON of the proto. Two differ in more: the list of tasks, which JSON-RPC does
 * not have, is a bare array, and a deletion is answered with an object.
 */

import { translated } from '../../base/streams.ts'
import type { V1Methods } from '../v1/methods.ts'
import {
  type MethodTable,
  type QueueCall,
  reading,
  type StreamItem,
  type StreamRow,
  type UnaryRow,
  unary,
} from '../wire/method.ts'
import type { V03Methods } from './methods.ts'
import { protoCard, protoEvent, protoPushConfig, protoSent, protoTask } from './proto-json.ts'
import { REST_PARAMS } from './rest-schema.ts'
import { type Event03, fromTask } from './translate.ts'

const protoEvents = (
  items: AsyncIterable<StreamItem<Event03>>,
): AsyncIterable<StreamItem<ReturnType<typeof protoEvent>>> =>
  translated(items, ({ result, ...item }) => ({
    made: [{ ...item, result: protoEvent(result) }],
  }))

/** The row with its answer translated, and optionally with a schema that reads more forms. */
const answering = <P, R, W>(
  row: UnaryRow<QueueCall, P, R>,
  from: (result: R) => W,
  params = row.params,
): UnaryRow<QueueCall, P, W> => ({
  ...row,
  params,
  call: async (ctx, read) => from(await row.call(ctx, read)),
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
    'message/send': answering(v03['message/send'], protoSent, MessageSendParams),
    'message/stream': streamed(v03['message/stream'], MessageSendParams),
    'tasks/get': answering(v03['tasks/get'], protoTask, TaskQueryParams),
    'tasks/list': reading(
      unary(
        REST_PARAMS.ListTasks,
        async (ctx: QueueCall, request) =>
          (await v1.ListTasks.call(ctx, request)).tasks.map((task) => protoTask(fromTask(task))),
        v1.ListTasks.right,
      ),
    ),
    'tasks/cancel': answering(v03['tasks/cancel'], protoTask),
    'tasks/resubscribe': streamed(v03['tasks/resubscribe']),
    'tasks/pushNotificationConfig/set': answering(
      v03['tasks/pushNotificationConfig/set'],
      protoPushConfig,
      TaskPushNotificationConfig,
    ),
    'tasks/pushNotificationConfig/get': answering(
      v03['tasks/pushNotificationConfig/get'],
      protoPushConfig,
    ),
    'tasks/pushNotificationConfig/list': answering(
      v03['tasks/pushNotificationConfig/list'],
      (configs) => ({ configs: configs.map(protoPushConfig) }),
    ),
    'tasks/pushNotificationConfig/delete': answering(
      v03['tasks/pushNotificationConfig/delete'],
      () => ({}),
    ),
    'agent/getAuthenticatedExtendedCard': answering(
      v03['agent/getAuthenticatedExtendedCard'],
      protoCard,
    ),
  } satisfies MethodTable<QueueCall>
}

export type V03RestMethods = ReturnType<typeof createV03RestMethods>
