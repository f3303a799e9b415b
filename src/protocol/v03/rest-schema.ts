/**
 * What A2A 0.3 may send over HTTP+JSON, in either of its two dialects: the objects of its JSON
 * Schema, and the JSON of its proto, recognized by `content` in place of `parts`. The latter is
 * translated into the former and read by the same schemas, which name the fields at fault.
 */
import { z } from 'zod'
import { enumName, ROLES } from '../json/enums.ts'
import { isObject, snake } from '../json/object.ts'
import { REQUESTS } from '../v1/schema.ts'
import { PROTO_STATES } from './proto-json.ts'
import { PARAMS } from './schema.ts'
import { STATES } from './translate.ts'

type Members = Record<string, unknown>

/** A member in either spelling. */
const member = (of: Members, name: string): unknown => {
  const spelling = Object.hasOwn(of, name) ? name : snake(name)
  return Object.hasOwn(of, spelling) ? of[spelling] : undefined
}

/**
 * What `change` makes of an object; all else is left for the schema to refuse. Members are passed on
 * with spreads: a client's own `__proto__` stays a member like any other.
 */
const changed =
  (change: (members: Members) => Members) =>
  (value: unknown): unknown =>
    isObject(value) ? change(value) : value

/* ---------------------------------------------------------------- messages */

const CORE_ROLES: ReadonlyMap<unknown, string> = new Map([
  ['ROLE_USER', 'user'],
  ['ROLE_AGENT', 'agent'],
])

const roleName = enumName(ROLES)

/** Unwraps `{data:{data:{…}}}`: in the proto a part's data is a message of its own. */
const corePart = changed((part) => {
  const { data } = part
  return isObject(data) && Object.hasOwn(data, 'data') ? { ...part, data: data.data } : part
})

const coreMessage = changed((message) => {
  const role = CORE_ROLES.get(roleName(message.role)) ?? message.role
  const { content, ...rest } = message
  if (content === undefined || message.parts !== undefined) return { ...message, role }
  return { ...rest, role, parts: Array.isArray(content) ? content.map(corePart) : content }
})

/** In the proto zero is how a length that was not set looks, and no length means no limit. */
const unlimited = changed((params) => {
  const length = member(params, 'historyLength')
  if (length !== 0 && length !== '0') return params
  const { historyLength: _, history_length: __, ...rest } = params
  return rest
})

/** The proto does not write false, so a missing flag is false. */
const settled = changed((configuration) => ({
  ...configuration,
  blocking: configuration.blocking ?? false,
}))

/** The proto does not write empty lists, so missing schemes are an empty list. */
const coreConfig = changed((config) => {
  const { authentication } = config
  if (!isObject(authentication)) return config
  return { ...config, authentication: { ...authentication, schemes: authentication.schemes ?? [] } }
})

/** The two dialects have different names for the inline push config. */
const corePush = changed((configuration) => {
  const given =
    member(configuration, 'pushNotificationConfig') ?? member(configuration, 'pushNotification')
  if (given === undefined) return configuration
  return { ...configuration, pushNotificationConfig: coreConfig(given) }
})

/** The proto calls the message `request`. */
const coreSend = changed((params) => {
  const message = params.message ?? params.request
  const isProto = isObject(message) && message.content !== undefined && !('parts' in message)
  const configuration = corePush(params.configuration)
  const core = { ...params, message: coreMessage(message) }
  if (configuration === undefined) return core
  return { ...core, configuration: isProto ? settled(unlimited(configuration)) : configuration }
})

/* -------------------------------------------------------------------- push */

const NAME = /^tasks\/([^/]+)(?:\/pushNotificationConfigs(?:\/(.*))?)?$/

/** T and C of a resource's name, `tasks/T/pushNotificationConfigs/C`. */
const partsOf = (name: unknown): { task?: string | undefined; config?: string | undefined } => {
  const [, task, config] = (typeof name === 'string' && NAME.exec(name)) || []
  return { task, config }
}

/**
 * A config in any of the forms that clients send, since the text, the proto and the SDKs of 0.3
 * differ: `{name, pushNotificationConfig}`, `{config}` around that or around the bare config,
 * `{parent, configId, config}`. A config that names another task than the path does is refused.
 */
const coreSet = (params: unknown, context: z.RefinementCtx): unknown => {
  if (!isObject(params)) return params
  const outer = isObject(params.config) ? params.config : params
  const given = member(outer, 'pushNotificationConfig') ?? params.config
  const [own, outers, parent] = [params.name, outer.name, params.parent].map(partsOf)
  const tasks = [own?.task, outers?.task, parent?.task, member(outer, 'taskId') || undefined]
  if (tasks.some((task) => task !== undefined && task !== params.taskId)) {
    context.addIssue({ code: 'custom', path: ['name'], message: 'must be of the task in the path' })
  }
  const id = member(params, 'configId') || outers?.config || own?.config
  const { taskId } = params
  const named = changed((config) => ({ ...config, id: config.id || id }))
  return { taskId, pushNotificationConfig: coreConfig(named(given)) }
}

/* -------------------------------------------------------------------- list */

/** A 1.0 state for each name that 0.3 or its proto has for it. Numbers are those of 1.0. */
const STATE_NAMES: ReadonlyMap<unknown, string> = new Map(
  Object.entries(STATES).flatMap(([name, state]) => [
    [state, name],
    [PROTO_STATES[state], name],
  ]),
)

const coreList = changed((params) => {
  const status = STATE_NAMES.get(params.status)
  return status === undefined ? params : { ...params, status }
})

/** The schemas that differ from those over JSON-RPC. */
export const REST_PARAMS = {
  MessageSendParams: z.preprocess(coreSend, PARAMS.MessageSendParams),
  TaskQueryParams: z.preprocess(unlimited, PARAMS.TaskQueryParams),
  ListTasks: z.preprocess((params) => coreList(unlimited(params)), REQUESTS.ListTasksRequest),
  TaskPushNotificationConfig: z.preprocess(coreSet, PARAMS.TaskPushNotificationConfig),
} as const
