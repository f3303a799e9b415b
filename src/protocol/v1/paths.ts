/**
 * The HTTP+JSON paths of A2A 1.0 (spec 5.3, 11.3; the proto's annotations). Subscribe is POST in
 * the text and GET in the proto, so both work. The `/{tenant}` variants are left out, since no card
 * of ours declares a tenant.
 */
import { pathRows } from '../wire/path.ts'
import type { V1Methods } from './methods.ts'

const CONFIGS = '/tasks/{taskId}/pushNotificationConfigs'
const CONFIG = `${CONFIGS}/{id=*}` as const

const { get, post, remove } = pathRows<keyof V1Methods>()

export const V1_PATHS = [
  post('/message:send', 'SendMessage'),
  post('/message:stream', 'SendStreamingMessage'),
  get('/tasks', 'ListTasks', {
    contextId: 'text',
    status: 'text',
    pageSize: 'text',
    pageToken: 'text',
    historyLength: 'text',
    statusTimestampAfter: 'text',
    includeArtifacts: 'flag',
  }),
  get('/tasks/{id}', 'GetTask', { historyLength: 'text' }),
  post('/tasks/{id=*}:cancel', 'CancelTask', 'optional'),
  post('/tasks/{id=*}:subscribe', 'SubscribeToTask', 'optional'),
  get('/tasks/{id=*}:subscribe', 'SubscribeToTask'),
  post(CONFIGS, 'CreateTaskPushNotificationConfig'),
  get(CONFIGS, 'ListTaskPushNotificationConfigs', { pageSize: 'text', pageToken: 'text' }),
  get(CONFIG, 'GetTaskPushNotificationConfig'),
  remove(CONFIG, 'DeleteTaskPushNotificationConfig'),
  get('/extendedAgentCard', 'GetExtendedAgentCard'),
]
