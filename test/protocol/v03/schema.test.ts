/** What 0.3 may not send, and where the fault is said to be. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Refusal } from '../../../src/domain/errors.ts'
import { PARAMS as PARAMS_01 } from '../../../src/protocol/v01/schema.ts'
import { PARAMS } from '../../../src/protocol/v03/schema.ts'
import { unary } from '../../../src/protocol/wire/method.ts'
import { readParams } from '../../../src/protocol/wire/params.ts'

type Name = keyof typeof PARAMS

const faults = (name: Name, params: unknown): string[] => {
  try {
    readParams(
      unary(PARAMS[name], async () => null),
      params,
    )
    return []
  } catch (error) {
    return ((error as Refusal).detail.violations ?? []).map(({ field }) => field)
  }
}

const message = { messageId: 'm', role: 'user', parts: [{ kind: 'text', text: 'x' }] }
const send = (change: object) => ({ message: { ...message, ...change } })
const part = (of: object) => send({ parts: [of] })
const configuration = (of: object) => ({ message, configuration: of })
const config = { url: 'https://h' }

describe('a send is refused', () => {
  test.each<[string, unknown, string]>([
    ['without params', undefined, 'params'],
    ['with a list', [], 'params'],
    ['without a message', {}, 'message'],
    ['of no parts', send({ parts: [] }), 'message.parts'],
    ['of parts that are none', send({ parts: 'hi' }), 'message.parts'],
    ['without a message id', send({ messageId: undefined }), 'message.messageId'],
    ['with an empty message id', send({ messageId: '' }), 'message.messageId'],
    ['without a role', send({ role: undefined }), 'message.role'],
    ['in the role of the agent', send({ role: 'agent' }), 'message.role'],
    ['with the role of 1.0', send({ role: 'ROLE_USER' }), 'message.role'],
    ['of another kind', send({ kind: 'task' }), 'message.kind'],
    ['with an id beyond bounds', send({ taskId: 'x'.repeat(257) }), 'message.taskId'],
    ['with a part of no content', part({ kind: 'text' }), 'message.parts[0]'],
    ['with a part of two', part({ text: 'x', data: {} }), 'message.parts[0]'],
    ['with a part of another kind', part({ kind: 'image', text: 'x' }), 'message.parts[0].kind'],
    [
      'with a part that is not what it says',
      part({ kind: 'data', text: 'x' }),
      'message.parts[0].data',
    ],
    ['with a part of no type', part({ type: 'odd', text: 'x' }), 'message.parts[0].type'],
    ['with a part of another type', part({ type: 'data', text: 'x' }), 'message.parts[0].data'],
    ['with data that is a list', part({ kind: 'data', data: [1] }), 'message.parts[0].data'],
    ['with data that is null', part({ kind: 'data', data: null }), 'message.parts[0]'],
    ['with a file of nothing', part({ kind: 'file', file: {} }), 'message.parts[0].file'],
    [
      'with a file twice',
      part({ kind: 'file', file: { uri: 'u', bytes: '' } }),
      'message.parts[0].file',
    ],
    ['with bytes that are none', part({ file: { bytes: '!' } }), 'message.parts[0].file.bytes'],
    ['with half a character', part({ text: '\ud800' }), 'message.parts[0].text'],
    ['with NUL', part({ text: '\u0000' }), 'message.parts[0].text'],
    [
      'with a negative history',
      configuration({ historyLength: -1 }),
      'configuration.historyLength',
    ],
    ['with half a history', configuration({ historyLength: 1.5 }), 'configuration.historyLength'],
    ['with a word for a flag', configuration({ blocking: 'yes' }), 'configuration.blocking'],
    [
      'with a webhook of no address',
      configuration({ pushNotificationConfig: {} }),
      'configuration.pushNotificationConfig.url',
    ],
    [
      'with credentials for no scheme',
      configuration({
        pushNotificationConfig: { ...config, authentication: { schemes: [], credentials: 'x' } },
      }),
      'configuration.pushNotificationConfig.authentication.schemes',
    ],
  ])('%s', (_, params, field) => {
    expect(faults('MessageSendParams', params)).toContain(field)
  })

  test('only for what is wrong with it', () => {
    expect(faults('MessageSendParams', { message })).toEqual([])
    expect(
      faults('MessageSendParams', {
        message: {
          ...message,
          parts: [
            { type: 'text', text: '' },
            { kind: 'text', type: 'odd', text: '' },
          ],
          kind: 'message',
          taskId: '',
          unknown: 1,
        },
        configuration: {
          pushNotificationConfig: { ...config, authentication: { schemes: [] } },
          odd: true,
        },
        metadata: {},
      }),
    ).toEqual([])
  })
})

test.each<[Name, unknown, string]>([
  ['TaskQueryParams', {}, 'id'],
  ['TaskQueryParams', { id: 't', historyLength: 'x' }, 'historyLength'],
  ['TaskIdParams', { id: 7 }, 'id'],
  ['TaskIdParams', { id: 't', metadata: [] }, 'metadata'],
  ['TaskPushNotificationConfig', { taskId: 't' }, 'pushNotificationConfig'],
  ['TaskPushNotificationConfig', { pushNotificationConfig: config }, 'taskId'],
  ['DeleteTaskPushNotificationConfigParams', { id: 't' }, 'pushNotificationConfigId'],
])('%s %j is refused for its %s', (name, params, field) => {
  expect(faults(name, params)).toContain(field)
})

test('the card needs no params, and takes any object', () => {
  expect(faults('Nothing', undefined)).toEqual([])
  expect(faults('Nothing', { any: 1 })).toEqual([])
})

test('whatever is sent is read or refused with its fields, in every method', () => {
  const schemas = [...Object.values(PARAMS), ...Object.values(PARAMS_01)]
  const anything = fc.oneof(fc.jsonValue(), fc.object({ key: fc.constantFrom(...NAMES) }))
  fc.assert(
    fc.property(anything, fc.constantFrom(...schemas), (params, schema) => {
      try {
        readParams(
          unary(schema, async () => null),
          params,
        )
      } catch (error) {
        expect(error).toBeInstanceOf(Refusal)
        expect((error as Refusal).kind).toBe('invalid')
        expect((error as Refusal).detail.violations?.length).toBeGreaterThan(0)
      }
    }),
    { numRuns: 500 },
  )
})

const NAMES = [
  'id',
  'message',
  'messageId',
  'role',
  'parts',
  'kind',
  'type',
  'text',
  'file',
  'bytes',
  'data',
  'metadata',
  'configuration',
  'pushNotificationConfig',
  'url',
  'sessionId',
  '__proto__',
]
