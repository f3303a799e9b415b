import { expect, test } from 'vitest'
import type { z } from 'zod'
import type { JsonObject } from '../../../src/domain/todo.ts'
import { warningsOf } from '../../../src/protocol/operator/card.ts'
import { OPERATOR_METHODS } from '../../../src/protocol/operator/methods.ts'
import * as schema from '../../../src/protocol/operator/schema.ts'

/** The places at fault, unknown members by their own names. */
const faults = (read: z.ZodType, params: unknown): string[] => {
  const { error } = read.safeParse(params)
  return (error?.issues ?? []).flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => [...issue.path, key].join('.'))
      : [issue.path.join('.')],
  )
}

test('the table has every method of the operator API', () => {
  expect(Object.keys(OPERATOR_METHODS)).toEqual([
    'queues.put',
    'queues.list',
    'queues.remove',
    'endpoints.vend',
    'endpoints.list',
    'endpoints.revoke',
    'endpoints.rotate',
    'endpoints.update',
    'doctor.run',
    'settings.get',
    'settings.set',
    'settings.unset',
    'schedules.put',
    'schedules.get',
    'schedules.list',
    'schedules.remove',
    'schedules.pause',
    'sessions.list',
    'sessions.revoke',
    'todos.list',
    'todos.show',
    'todos.documents',
    'todos.send',
    'todos.answer',
    'todos.answerLink',
    'todos.fork',
    'todos.join',
    'todos.retry',
    'todos.why',
    'todos.cancel',
    'deliveries.list',
    'deliveries.retry',
    'push.rotateSecret',
  ])
})

test.each(Object.entries(OPERATOR_METHODS))(
  '%s refuses a member it does not know',
  (_name, row) => {
    expect(faults(row.params, { quueue: 'a' })).toContain('quueue')
  },
)

test('what takes no params may be asked without', () => {
  for (const name of ['queues.list', 'endpoints.list', 'settings.get', 'todos.list']) {
    expect(faults(OPERATOR_METHODS[name]!.params, undefined)).toEqual([])
  }
})

test('a queue is named in small letters, digits and dashes', () => {
  for (const name of ['a', '0', 'legal-2', 'a'.repeat(63)]) {
    expect(faults(schema.putQueue, { name }), name).toEqual([])
  }
  for (const name of ['', '-a', 'A', 'a_b', 'a b', 'a/b', 'a\n', 'a'.repeat(64)]) {
    expect(faults(schema.putQueue, { name }), name).toEqual(['name'])
  }
})

const put = (given: object) => faults(schema.putQueue, { name: 'legal', ...given })
const backoff = { initialSeconds: 0.5, factor: 1, maxSeconds: 60, jitter: 0 }

test('a policy may be given in part', () => {
  expect(put({ policy: {} })).toEqual([])
  expect(put({ policy: { maxAttempts: 1 } })).toEqual([])
  expect(put({ policy: { backoff: { jitter: 0.5 } } })).toEqual([])
  expect(put({ policy: { backoff, timeouts: { heartbeat: 600 }, retentionDays: 30 } })).toEqual([])
  expect(put({ policy: { interruptTtlSeconds: 0, reentry: 'author' } })).toEqual([])
  expect(put({ policy: { dedupe: 'messageId' } })).toEqual([])
})

test.each<[string, object, string]>([
  ['no attempt', { maxAttempts: 0 }, 'maxAttempts'],
  ['an unknown way to dedupe', { dedupe: 'body' }, 'dedupe'],
  ['too many attempts', { maxAttempts: 101 }, 'maxAttempts'],
  [
    'a backoff of nothing',
    { backoff: { ...backoff, initialSeconds: 0 } },
    'backoff.initialSeconds',
  ],
  ['a backoff that shrinks', { backoff: { ...backoff, factor: 0.9 } }, 'backoff.factor'],
  ['a backoff without end', { backoff: { ...backoff, maxSeconds: -1 } }, 'backoff.maxSeconds'],
  ['more chance than all', { backoff: { ...backoff, jitter: 1.1 } }, 'backoff.jitter'],
  ['unknown contexts', { contexts: 'series' }, 'contexts'],
  ['an unknown timeout', { timeouts: { leas: 1 } }, 'timeouts.leas'],
  ['a timeout of nothing', { timeouts: { startToClose: 0 } }, 'timeouts.startToClose'],
  ['part of a second', { timeouts: { heartbeat: 1.5 } }, 'timeouts.heartbeat'],
  ['an unknown member', { maxAtempts: 3 }, 'maxAtempts'],
])('a policy with %s is refused by name', (_name, policy, place) => {
  expect(put({ policy })).toEqual([`policy.${place}`])
})

