/** Both dialects of 0.3's HTTP+JSON: bodies in, objects out, and its paths against those of 1.0. */
import { describe, expect, test } from 'vitest'
import { invalid, Refusal } from '../../../src/domain/errors.ts'
import type { JsonObject } from '../../../src/domain/todo.ts'
import { V1_PATHS } from '../../../src/protocol/v1/paths.ts'
import type { Task } from '../../../src/protocol/v1/wire.ts'
import { v03RestError } from '../../../src/protocol/v03/errors.ts'
import { V03_PATHS } from '../../../src/protocol/v03/paths.ts'
import {
  protoCard,
  protoEvent,
  protoPushConfig,
  protoSent,
  protoTask,
} from '../../../src/protocol/v03/proto-json.ts'
import { REST_PARAMS } from '../../../src/protocol/v03/rest-schema.ts'
import {
  fromPushConfig,
  fromSent,
  fromStreamed,
  fromTask,
} from '../../../src/protocol/v03/translate.ts'
import { problemOf, WireRefusal } from '../../../src/protocol/wire/errors.ts'

const { MessageSendParams, TaskQueryParams, TaskPushNotificationConfig, ListTasks } = REST_PARAMS
const pathsOf = (read: { error?: { issues: { path: PropertyKey[] }[] } | undefined }) =>
  read.error?.issues.map(({ path }) => path.join('.'))

test('its paths are those of 1.0 under /v1, but for the card', () => {
  const shape = ({ verb, template }: { verb: string; template: string }) =>
    `${verb} ${template.replace(/^\/v1/, '').replace(/\{\w+/g, '{x')}`
  const card = (each: string) => each.replace('/extendedAgentCard', '/card')
  expect(V03_PATHS.map(shape).sort()).toEqual(V1_PATHS.map(shape).map(card).sort())
})

