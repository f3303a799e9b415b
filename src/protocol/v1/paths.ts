/**
 * The HTTP+JSON paths of A2A 1.0 (spec 5.3, 11.3; the proto's annotations). Subscribe is POST in
 * the text and GET in the proto: both are taken. The `/{tenant}` twins are left out, since no card
 * of ours declares a tenant.
 */
import type { PathRow } from '../path.ts'
import type { createV1Methods } from './methods.ts'

type V1Method = keyof ReturnType<typeof createV1Methods>

const CONFIGS = '/tasks/{taskId}/pushNotificationConfigs'

export const V1_PATHS: readonly PathRow<V1Method>[] = [
  { verb: 'POST', template: '/message:send', method: 'SendMessage', body: 'required' },
  { verb: 'POST', template: '/message:stream', method: 'SendStreamingMessage', body: 'required' },
  {
    verb: 'GET',
    template: '/tasks',
    method: 'ListTasks',
    query: {
      contextId: 'text',
      status: 'text',
      pageSize: 'text',
      pageToken: 'text',
      historyLength: 'text',
      statusTimestampAfter: 'text',
      includeArtifacts: 'flag',
    },
  },
  { verb: 'GET', template: '/tasks/{id}', method: 'GetTask', query: { historyLength: 'text' } },
  { verb: 'POST', template: '/tasks/{id=*}:cancel', method: 'CancelTask', body: 'optional' },
  {
    verb: 'POST',
    template: '/tasks/{id=*}:subscribe',
    method: 'SubscribeToTask',
    body: 'optional',
  },
  { verb: 'GET', template: '/tasks/{id=*}:subscribe', method: 'SubscribeToTask' },
  {
    verb: 'POST',
    template: CONFIGS,
    method: 'CreateTaskPushNotificationConfig',
    body: 'required',
  },
  {
    verb: 'GET',
    template: CONFIGS,
    method: 'ListTaskPushNotificationConfigs',
    query: { pageSize: 'text', pageToken: 'text' },
  },
  { verb: 'GET', template: `${CONFIGS}/{id=*}`, method: 'GetTaskPushNotificationConfig' },
  {
    verb: 'DELETE',
    template: `${CONFIGS}/{id=*}`,
    method: 'DeleteTaskPushNotificationConfig',
    empty: true,
  },
  { verb: 'GET', template: '/extendedAgentCard', method: 'GetExtendedAgentCard' },
]