const card = (given: object) => put({ card: given })

test.each<[string, object, string]>([
  ['an icon that is a script', { iconUrl: 'javascript:alert(1)' }, 'iconUrl'],
  ['documentation without an address', { documentationUrl: 'docs' }, 'documentationUrl'],
  ['a provider without an address', { provider: { organization: 'X', url: 'x' } }, 'provider.url'],
  ['an empty mode', { defaultInputModes: [''] }, 'defaultInputModes.0'],
  ['a skill without an id', { skills: [{ name: 'S' }] }, 'skills.0.id'],
  ['a skill with odd tags', { skills: [{ id: 's', tags: 'a' }] }, 'skills.0.tags'],
  ['a skill with odd modes', { skills: [{ id: 's', inputModes: [1] }] }, 'skills.0.inputModes.0'],
  ['two skills of one id', { skills: [{ id: 's' }, { id: 's' }] }, 'skills.1.id'],
  [
    'too many skills',
    { skills: Array.from({ length: 101 }, (_, n) => ({ id: `${n}` })) },
    'skills',
  ],
  ['a description without end', { description: 'x'.repeat(10_001) }, 'description'],
  ['the same in its extended form', { extended: { skills: [{}] } }, 'extended.skills.0.id'],
])('a card with %s is refused by name', (_name, given, place) => {
  expect(card(given)).toEqual([`card.${place}`])
})

test.each<[string, object, string]>([
  ['half a provider', { provider: { organization: 'X' } }, 'provider'],
  ['a provider without a name', { provider: { organization: '', url: 'https://x' } }, 'provider'],
  ['a mode that is no media type', { defaultInputModes: ['text'] }, 'defaultInputModes[0]'],
  ['two modes in one', { defaultOutputModes: ['a/b, c/d'] }, 'defaultOutputModes[0]'],
  [
    'a skill with odd modes',
    { skills: [{ id: 's', inputModes: ['x'] }] },
    'skills[0].inputModes[0]',
  ],
  ['an unknown ability', { capabilities: { teleporting: true } }, 'capabilities.teleporting'],
  [
    'an extension with an unknown member',
    { capabilities: { extensions: [{ uri: 'urn:a', requird: true }] } },
    'capabilities.extensions[0].requird',
  ],
])('a card with %s is taken with a warning', (_name, given, place) => {
  const read = schema.putQueue.parse({ name: 'a', card: given }).card
  expect(warningsOf(read as JsonObject).map(({ field }) => field)).toEqual([`card.${place}`])
})

const extensions = (...list: object[]) => card({ capabilities: { extensions: list } })

test.each<[string, object[], string]>([
  ['no URI', [{}], '0.uri'],
  ['what is no URI', [{ uri: 'x' }], '0.uri'],
  ['a URI with a comma', [{ uri: 'urn:a,b' }], '0.uri'],
  ['a URI with a blank', [{ uri: 'urn:a b' }], '0.uri'],
  ['one URI twice', [{ uri: 'urn:a' }, { uri: 'urn:a' }], '1.uri'],
  ['one of ours that is none', [{ uri: 'urn:switchboard:ext:telepathy/v1' }], '0.uri'],
  ['odd params', [{ uri: 'urn:a', params: [] }], '0.params'],
  ['a doubtful requirement', [{ uri: 'urn:a', required: 'yes' }], '0.required'],
])('extensions with %s are refused by name', (_name, list, place) => {
  expect(extensions(...list)).toEqual([`card.capabilities.extensions.${place}`])
})

