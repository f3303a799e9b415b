/** Golden pairs of 0.3 and 1.0, both directions, and facts that no way there and back may lose. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Message, Part } from '../../../src/domain/todo.ts'
import { REQUESTS } from '../../../src/protocol/v1/schema.ts'
import { v03Error } from '../../../src/protocol/v03/errors.ts'
import { PARAMS } from '../../../src/protocol/v03/schema.ts'
import {
  fromMessage,
  fromSent,
  fromStreamed,
  fromTask,
  toSendRequest,
} from '../../../src/protocol/v03/translate.ts'

const read = (params: unknown) => toSendRequest(PARAMS.MessageSendParams.parse(params))
const sendOf = (message: object, more: object = {}) =>
  read({ message: { messageId: 'm', role: 'user', parts: [{ text: 'x' }], ...message }, ...more })
const partsOf = (...parts: unknown[]) => sendOf({ parts }).message.parts
const backOf = (part: Part) =>
  fromMessage({ messageId: 'm', role: 'ROLE_AGENT', parts: [part] }).parts[0]

const TEXT = '<b>&"\'</b> é 漢字 😀 \u2028 \\n \r\n \t'

describe('a part', () => {
  const pairs: [string, unknown, Part][] = [
    ['of text', { kind: 'text', text: TEXT }, { text: TEXT }],
    ['of no text', { kind: 'text', text: '' }, { text: '' }],
    [
      'of bytes',
      { kind: 'file', file: { name: 'a.txt', mimeType: 'text/plain', bytes: 'aGk=' } },
      { raw: 'aGk=', filename: 'a.txt', mediaType: 'text/plain' },
    ],
    ['by reference', { kind: 'file', file: { uri: 'https://f/a' } }, { url: 'https://f/a' }],
    ['of data', { kind: 'data', data: { a: [1, null] } }, { data: { a: [1, null] } }],
    [
      'with metadata',
      { kind: 'data', data: {}, metadata: { k: {} } },
      { data: {}, metadata: { k: {} } },
    ],
    [
      'of text with a type, which 0.3 has no member for',
      { kind: 'text', text: 'x', metadata: { k: 1, 'urn:switchboard:media-type': 'text/html' } },
      { text: 'x', mediaType: 'text/html', metadata: { k: 1 } },
    ],
    [
      'of text with a file name',
      { kind: 'text', text: 'x', metadata: { 'urn:switchboard:filename': 'a.md' } },
      { text: 'x', filename: 'a.md' },
    ],
    ...[[1, 2], null, 7, 'seven', false].map((data): [string, unknown, Part] => [
      `of data that is no object: ${JSON.stringify(data)}`,
      { kind: 'data', data: { value: data }, metadata: { 'urn:switchboard:wrapped': true } },
      { data },
    ]),
  ]
  test.each(pairs)('%s is the same there and back', (_, old, part) => {
    expect(partsOf(old)).toEqual([part])
    expect(backOf(part)).toEqual(old)
  })

  test.each<[string, unknown, Part]>([
    ['without its kind', { text: 'x' }, { text: 'x' }],
    ['a file without its kind', { file: { bytes: 'aGk' } }, { raw: 'aGk=' }],
    ['of fileWithBytes', { kind: 'file', file: { fileWithBytes: 'aGk=' } }, { raw: 'aGk=' }],
    ['of fileWithUri', { kind: 'file', file: { fileWithUri: 'u' } }, { url: 'u' }],
    ['of file.data', { kind: 'file', file: { data: 'aGk=' } }, { raw: 'aGk=' }],
    ['with nulls', { kind: 'text', text: 'x', metadata: null, file: null }, { text: 'x' }],
    ['with members of nobody', { kind: 'text', text: 'x', type: 'odd', y: 1 }, { text: 'x' }],
    [
      'that only looks wrapped',
      { data: { value: 1, more: 2 }, metadata: { 'urn:switchboard:wrapped': true } },
      { data: { value: 1, more: 2 }, metadata: { 'urn:switchboard:wrapped': true } },
    ],
  ])('%s is read', (_, old, part) => {
    expect(partsOf(old)).toEqual([part])
  })
})

describe('a send', () => {
  test('waits unless it is told not to', () => {
    const waits = (configuration?: object) =>
      !sendOf({}, configuration ? { configuration } : {}).configuration?.returnImmediately
    expect([waits(), waits({}), waits({ blocking: true }), waits({ blocking: false })]).toEqual([
      true,
      true,
      true,
      false,
    ])
  })

  test('carries everything that it has', () => {
    expect(
      read({
        message: {
          kind: 'message',
          messageId: 'm',
          role: 'user',
          parts: [{ kind: 'text', text: 'x' }],
          taskId: 't',
          contextId: 'c',
          metadata: { a: 1 },
          extensions: ['urn:x'],
          referenceTaskIds: ['r'],
        },
        configuration: {
          acceptedOutputModes: ['text/plain'],
          historyLength: 0,
          pushNotificationConfig: {
            url: 'https://h',
            token: 't',
            authentication: { schemes: ['Bearer', 'Basic'], credentials: 'c' },
          },
        },
        metadata: { 'urn:switchboard:busy': 'reject' },
      }),
    ).toEqual({
      message: {
        messageId: 'm',
        role: 'ROLE_USER',
        parts: [{ text: 'x' }],
        taskId: 't',
        contextId: 'c',
        metadata: { a: 1 },
        extensions: ['urn:x'],
        referenceTaskIds: ['r'],
      },
      configuration: {
        acceptedOutputModes: ['text/plain'],
        historyLength: 0,
        returnImmediately: false,
        taskPushNotificationConfig: {
          id: 'default',
          url: 'https://h',
          token: 't',
          authentication: { scheme: 'Bearer', credentials: 'c' },
        },
      },
      metadata: { 'urn:switchboard:busy': 'reject' },
    })
  })
})

const status = {
  state: 'TASK_STATE_INPUT_REQUIRED',
  timestamp: '2026-03-01T08:00:00.120Z',
  message: {
    messageId: 'm-2',
    role: 'ROLE_AGENT',
    contextId: 'c-1',
    taskId: 't-7',
    parts: [{ text: 'Which month?' }],
  },
} as const

const status03 = {
  state: 'input-required',
  timestamp: '2026-03-01T08:00:00.120Z',
  message: {
    kind: 'message',
    messageId: 'm-2',
    role: 'agent',
    contextId: 'c-1',
    taskId: 't-7',
    parts: [{ kind: 'text', text: 'Which month?' }],
  },
}

const asMessage = { ...status.message, parts: [...status.message.parts] } satisfies Message
const task = { id: 't-7', contextId: 'c-1', status: { ...status, message: asMessage } }

test('a task, a message and events say the same in both', () => {
  expect(fromTask(task)).toEqual({
    kind: 'task',
    id: 't-7',
    contextId: 'c-1',
    status: status03,
  })
  const whole = { ...task, history: [asMessage], metadata: { k: 1 } }
  expect(
    fromSent({ task: { ...whole, artifacts: [{ artifactId: 'a', parts: [{ url: 'u' }] }] } }),
  ).toEqual({
    kind: 'task',
    id: 't-7',
    contextId: 'c-1',
    status: status03,
    history: [status03.message],
    metadata: { k: 1 },
    artifacts: [{ artifactId: 'a', parts: [{ kind: 'file', file: { uri: 'u' } }] }],
  })
  expect(fromSent({ message: asMessage })).toEqual(status03.message)
  const ids = { taskId: 't-7', contextId: 'c-1' }
  expect(fromStreamed({ statusUpdate: { ...ids, status: task.status } })).toEqual({
    kind: 'status-update',
    ...ids,
    status: status03,
    final: false,
  })
  const chunk = { artifactId: 'a', name: 'n', parts: [{ text: 'x' }] }
  expect(
    fromStreamed({ artifactUpdate: { ...ids, artifact: chunk, append: true, lastChunk: true } }),
  ).toEqual({
    kind: 'artifact-update',
    ...ids,
    append: true,
    lastChunk: true,
    artifact: { artifactId: 'a', name: 'n', parts: [{ kind: 'text', text: 'x' }] },
  })
})

test('an error keeps code, words and details, but for the codes that 0.3 has not', () => {
  expect(v03Error({ kind: 'not_found' })).toMatchObject({
    status: 200,
    error: { code: -32001, message: 'Task not found', data: [{ reason: 'TASK_NOT_FOUND' }] },
  })
  expect(v03Error({ kind: 'unauthenticated' })).toMatchObject({ status: 401 })
  expect(v03Error({ kind: 'version' })).toMatchObject({
    error: { code: -32600, data: [{ reason: 'VERSION_NOT_SUPPORTED' }] },
  })
})

/* ------------------------------------------------------------- any message */

