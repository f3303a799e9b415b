import { describe, expect, test } from 'vitest'
import { REQUESTS } from '../../../src/protocol/v1/schema.ts'
import { violationsOf } from '../../../src/protocol/wire/params.ts'

type Name = keyof typeof REQUESTS

const fields = (name: Name, params: unknown): string[] => {
  const read = REQUESTS[name].safeParse(params)
  return read.success ? [] : violationsOf(read.error.issues).map(({ field }) => field)
}

const message = (members: object = {}) => ({
  message: { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'hi' }], ...members },
})
const withPart = (part: unknown) => message({ parts: [part] })

describe('SendMessage refuses, naming the field,', () => {
  test.each<[string, unknown, string]>([
    ['no params', undefined, 'params'],
    ['params that are a list', [], 'params'],
    ['no message', {}, 'message'],
    ['no parts', message({ parts: [] }), 'message.parts'],
    ['parts that are text', message({ parts: 'hi' }), 'message.parts'],
    ['a part of null', withPart(null), 'message.parts[0]'],
    ['no message id', message({ messageId: undefined }), 'message.messageId'],
    ['a null message id', message({ messageId: null }), 'message.messageId'],
    ['an empty message id', message({ messageId: '' }), 'message.messageId'],
    ['a long message id', message({ messageId: 'x'.repeat(257) }), 'message.messageId'],
    ['a NUL in an id', message({ messageId: 'a\u0000b' }), 'message.messageId'],
    ['a line break in an id', message({ contextId: 'a\nb' }), 'message.contextId'],
    ['no role', message({ role: undefined }), 'message.role'],
    ['an unknown role', message({ role: 'ROLE_WIZARD' }), 'message.role'],
    ['the role of 0.3', message({ role: 'user' }), 'message.role'],
    ['the agent as its author', message({ role: 'ROLE_AGENT' }), 'message.role'],
    ['no role at all by name', message({ role: 'ROLE_UNSPECIFIED' }), 'message.role'],
    ['an unknown number as its role', message({ role: 3 }), 'message.role'],
    ['a part without content', withPart({}), 'message.parts[0]'],
    ['a part with two contents', withPart({ text: '', data: null }), 'message.parts[0]'],
    ['a text that is a number', withPart({ text: 5 }), 'message.parts[0].text'],
    ['bytes that are no base64', withPart({ raw: 'a b' }), 'message.parts[0].raw'],
    ['bytes of an impossible length', withPart({ raw: 'abcde' }), 'message.parts[0].raw'],
    ['bytes padded wrongly', withPart({ raw: 'ab=' }), 'message.parts[0].raw'],
    ['too many parts', message({ parts: Array(1001).fill({ text: '' }) }), 'message.parts'],
    ['metadata that is a list', message({ metadata: [] }), 'message.metadata'],
    [
      'a negative history',
      { ...message(), configuration: { historyLength: -1 } },
      'configuration.historyLength',
    ],
    [
      'half a message of history',
      { ...message(), configuration: { history_length: 1.5 } },
      'configuration.historyLength',
    ],
    [
      'a flag that is text',
      { ...message(), configuration: { returnImmediately: 'true' } },
      'configuration.returnImmediately',
    ],
  ])('%s', (_, params, field) => {
    expect(fields('SendMessageRequest', params)).toContain(field)
  })
})

describe('SendMessage takes', () => {
  test.each<[string, unknown]>([
    ['an empty text', withPart({ text: '' })],
    ['a null datum', withPart({ data: null })],
    ['a false datum', withPart({ data: false })],
    ['a part whose other contents are null', withPart({ text: 'x', raw: null, url: null })],
    ['base64 of either alphabet', withPart({ raw: '-_+/' })],
    ['base64 without padding', withPart({ raw: 'aGk' })],
    ['no bytes', withPart({ raw: '' })],
    ['empty ids, as absent', message({ taskId: '', contextId: '' })],
    ['null for anything optional', { ...message({ taskId: null }), configuration: null }],
    ['a thousand parts', message({ parts: Array(1000).fill({ text: '' }) })],
    ['an integer as text', { ...message(), configuration: { historyLength: '2' } }],
    ['what it does not know', { ...message({ kind: 'message' }), blocking: true }],
    ['an id of 256 characters', message({ taskId: 'é'.repeat(256) })],
  ])('%s', (_, params) => {
    expect(fields('SendMessageRequest', params)).toEqual([])
  })

  test('metadata and data with their keys untouched', () => {
    const tree = { some_key: { another_key: [null] }, __proto__: 1 }
    const read = REQUESTS.SendMessageRequest.parse({ ...withPart({ data: tree }), metadata: tree })
    expect(read.metadata).toBe(tree)
    expect(read.message.parts[0]?.data).toBe(tree)
  })
})

