/**
 * A2A in its four dialects, as a client of one queue speaks them: what differs on the wire is here,
 * so that the cases of contract.test.ts are written once.
 */
import { randomUUID } from 'node:crypto'
import { type Answer, openStream, resumeAfter, type Stream } from '../support/clients/actors.ts'
import { type ErrorFacts, type FrameFacts, frameFacts, type TaskFacts, taskFacts } from './facts.ts'

interface Asked {
  messageId?: string
  taskId?: string
  contextId?: string
  /** Wait until the task asks or ends. */
  wait?: boolean
  historyLength?: number
  pushUrl?: string
  /** Sent in place of what these make. */
  message?: Record<string, unknown>
}

interface Outcome {
  /** What came, as it came. */
  body: Answer
  status: number
  headers: Headers
  task?: TaskFacts
  /** A bare message in place of a task. */
  texts?: string[]
  error?: ErrorFacts
}

export interface Followed {
  stream: Stream
  /** Set where the answer was no stream. */
  error?: ErrorFacts
  next(): Promise<{ id: string | undefined; facts: FrameFacts } | null>
}

interface PushOutcome {
  body: Answer
  error?: ErrorFacts
  /** Ids of the configs in the answer. */
  ids: string[]
}

export interface Dialect {
  name: string
  version: '1.0' | '0.3'
  send(text: string, asked?: Asked): Promise<Outcome>
  stream(text: string, asked?: Asked): Promise<Followed>
  get(id: string, historyLength?: unknown): Promise<Outcome>
  cancel(id: string): Promise<Outcome>
  subscribe(id: string, lastEventId?: string): Promise<Followed>
  extendedCard(): Promise<Outcome>
  createPush(id: string, config: Record<string, unknown>): Promise<PushOutcome>
  getPush(id: string, configId: string): Promise<PushOutcome>
  listPush(id: string): Promise<PushOutcome>
  deletePush(id: string, configId: string): Promise<PushOutcome>
}

export interface Who {
  url: string
  queue: string
  token: string | null
}

/** The names of the errors, by the codes that JSON-RPC and 0.3 know them by. */
const REASONS: Record<number, string> = {
  [-32001]: 'TASK_NOT_FOUND',
  [-32002]: 'TASK_NOT_CANCELABLE',
  [-32003]: 'PUSH_NOTIFICATION_NOT_SUPPORTED',
  [-32004]: 'UNSUPPORTED_OPERATION',
  [-32005]: 'CONTENT_TYPE_NOT_SUPPORTED',
  [-32007]: 'EXTENDED_AGENT_CARD_NOT_CONFIGURED',
  [-32602]: 'INVALID_PARAMS',
}

const errorFacts = (error: Answer, status: number): ErrorFacts => {
  const details: Answer[] = error.details ?? (Array.isArray(error.data) ? error.data : [])
  const info = details.find((detail) => detail['@type']?.endsWith('ErrorInfo'))
  return { reason: info?.reason ?? REASONS[error.code] ?? String(error.code), status }
}

const TEXT_PART = {
  '1.0': (text: string) => ({ text }),
  '0.3': (text: string) => ({ kind: 'text', text }),
}

const messageOf = (version: '1.0' | '0.3', text: string, asked: Asked) => ({
  messageId: asked.messageId ?? randomUUID(),
  role: version === '1.0' ? 'ROLE_USER' : 'user',
  parts: [TEXT_PART[version](text)],
  ...(asked.taskId !== undefined && { taskId: asked.taskId }),
  ...(asked.contextId !== undefined && { contextId: asked.contextId }),
})

const sendParams = (version: '1.0' | '0.3', text: string, asked: Asked) => {
  const { wait = true, historyLength, pushUrl } = asked
  const push = pushUrl === undefined ? undefined : { url: pushUrl }
  return {
    message: asked.message ?? messageOf(version, text, asked),
    configuration: {
      ...(version === '1.0' ? { returnImmediately: !wait } : { blocking: wait }),
      ...(historyLength !== undefined && { historyLength }),
      ...(push && version === '1.0' && { taskPushNotificationConfig: push }),
      ...(push && version === '0.3' && { pushNotificationConfig: push }),
    },
  }
}

const followed = (stream: Stream, error: ErrorFacts | undefined): Followed => ({
  stream,
  ...(error && { error }),
  next: async () => {
    const frame = await stream.next()
    return frame && { id: frame.id, facts: frameFacts(frame.json.result ?? frame.json) }
  },
})