const json = fc.jsonValue({ maxDepth: 3 })
const members = fc.dictionary(fc.string({ minLength: 1 }), json, { maxKeys: 3 })
const metadata = fc.option(members, { nil: undefined })
const some = (text: fc.Arbitrary<string>) => fc.option(text, { nil: undefined })
const word = fc.string({ minLength: 1, maxLength: 20 }).filter((text) => !/\p{Cc}/u.test(text))
const base64 = fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('base64'))
const file = fc.record({ name: some(word), mimeType: some(word) })
const part = fc.oneof(
  fc.record({ kind: fc.constant('text'), text: fc.string(), metadata }),
  fc.record({ kind: fc.constant('data'), data: members, metadata }),
  fc.record({
    kind: fc.constant('file'),
    file: fc.tuple(file, base64).map(([rest, bytes]) => ({ ...rest, bytes })),
    metadata,
  }),
  fc.record({
    kind: fc.constant('file'),
    file: fc.tuple(file, fc.webUrl()).map(([rest, uri]) => ({ ...rest, uri })),
    metadata,
  }),
)
const message = fc.record({
  kind: fc.constant('message'),
  messageId: word,
  role: fc.constant('user'),
  parts: fc.array(part, { minLength: 1, maxLength: 5 }),
  contextId: some(word),
  taskId: some(word),
  metadata,
  extensions: fc.option(fc.array(word, { minLength: 1, maxLength: 3 }), { nil: undefined }),
})