describe('ListTasks', () => {
  test.each<[unknown, string[]]>([
    [undefined, []],
    [{}, []],
    [{ pageSize: 0 }, ['pageSize']],
    [{ pageSize: 101 }, ['pageSize']],
    [{ page_size: -1 }, ['pageSize']],
    [{ pageSize: 100 }, []],
    [{ status: 'TASK_STATE_RUNNING' }, ['status']],
    [{ status: 3 }, []],
    [{ status: 9 }, ['status']],
    [{ status: -1 }, ['status']],
    [{ status: true }, ['status']],
    [{ status: 'TASK_STATE_UNSPECIFIED' }, []],
    [{ historyLength: -1 }, ['historyLength']],
    [{ pageToken: '' }, []],
  ])('%j is at fault in %j', (params, faults) => {
    expect(fields('ListTasksRequest', params)).toEqual(faults)
  })

  const after = (text: unknown) =>
    REQUESTS.ListTasksRequest.safeParse({ statusTimestampAfter: text }).data?.statusTimestampAfter

  test.each<[string, string]>([
    ['2026-03-01T08:00:00Z', '2026-03-01T08:00:00.000Z'],
    ['2026-03-01T08:00:00.1Z', '2026-03-01T08:00:00.100Z'],
    ['2026-03-01T08:00:00.123999999Z', '2026-03-01T08:00:00.123Z'],
    ['2026-03-01T08:00:00+02:00', '2026-03-01T06:00:00.000Z'],
    ['2028-02-29t08:00:00z', '2028-02-29T08:00:00.000Z'],
  ])('reads %s to the millisecond', (text, moment) => {
    expect(after(text)?.toISOString()).toBe(moment)
  })

  test.each<[unknown]>([
    [1_700_000_000],
    ['yesterday'],
    ['2026-03-01'],
    ['2026-02-30T00:00:00Z'],
    ['2026-13-01T00:00:00Z'],
    ['2026-03-01T24:00:00Z'],
    ['2026-03-01T08:00:00'],
    ['2026-03-01 08:00:00Z'],
  ])('refuses %j as a moment', (text) => {
    expect(fields('ListTasksRequest', { statusTimestampAfter: text })).toEqual([
      'statusTimestampAfter',
    ])
  })
})

describe('the methods that name a task', () => {
  test.each<[Name, unknown, string[]]>([
    ['GetTaskRequest', undefined, ['params']],
    ['GetTaskRequest', {}, ['id']],
    ['GetTaskRequest', { id: '' }, ['id']],
    ['GetTaskRequest', { id: 7 }, ['id']],
    ['GetTaskRequest', { id: 't', history_length: 0 }, []],
    ['CancelTaskRequest', { id: 't', metadata: { why: 'x' } }, []],
    ['SubscribeToTaskRequest', { id: "'; DROP TABLE todos;--" }, []],
    ['GetTaskPushNotificationConfigRequest', { task_id: 't' }, ['id']],
    ['DeleteTaskPushNotificationConfigRequest', { taskId: 't', id: 'c' }, []],
    ['TaskPushNotificationConfig', { taskId: 't' }, ['url']],
    ['GetExtendedAgentCardRequest', undefined, []],
  ])('%s of %j is at fault in %j', (name, params, faults) => {
    expect(fields(name, params)).toEqual(faults)
  })
})