describe('a send', () => {
  const core = {
    message: {
      kind: 'message',
      messageId: 'm-1',
      contextId: 'c-1',
      role: 'user',
      parts: [
        { kind: 'text', text: '' },
        { kind: 'file', file: { bytes: 'aGk=', mimeType: 'text/plain' } },
        { kind: 'file', file: { uri: 'https://example.com/a' } },
        { kind: 'data', data: { data: { n: 1 } } },
      ],
      metadata: { a: 1 },
    },
    configuration: {
      acceptedOutputModes: ['text/plain'],
      blocking: true,
      historyLength: 2,
      pushNotificationConfig: {
        url: 'https://example.com/',
        authentication: { schemes: ['Basic'] },
      },
    },
    metadata: { b: 2 },
  }
  const camel = {
    message: {
      messageId: 'm-1',
      contextId: 'c-1',
      role: 'ROLE_USER',
      content: [
        { text: '' },
        { file: { fileWithBytes: 'aGk=', mimeType: 'text/plain' } },
        { file: { fileWithUri: 'https://example.com/a' } },
        { data: { data: { data: { n: 1 } } } },
      ],
      metadata: { a: 1 },
    },
    configuration: {
      acceptedOutputModes: ['text/plain'],
      blocking: true,
      historyLength: 2,
      pushNotification: { url: 'https://example.com/', authentication: { schemes: ['Basic'] } },
    },
    metadata: { b: 2 },
  }
  const snaked = {
    request: {
      message_id: 'm-1',
      context_id: 'c-1',
      role: 'ROLE_USER',
      content: [
        { text: '' },
        { file: { file_with_bytes: 'aGk=', mime_type: 'text/plain' } },
        { file: { file_with_uri: 'https://example.com/a' } },
        { data: { data: { data: { n: 1 } } } },
      ],
      metadata: { a: 1 },
    },
    configuration: {
      accepted_output_modes: ['text/plain'],
      blocking: true,
      history_length: 2,
      push_notification: { url: 'https://example.com/', authentication: { schemes: ['Basic'] } },
    },
    metadata: { b: 2 },
  }

  test('is read the same in either dialect and either spelling', () => {
    const read = MessageSendParams.parse(core)
    expect(read.message.parts[3]?.data).toEqual({ data: { n: 1 } })
    const { kind: _, ...message } = read.message
    expect(MessageSendParams.parse(camel)).toEqual({ ...read, message })
    expect(MessageSendParams.parse(snaked)).toEqual({ ...read, message })
  })

  test('may mix the words of both', () => {
    const { message } = MessageSendParams.parse({
      message: {
        messageId: 'm',
        role: 'ROLE_USER',
        parts: [
          { text: 'x' },
          { file: { fileWithUri: 'https://example.com/' } },
          { data: { data: 1 } },
        ],
      },
    })
    expect(message.role).toBe('user')
    expect(message.parts.map(({ file, data }) => file?.uri ?? data)).toEqual([
      undefined,
      'https://example.com/',
      { data: 1 },
    ])
  })

  const words = (dialect: 'content' | 'parts', configuration?: object) =>
    MessageSendParams.parse({
      message: { messageId: 'm', role: 'user', [dialect]: [{ text: 'x' }] },
      ...(configuration && { configuration }),
    }).configuration

  test('waits or not as its dialect has it where nothing is said', () => {
    expect(words('parts', {})?.blocking).toBeUndefined()
    expect(words('parts', { blocking: false })?.blocking).toBe(false)
    expect(words('content')).toBeUndefined()
    // The proto writes no false: a configuration without the flag has it false.
    expect(words('content', {})?.blocking).toBe(false)
    expect(words('content', { blocking: true })?.blocking).toBe(true)
  })

  test('takes no length for none or for all, as its dialect has it', () => {
    expect(words('parts', { historyLength: 0 })?.historyLength).toBe(0)
    expect(words('content', { historyLength: 0 })?.historyLength).toBeUndefined()
    expect(words('content', { history_length: 0 })?.historyLength).toBeUndefined()
    expect(words('content', { historyLength: 3 })?.historyLength).toBe(3)
  })

  test.each([
    ['nothing', {}, ['message']],
    ['a message that is none', { message: 7 }, ['message']],
    [
      'content that is none',
      { message: { messageId: 'm', role: 'ROLE_USER', content: 'x' } },
      ['message.parts'],
    ],
    [
      'no content',
      { message: { messageId: 'm', role: 'ROLE_USER', content: [] } },
      ['message.parts'],
    ],
    [
      'an agent',
      { message: { messageId: 'm', role: 'ROLE_AGENT', content: [{ text: 'x' }] } },
      ['message.role'],
    ],
    [
      'no role',
      { message: { messageId: 'm', role: 'ROLE_UNSPECIFIED', content: [{ text: 'x' }] } },
      ['message.role'],
    ],
    [
      'an empty part',
      { message: { messageId: 'm', role: 'ROLE_USER', content: [{}] } },
      ['message.parts.0'],
    ],
    [
      'a length below nothing',
      {
        message: { messageId: 'm', role: 'ROLE_USER', content: [{ text: 'x' }] },
        configuration: { historyLength: -1 },
      },
      ['configuration.historyLength'],
    ],
  ])('of %s is refused by its field', (_what, body, fields) => {
    expect(pathsOf(MessageSendParams.safeParse(body))).toEqual(fields)
  })
})

test('a task is asked for with all of its history where the length is 0', () => {
  expect(TaskQueryParams.parse({ id: 't', historyLength: '0' })).toEqual({ id: 't' })
  expect(TaskQueryParams.parse({ id: 't', historyLength: '2' })).toMatchObject({ historyLength: 2 })
  expect(pathsOf(TaskQueryParams.safeParse({ id: 't', historyLength: '-1' }))).toEqual([
    'historyLength',
  ])
})

test.each([
  ['canceled', 'TASK_STATE_CANCELED'],
  ['TASK_STATE_CANCELLED', 'TASK_STATE_CANCELED'],
  ['TASK_STATE_CANCELED', 'TASK_STATE_CANCELED'],
  ['input-required', 'TASK_STATE_INPUT_REQUIRED'],
])('a list of the state %s is one of %s', (status, expected) => {
  expect(ListTasks.parse({ status }).status).toBe(expected)
})

