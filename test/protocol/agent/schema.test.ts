import { expect, test } from 'vitest'
import type { z } from 'zod'
import { AGENT_METHODS } from '../../../src/protocol/agent/methods.ts'
import * as schema from '../../../src/protocol/agent/schema.ts'

const held = { id: 'todo-1', fence: '7' }
const message = { parts: [{ text: 'hello' }] }
const artifact = { artifactId: 'a1', parts: [{ text: 'page' }] }

/** The places at fault, unknown members by their own names. */
const faults = (read: z.ZodType, params: unknown): string[] => {
  const { error } = read.safeParse(params)
  return (error?.issues ?? []).flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => [...issue.path, key].join('.'))
      : [issue.path.join('.')],
  )
}

test('the table has every method of the agent API', () => {
  expect(Object.keys(AGENT_METHODS)).toEqual([
    'todos.claim',
    'todos.heartbeat',
    'todos.progress',
    'todos.say',
    'todos.artifact',
    'todos.discardArtifacts',
    'todos.interrupt',
    'todos.messages',
    'todos.acknowledge',
    'todos.complete',
    'todos.fail',
    'todos.release',
    'todos.reject',
    'todos.cancel',
    'todos.withdraw',
    'todos.spend',
    'todos.fork',
    'todos.join',
    'todos.get',
    'todos.documents',
    'todos.child',
    'todos.list',
  ])
})

const least: [string, object, object][] = [
  ['todos.claim', {}, { limit: 1, waitMs: 0 }],
  ['todos.heartbeat', held, held],
  ['todos.progress', held, held],
  ['todos.artifact', { ...held, artifact }, { append: false, lastChunk: false }],
  ['todos.interrupt', { ...held, state: 'auth-required', message }, { hold: true }],
  ['todos.messages', held, { after: 0, waitMs: 0 }],
  ['todos.acknowledge', { ...held, through: 0 }, { through: 0 }],
  ['todos.complete', held, held],
  ['todos.fail', { ...held, error: { code: 'e', message: '' } }, { retryable: true }],
  ['todos.release', held, held],
  ['todos.reject', held, held],
  ['todos.get', { id: 'todo-1' }, { id: 'todo-1' }],
  ['todos.list', {}, { pageSize: 50 }],
]
test.each(least)('%s takes the least it needs, and fills in the rest', (method, params, output) => {
  expect(AGENT_METHODS[method]!.params.parse(params)).toMatchObject(output)
})

test('where every member may be left out, the params may be, too', () => {
  expect(AGENT_METHODS['todos.claim']!.params.parse(undefined)).toEqual({ limit: 1, waitMs: 0 })
  expect(AGENT_METHODS['todos.list']!.params.parse(undefined)).toEqual({ pageSize: 50 })
})

test.each(Object.entries(AGENT_METHODS))('%s refuses a member it does not know', (_name, row) => {
  expect(faults(row.params, { leaseSecs: 1 })).toContain('leaseSecs')
})

test.each<[string, z.ZodType, object, string[]]>([
  ['a claim of none', schema.claim, { limit: 0 }, ['limit']],
  ['a claim of too many', schema.claim, { limit: 101 }, ['limit']],
  ['a wait beyond a minute', schema.claim, { waitMs: 60_001 }, ['waitMs']],
  ['a lease of nothing', schema.claim, { leaseSeconds: 0 }, ['leaseSeconds']],
  ['a lease beyond a day', schema.claim, { leaseSeconds: 86_401 }, ['leaseSeconds']],
  ['a lease that is no whole number', schema.claim, { leaseSeconds: 1.5 }, ['leaseSeconds']],
  ['a lease in text', schema.claim, { leaseSeconds: '60' }, ['leaseSeconds']],
  ['no queue at all', schema.claim, { queues: [] }, ['queues']],
  ['a fence that is a number', schema.heartbeat, { ...held, fence: 7 }, ['fence']],
  ['a fence that is none', schema.heartbeat, { ...held, fence: '-1' }, ['fence']],
  ['a fence no column holds', schema.heartbeat, { ...held, fence: '9'.repeat(19) }, ['fence']],
  ['more than all', schema.progress, { ...held, percent: 101 }, ['percent']],
  ['an unknown interrupt', schema.interrupt, { ...held, state: 'claimed', message }, ['state']],
  ['a seq no column holds', schema.acknowledge, { ...held, through: 2 ** 31 }, ['through']],
  ['an error without a code', schema.fail, { ...held, error: { message: '' } }, ['error.code']],
  ['a result that is a list', schema.complete, { ...held, result: [] }, ['result']],
  ['a hold of nothing', schema.heartbeat, { ...held, holdSeconds: 0 }, ['holdSeconds']],
])('%s is refused by name', (_name, read, params, places) => {
  expect(faults(read, params)).toEqual(places)
})

test('an agent’s message gets an id and its role where it brought none', () => {
  const { message: read } = schema.say.parse({ ...held, message })
  expect(read).toEqual({
    messageId: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4/),
    role: 'ROLE_AGENT',
    parts: [{ text: 'hello' }],
  })
  expect(schema.say.parse({ ...held, message }).message.messageId).not.toBe(read.messageId)
  expect(
    schema.say.parse({ ...held, message: { ...message, messageId: 'm1' } }).message.messageId,
  ).toBe('m1')
})

const said = (given: object) => faults(schema.say, { ...held, message: { ...message, ...given } })

test.each<[string, object, string[]]>([
  ['of a user', { role: 'ROLE_USER' }, ['message.role']],
  ['with an empty id', { messageId: '' }, ['message.messageId']],
  ['with a context that is no text', { contextId: 5 }, ['message.contextId']],
  ['with a task that is no text', { taskId: null }, ['message.taskId']],
  ['without parts', { parts: [] }, ['message.parts']],
  ['with a member of 0.3', { kind: 'message' }, ['message.kind']],
  ['with an empty part', { parts: [{}] }, ['message.parts.0']],
  ['with two contents in one part', { parts: [{ text: '', data: 1 }] }, ['message.parts.0']],
  ['with bytes that are no base64', { parts: [{ raw: 'ä' }] }, ['message.parts.0.raw']],
  ['with a part of 0.3', { parts: [{ text: 'a', kind: 'text' }] }, ['message.parts.0.kind']],
])('a message %s is refused by name', (_name, given, places) => {
  expect(said(given)).toEqual(places)
})

test('a content is there when it is present, be it empty', () => {
  for (const part of [{ text: '' }, { data: null }, { data: false }, { data: 0 }, { raw: '' }]) {
    expect(said({ parts: [part] })).toEqual([])
  }
})

test('an artifact needs an id and a part', () => {
  const read = (given: object) =>
    faults(schema.addArtifact, { ...held, artifact: { ...artifact, ...given } })
  expect(read({ name: 'Report', description: '', metadata: { a: 1 }, extensions: [] })).toEqual([])
  expect(read({ artifactId: '' })).toEqual(['artifact.artifactId'])
  expect(read({ parts: [] })).toEqual(['artifact.parts'])
  expect(read({ nmae: 'Report' })).toEqual(['artifact.nmae'])
})