const found = (result: Answer): Pick<Outcome, 'task' | 'texts'> => {
  const task = result?.task ?? (result?.status ? result : undefined)
  if (task) return { task: taskFacts(task) }
  const message = result?.message ?? (result?.messageId ? result : undefined)
  return message
    ? { texts: (message.parts ?? message.content).map(({ text }: Answer) => text) }
    : {}
}

/** Configs of either version: flat, nested, under a resource name, in a list or alone. */
const configIds = (result: Answer): string[] => {
  if (!result) return []
  const list: Answer[] = Array.isArray(result) ? result : (result.configs ?? [result])
  return list.map((entry) => (entry.pushNotificationConfig ?? entry).id).filter(Boolean)
}

const headersOf = (who: Who, version: string, more: Record<string, string> = {}) => ({
  ...(who.token && { Authorization: `Bearer ${who.token}` }),
  ...(version === '1.0' && { 'A2A-Version': version }),
  ...more,
})

/* --------------------------------------------------------------- JSON-RPC */

interface RpcWords {
  version: '1.0' | '0.3'
  send: string
  stream: string
  get: string
  cancel: string
  subscribe: string
  card: string
  push: { create: string; get: string; list: string; delete: string }
  config(id: string, config: Record<string, unknown>): unknown
  configOf(id: string, configId: string): unknown
  configsOf(id: string): unknown
}

const WORDS: RpcWords[] = [
  {
    version: '1.0',
    send: 'SendMessage',
    stream: 'SendStreamingMessage',
    get: 'GetTask',
    cancel: 'CancelTask',
    subscribe: 'SubscribeToTask',
    card: 'GetExtendedAgentCard',
    push: {
      create: 'CreateTaskPushNotificationConfig',
      get: 'GetTaskPushNotificationConfig',
      list: 'ListTaskPushNotificationConfigs',
      delete: 'DeleteTaskPushNotificationConfig',
    },
    config: (taskId, config) => ({ taskId, ...config }),
    configOf: (taskId, id) => ({ taskId, id }),
    configsOf: (taskId) => ({ taskId }),
  },
  {
    version: '0.3',
    send: 'message/send',
    stream: 'message/stream',
    get: 'tasks/get',
    cancel: 'tasks/cancel',
    subscribe: 'tasks/resubscribe',
    card: 'agent/getAuthenticatedExtendedCard',
    push: {
      create: 'tasks/pushNotificationConfig/set',
      get: 'tasks/pushNotificationConfig/get',
      list: 'tasks/pushNotificationConfig/list',
      delete: 'tasks/pushNotificationConfig/delete',
    },
    config: (taskId, pushNotificationConfig) => ({ taskId, pushNotificationConfig }),
    configOf: (id, pushNotificationConfigId) => ({ id, pushNotificationConfigId }),
    configsOf: (id) => ({ id }),
  },
]

const overRpc = (words: RpcWords, who: Who): Dialect => {
  const endpoint = `${who.url}/a2a/${who.queue}/`
  const bodyOf = (method: string, params: unknown) =>
    JSON.stringify({ jsonrpc: '2.0', id: 7, method, params })
  const call = async (method: string, params: unknown): Promise<Outcome> => {
    const response = await fetch(endpoint, {
      method: 'POST',
      headers: headersOf(who, words.version, { 'Content-Type': 'application/json' }),
      body: bodyOf(method, params),
    })
    const body: Answer = await response.json()
    const { status, headers } = response
    if (body.error) return { body, status, headers, error: errorFacts(body.error, status) }
    return { body, status, headers, ...found(body.result) }
  }
  const open = async (method: string, params: unknown, more = {}): Promise<Followed> => {
    const stream = await openStream(endpoint, {
      method: 'POST',
      body: bodyOf(method, params),
      headers: headersOf(who, words.version, more),
    })
    return followed(stream, stream.body?.error && errorFacts(stream.body.error, stream.status))
  }
  const push = async (method: string, params: unknown): Promise<PushOutcome> => {
    const { body, error } = await call(method, params)
    return { body: body.result, ...(error && { error }), ids: error ? [] : configIds(body.result) }
  }
  return {
    name: `${words.version} JSON-RPC`,
    version: words.version,
    send: (text, asked = {}) => call(words.send, sendParams(words.version, text, asked)),
    stream: (text, asked = {}) => open(words.stream, sendParams(words.version, text, asked)),
    get: (id, historyLength) =>
      call(words.get, { id, ...(historyLength !== undefined && { historyLength }) }),
    cancel: (id) => call(words.cancel, { id }),
    subscribe: (id, cursor) =>
      open(words.subscribe, { id }, cursor === undefined ? {} : resumeAfter(cursor)),
    extendedCard: () => call(words.card, undefined),
    createPush: (id, config) => push(words.push.create, words.config(id, config)),
    getPush: (id, configId) => push(words.push.get, words.configOf(id, configId)),
    listPush: (id) => push(words.push.list, words.configsOf(id)),
    deletePush: (id, configId) => push(words.push.delete, words.configOf(id, configId)),
  }
}