describe('a push config', () => {
  const config = { url: 'https://example.com/', token: 't' }
  const name = 'tasks/t-1/pushNotificationConfigs/c-1'
  test.each([
    ['as the SDK sends it', { name, pushNotificationConfig: config }],
    [
      'with its id inside',
      {
        name: 'tasks/t-1/pushNotificationConfigs/',
        pushNotificationConfig: { ...config, id: 'c-1' },
      },
    ],
    ['with an id that is empty inside', { name, pushNotificationConfig: { ...config, id: '' } }],
    ['wrapped', { config: { name, pushNotificationConfig: config } }],
    ['bare and wrapped', { config: { ...config, id: 'c-1' } }],
    [
      'as the request of the proto',
      { parent: 'tasks/t-1', configId: 'c-1', config: { name, pushNotificationConfig: config } },
    ],
    [
      'the same in snake case',
      { parent: 'tasks/t-1', config_id: 'c-1', config: { push_notification_config: config } },
    ],
    [
      'as the JSON Schema has it',
      { taskId: 't-1', pushNotificationConfig: { ...config, id: 'c-1' } },
    ],
    [
      'wrapped as the JSON Schema has it',
      { config: { taskId: 't-1', pushNotificationConfig: { ...config, id: 'c-1' } } },
    ],
  ])('is read %s', (_how, body) => {
    expect(TaskPushNotificationConfig.parse({ ...body, taskId: 't-1' })).toEqual({
      taskId: 't-1',
      pushNotificationConfig: { ...config, id: 'c-1' },
    })
  })

  test('may be without an id', () => {
    const body = {
      taskId: 't-1',
      name: 'tasks/t-1/pushNotificationConfigs/',
      pushNotificationConfig: config,
    }
    expect(TaskPushNotificationConfig.parse(body).pushNotificationConfig.id).toBeUndefined()
  })

  test('may have an authentication that is empty, as the proto writes it', () => {
    for (const authentication of [{}, { schemes: null }, { schemes: [] }, { credentials: '' }]) {
      const sent = { ...config, token: '', authentication }
      const body = {
        taskId: 't-1',
        parent: 'tasks/t-1',
        config: { push_notification_config: sent },
      }
      expect(TaskPushNotificationConfig.parse(body).pushNotificationConfig).toMatchObject({
        url: config.url,
        authentication: { schemes: [] },
      })
      const message = { messageId: 'm', role: 'ROLE_USER', content: [{ text: 'x' }] }
      const inline = { message, configuration: { push_notification: sent } }
      expect(MessageSendParams.safeParse(inline).success).toBe(true)
    }
    const wanting = { ...config, authentication: { credentials: 'x' } }
    const read = TaskPushNotificationConfig.safeParse({ taskId: 't-1', config: wanting })
    expect(pathsOf(read)).toEqual(['pushNotificationConfig.authentication.schemes'])
  })

  test.each([
    [{ name: 'tasks/t-2/pushNotificationConfigs/c', pushNotificationConfig: config }],
    [{ parent: 'tasks/t-2', config: { pushNotificationConfig: config } }],
    [{ config: { name: 'tasks/t-2/pushNotificationConfigs/c', pushNotificationConfig: config } }],
    [{ config: { taskId: 't-2', pushNotificationConfig: config } }],
  ])('of another task than that of the path is refused: %j', (body) => {
    const read = TaskPushNotificationConfig.safeParse({ ...body, taskId: 't-1' })
    expect(pathsOf(read)).toEqual(['name'])
  })

  test.each([[{}], [{ config: 7 }], [{ pushNotificationConfig: [] }], [{ config: {} }]])(
    'that is none is refused: %j',
    (body) => {
      expect(TaskPushNotificationConfig.safeParse({ ...body, taskId: 't-1' }).success).toBe(false)
    },
  )

  test('is answered as a resource', () => {
    const kept = fromPushConfig({ id: 'c-1', url: 'https://example.com/' }, 't-1')
    expect(protoPushConfig(kept)).toEqual({
      name,
      pushNotificationConfig: { id: 'c-1', url: 'https://example.com/' },
    })
  })
})