/** As it goes over the wire: no undefined members. */
const wire = <T>(value: T): T => JSON.parse(JSON.stringify(value))

test('any message of 0.3 is one of 1.0, and comes back as it was', () => {
  fc.assert(
    fc.property(message, (sent) => {
      const request = read(wire({ message: sent }))
      expect(REQUESTS.SendMessageRequest.safeParse(wire(request)).success).toBe(true)
      expect(wire(fromMessage(wire(request.message) as Message))).toEqual(wire(sent))
    }),
  )
})

const part10: fc.Arbitrary<Part> = fc
  .tuple(
    fc.oneof(
      fc.record({ text: fc.string() }),
      fc.record({ raw: base64 }),
      fc.record({ url: fc.webUrl() }),
      fc.record({ data: json }),
    ),
    fc.record({ filename: some(word), mediaType: some(word), metadata }),
  )
  .map(([content, rest]) => wire({ ...content, ...rest }) as Part)
  // An empty object and none are one thing once something else was packed into it.
  .filter(({ metadata: given }) => given === undefined || Object.keys(given).length > 0)

test('any part of 1.0 comes back from 0.3 as it was', () => {
  fc.assert(
    fc.property(part10, (given) => {
      expect(wire(partsOf(wire(backOf(given))))).toEqual([given])
    }),
  )
})