/* -------------------------------------------------------------- HTTP+JSON */

/** Proto JSON of 0.3 says `content` where the core says `parts`, and has no `kind`. */
const protoMessage = (message: Answer): Answer => {
  const { parts, role, kind: _kind, ...rest } = message
  const plain = (part: Answer): Answer => {
    const { kind: _part, ...content } = part
    return content
  }
  return {
    ...rest,
    ...(role !== undefined && { role: role === 'user' ? 'ROLE_USER' : role }),
    ...(parts !== undefined && { content: Array.isArray(parts) ? parts.map(plain) : parts }),
  }
}

const overRest = (version: '1.0' | '0.3', who: Who): Dialect => {
  const base = `${who.url}/a2a/${who.queue}${version === '0.3' ? '/v1' : ''}`
  const call = async (method: string, path: string, json?: unknown): Promise<Outcome> => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: headersOf(who, version, {
        Accept: 'application/a2a+json, application/json',
        ...(json !== undefined && { 'Content-Type': 'application/json' }),
      }),
      ...(json !== undefined && { body: JSON.stringify(json) }),
    })
    const { status, headers } = response
    const text = await response.text()
    const body = text === '' ? null : JSON.parse(text)
    const error = body?.error ?? (status >= 400 ? body : undefined)
    if (error) return { body, status, headers, error: errorFacts(error, status) }
    return { body, status, headers, ...found(body) }
  }
  const open = async (
    method: string,
    path: string,
    json?: unknown,
    more: Record<string, string> = {},
  ): Promise<Followed> => {
    const stream = await openStream(`${base}${path}`, {
      method,
      ...(json !== undefined && { body: JSON.stringify(json) }),
      headers: headersOf(who, version, more),
    })
    const error = stream.body?.error ?? stream.body ?? undefined
    return followed(stream, error && errorFacts(error, stream.status))
  }
  const paramsOf = (text: string, asked: Asked): Answer => {
    const params: Answer = sendParams(version, text, asked)
    if (version === '1.0') return params
    const { pushNotificationConfig, ...configuration } = params.configuration
    return {
      message: protoMessage(params.message),
      configuration: {
        ...configuration,
        ...(pushNotificationConfig && { pushNotification: pushNotificationConfig }),
      },
    }
  }
  const push = async (method: string, path: string, json?: unknown): Promise<PushOutcome> => {
    const { body, error } = await call(method, path, json)
    return { body, ...(error && { error }), ids: error ? [] : configIds(body) }
  }
  const configs = (id: string) => `/tasks/${id}/pushNotificationConfigs`
  const named = (id: string, config: Answer) =>
    version === '1.0'
      ? config
      : { name: `tasks/${id}/pushNotificationConfigs/`, pushNotificationConfig: config }
  return {
    name: `${version} HTTP+JSON`,
    version,
    send: (text, asked = {}) => call('POST', '/message:send', paramsOf(text, asked)),
    stream: (text, asked = {}) => open('POST', '/message:stream', paramsOf(text, asked)),
    get: (id, historyLength) =>
      call(
        'GET',
        `/tasks/${id}${historyLength === undefined ? '' : `?historyLength=${historyLength}`}`,
      ),
    cancel: (id) => call('POST', `/tasks/${id}:cancel`),
    subscribe: (id, cursor) =>
      open(
        'POST',
        `/tasks/${id}:subscribe`,
        undefined,
        cursor === undefined ? {} : resumeAfter(cursor),
      ),
    extendedCard: () => call('GET', version === '1.0' ? '/extendedAgentCard' : '/card'),
    createPush: (id, config) => push('POST', configs(id), named(id, config)),
    getPush: (id, configId) => push('GET', `${configs(id)}/${configId}`),
    listPush: (id) => push('GET', configs(id)),
    deletePush: (id, configId) => push('DELETE', `${configs(id)}/${configId}`),
  }
}

/** Their names, as the cases are reported under. */
export const DIALECTS = ['1.0 JSON-RPC', '0.3 JSON-RPC', '1.0 HTTP+JSON', '0.3 HTTP+JSON']

/** All four, for one client of one queue. */
export const dialectsOf = (who: Who): Dialect[] => [
  ...WORDS.map((words) => overRpc(words, who)),
  overRest('1.0', who),
  overRest('0.3', who),
]