describe('what is answered', () => {
  const timestamp = '2026-01-02T03:04:05.678Z'
  const task: Task = {
    id: 't-1',
    contextId: 'c-1',
    status: {
      state: 'TASK_STATE_CANCELED',
      message: { messageId: 'm-2', role: 'ROLE_AGENT', parts: [{ text: 'no' }] },
      timestamp,
    },
    artifacts: [
      {
        artifactId: 'a',
        parts: [
          { raw: 'aGk=', filename: 'a.txt', mediaType: 'text/plain' },
          { url: 'https://example.com/a' },
          { data: { n: 1 }, mediaType: 'application/json' },
          { data: [1] },
          { text: '', metadata: { lost: true } },
        ],
      },
    ],
    history: [
      { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'x' }], referenceTaskIds: ['t-0'] },
    ],
    metadata: { kept: true },
  }

  test('is a task of the proto, with nothing that its readers do not know', () => {
    expect(protoTask(fromTask(task))).toEqual({
      id: 't-1',
      contextId: 'c-1',
      status: {
        state: 'TASK_STATE_CANCELLED',
        message: { messageId: 'm-2', role: 'ROLE_AGENT', content: [{ text: 'no' }] },
        timestamp,
      },
      artifacts: [
        {
          artifactId: 'a',
          parts: [
            { file: { fileWithBytes: 'aGk=', mimeType: 'text/plain' } },
            { file: { fileWithUri: 'https://example.com/a' } },
            { data: { data: { n: 1 } } },
            { data: { data: { value: [1] } } },
            { text: '' },
          ],
        },
      ],
      history: [{ messageId: 'm-1', role: 'ROLE_USER', content: [{ text: 'x' }] }],
      metadata: { kept: true },
    })
  })

  test('is wrapped by its kind, for a send and for each event', () => {
    const message = { messageId: 'm-2', role: 'ROLE_AGENT' as const, parts: [{ text: 'bare' }] }
    expect(Object.keys(protoSent(fromSent({ task })))).toEqual(['task'])
    expect(protoSent(fromSent({ message }))).toEqual({
      message: { messageId: 'm-2', role: 'ROLE_AGENT', content: [{ text: 'bare' }] },
    })
    const ids = { taskId: 't-1', contextId: 'c-1' }
    const status = { state: 'TASK_STATE_WORKING' as const, timestamp }
    expect(Object.keys(protoEvent(fromStreamed({ task })))).toEqual(['task'])
    expect(protoEvent(fromStreamed({ statusUpdate: { ...ids, status } }))).toEqual({
      statusUpdate: { ...ids, status, final: false },
    })
    const artifact = { artifactId: 'a', parts: [{ text: 'x' }] }
    expect(
      protoEvent(fromStreamed({ artifactUpdate: { ...ids, artifact, append: true } })),
    ).toEqual({
      artifactUpdate: { ...ids, artifact, append: true },
    })
  })

  test('is a card whose security schemes either kind of reader finds', () => {
    const card: JsonObject = {
      name: 'x',
      securitySchemes: { bearer: { type: 'http', scheme: 'Bearer' } },
      security: [{ bearer: [] }],
    }
    expect(protoCard(card)).toEqual({
      ...card,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'Bearer', httpAuthSecurityScheme: { scheme: 'Bearer' } },
      },
    })
  })
})

test.each([
  [new Refusal('not_found'), 404, -32001],
  [new Refusal('not_cancelable'), 400, -32002],
  [new Refusal('unsupported'), 400, -32004],
  [invalid('message', 'is required'), 400, -32602],
  [new WireRefusal('parse'), 400, -32700],
  [new WireRefusal('method'), 404, -32601],
  [new WireRefusal('verb'), 405, -32601],
  [new WireRefusal('unauthenticated'), 401, -32000],
  [new WireRefusal('media_type'), 415, -32005],
  [new WireRefusal('version'), 400, -32600],
  [new Refusal('unavailable'), 503, -32603],
  [new Error('select secret'), 500, -32603],
])('%o is %i and the error object of JSON-RPC, bare', (thrown, status, code) => {
  const { body, ...rest } = v03RestError(problemOf(thrown, 'r-1'))
  expect(rest).toMatchObject({ status, code })
  expect(body).toMatchObject({ code, message: expect.any(String) })
  expect(JSON.stringify(body)).not.toContain('secret')
})
