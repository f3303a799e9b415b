/**
 * The HTTP+JSON paths of A2A 0.3 (0.3 spec 3.5.6): those of 1.0 under `/v1`, with a card of their
 * own. Here, too, Subscribe is POST in the text and GET in the proto.
 */
import type { PathRow } from '../path.ts'
import type { V03RestMethods } from './rest-methods.ts'

const CONFIGS = '/v1/tasks/{id}/pushNotificationConfigs'
const CONFIG = `${CONFIGS}/{pushNotificationConfigId=*}` as const

export const V03_PATHS: readonly PathRow<keyof V03RestMethods>[] = [
  { verb: 'POST', template: '/v1/message:send', method: 'message/send', body: 'required' },
  { verb: 'POST', template: '/v1/message:stream', method: 'message/stream', body: 'required' },
  {
    verb: 'GET',
    template: '/v1/tasks',
    method: 'tasks/list',
    query: {
      contextId: 'text',
      status: 'text',
      pageSize: 'text',
      historyLength: 'text',
      statusTimestampAfter: 'text',
      includeArtifacts: 'flag',
    },
  },
  {
    verb: 'GET',
    template: '/v1/tasks/{id}',
    method: 'tasks/get',
    query: { historyLength: 'text' },
  },
  { verb: 'POST', template: '/v1/tasks/{id=*}:cancel', method: 'tasks/cancel', body: 'optional' },
  {
    verb: 'POST',
    template: '/v1/tasks/{id=*}:subscribe',
    method: 'tasks/resubscribe',
    body: 'optional',
  },
  { verb: 'GET', template: '/v1/tasks/{id=*}:subscribe', method: 'tasks/resubscribe' },
  {
    verb: 'POST',
    template: '/v1/tasks/{taskId}/pushNotificationConfigs',
    method: 'tasks/pushNotificationConfig/set',
    body: 'required',
  },
  { verb: 'GET', template: CONFIGS, method: 'tasks/pushNotificationConfig/list' },
  { verb: 'GET', template: CONFIG, method: 'tasks/pushNotificationConfig/get' },
  { verb: 'DELETE', template: CONFIG, method: 'tasks/pushNotificationConfig/delete' },
  { verb: 'GET', template: '/v1/card', method: 'agent/getAuthenticatedExtendedCard' },
]