test('extensions may be anybody’s, or ours with a say on them', () => {
  expect(
    extensions(
      { uri: 'https://example.org/x', description: 'X', required: true, params: { n: 1 } },
      { uri: 'urn:switchboard:ext:deadlines/v1', required: true },
    ),
  ).toEqual([])
})

test('what A2A requires may be left out of a card, or be empty', () => {
  expect(card({ description: '', version: '', skills: [], defaultInputModes: [] })).toEqual([])
  expect(card({ skills: [{ id: 's', name: '', description: '', tags: [] }] })).toEqual([])
})

test('a card keeps members that this server does not read', () => {
  const card = { description: 'Drafts letters', skills: [{ id: 'draft' }], securitySchemes: {} }
  expect(schema.putQueue.parse({ name: 'legal', card }).card).toEqual(card)
  expect(put({ card: { skills: 'draft' } })).toEqual(['card.skills'])
  expect(put({ card: { capabilities: { pushNotifications: 'yes' } } })).toEqual([
    'card.capabilities.pushNotifications',
  ])
})

const vend = (given: object) =>
  faults(schema.vend, { name: 'box', queues: ['a'], verbs: ['work'], ...given })

test.each<[string, object, string[]]>([
  ['what is needed', {}, []],
  [
    'everything',
    { defaultLeaseSeconds: 60, effects: [], expiresInSeconds: 1, sendPerMinute: 1 },
    [],
  ],
  ['no queue', { queues: [] }, ['queues']],
  ['no verb', { verbs: [] }, ['verbs']],
  ['an unknown verb', { verbs: ['work', 'rule'] }, ['verbs.1']],
  ['a queue of a wrong name', { queues: ['a', 'B'] }, ['queues.1']],
  ['a lease too short', { defaultLeaseSeconds: 59 }, ['defaultLeaseSeconds']],
  ['a lease too long', { defaultLeaseSeconds: 86_401 }, ['defaultLeaseSeconds']],
  ['no name', { name: '' }, ['name']],
  ['an end before it begins', { expiresInSeconds: 0 }, ['expiresInSeconds']],
])('an endpoint vended with %s is read as it must', (_name, given, places) => {
  expect(vend(given)).toEqual(places)
})

test('an update names its endpoint and changes what it names', () => {
  expect(faults(schema.update, {})).toEqual(['id'])
  expect(schema.update.parse({ id: 'e1', verbs: ['send'] })).toEqual({ id: 'e1', verbs: ['send'] })
  expect(faults(schema.update, { id: 'e1', queues: [] })).toEqual(['queues'])
  expect(faults(schema.update, { id: 'e1', expiresInSeconds: 5 })).toEqual(['expiresInSeconds'])
})

test('a limit on how much runs at once is unset with null, where there may be one', () => {
  for (const limit of [null, 1]) {
    expect(faults(schema.update, { id: 'e', concurrency: limit })).toEqual([])
    expect(faults(schema.putQueue, { name: 'q', policy: { concurrency: limit } })).toEqual([])
  }
  for (const limit of [0, 1.5, 'none']) {
    expect(faults(schema.update, { id: 'e', concurrency: limit })).toEqual(['concurrency'])
  }
  const vend = { name: 'e', queues: ['q'], verbs: ['work'], concurrency: null }
  expect(faults(schema.vend, vend)).toEqual(['concurrency'])
})

test('a revocation leaves tasks alone unless told otherwise', () => {
  expect(schema.revoke.parse({ id: 'e1' })).toEqual({ id: 'e1', cancelTasks: false })
})

test('a setting is text', () => {
  expect(faults(schema.setSetting, { key: 'sse_retry_ms', value: 1000 })).toEqual(['value'])
  expect(faults(schema.setSetting, { key: 'sse_retry_ms', value: '' })).toEqual([])
})

test('what an operator says is said as a user', () => {
  const { message } = schema.send.parse({ queue: 'a', message: { parts: [{ text: 'hi' }] } })
  expect(message).toEqual({
    messageId: expect.any(String),
    role: 'ROLE_USER',
    parts: [{ text: 'hi' }],
  })
  expect(
    faults(schema.answer, { id: 't', message: { role: 'ROLE_AGENT', parts: [{ text: 'hi' }] } }),
  ).toEqual(['message.role'])
})
