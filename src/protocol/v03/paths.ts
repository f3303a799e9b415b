/**
 * The HTTP+JSON paths of A2A 0.3 (0.3 spec 3.5.6): those of 1.0 under `/v1`, with a card of their
 * own. Here, too, Subscribe is POST in the text and GET in the proto.
 */
import { pathRows } from '../wire/path.ts'
import type { V03RestMethods } from './rest-methods.ts'

const CONFIGS = '/v1/tasks/{id}/pushNotificationConfigs'
const CONFIG = `${CONFIGS}/{pushNotificationConfigId=*}` as const

const { get, post, remove } = pathRows<keyof V03RestMethods>()

export const V03_PATHS = [
  post('/v1/message:send', 'message/send'),
  post('/v1/message:stream', 'message/stream'),
  get('/v1/tasks', 'tasks/list', {
    contextId: 'text',
    status: 'text',
    pageSize: 'text',
    historyLength: 'text',
    statusTimestampAfter: 'text',
    includeArtifacts: 'flag',
  }),
  get('/v1/tasks/{id}', 'tasks/get', { historyLength: 'text' }),
  post('/v1/tasks/{id=*}:cancel', 'tasks/cancel', 'optional'),
  post('/v1/tasks/{id=*}:subscribe', 'tasks/resubscribe', 'optional'),
  get('/v1/tasks/{id=*}:subscribe', 'tasks/resubscribe'),
  post('/v1/tasks/{taskId}/pushNotificationConfigs', 'tasks/pushNotificationConfig/set'),
  get(CONFIGS, 'tasks/pushNotificationConfig/list'),
  get(CONFIG, 'tasks/pushNotificationConfig/get'),
  remove(CONFIG, 'tasks/pushNotificationConfig/delete'),
  get('/v1/card', 'agent/getAuthenticatedExtendedCard'),
]
