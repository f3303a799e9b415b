/**
 * Our schemas and our answers against the official data model of A2A 1.0. The fixture holds the
 * facts of its proto (see test/support/clients/proto.ts); with A2A_PROTO naming that file, the fixture
 * itself is checked too.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { agentCard, extendedCard } from '../../../src/protocol/a2a/card.ts'
import { PROJECTION, ROLES, TASK_STATES } from '../../../src/protocol/json/enums.ts'
import { createV1Methods } from '../../../src/protocol/v1/methods.ts'
import { NESTED, REQUESTS } from '../../../src/protocol/v1/schema.ts'
import { fromEvent, fromPage, fromSent, fromTodo } from '../../../src/protocol/v1/translate.ts'
import { type ProtoFacts, type ProtoField, readProto } from '../../support/clients/proto.ts'
import { event, queue, said, view } from './build.ts'

const FIXTURE = new URL('../../fixtures/a2a-1.0.json', import.meta.url)
const facts: ProtoFacts = JSON.parse(readFileSync(FIXTURE, 'utf8'))

test.runIf(process.env.A2A_PROTO)('the fixture holds the facts of the proto', () => {
  expect(facts).toEqual(readProto(readFileSync(process.env.A2A_PROTO ?? '', 'utf8')))
})

test('every method of the service is served, and no other', () => {
  const table = createV1Methods({ publicUrl: () => 'http://x' })
  expect(Object.keys(table).sort()).toEqual(Object.keys(facts.methods).sort())
  for (const [name, method] of Object.entries(facts.methods)) {
    const row = table[name as keyof typeof table]
    expect([name, row.kind]).toEqual([name, method.streams ? 'stream' : 'unary'])
    expect(row.params).toBe(REQUESTS[method.request as keyof typeof REQUESTS])
  }
})

test('enums have the official values, in order', () => {
  expect(TASK_STATES).toEqual(facts.enums.TaskState)
  expect(ROLES).toEqual(facts.enums.Role)
  for (const state of Object.values(PROJECTION)) expect(facts.enums.TaskState).toContain(state)
})

/* ------------------------------------------------------------ what we read */

type Def = { type: string; out?: z.ZodType; innerType?: z.ZodType }

const shapeOf = (schema: z.ZodType): Record<string, z.ZodType> => {
  const { type, out, innerType } = schema.def as Def
  if (type === 'object') return (schema as z.ZodObject).shape as Record<string, z.ZodType>
  return shapeOf(out ?? innerType!)
}

const isOptional = (schema: z.ZodType): boolean => schema._zod.optout === 'optional'

const inline = shapeOf(shapeOf(NESTED.SendMessageConfiguration).taskPushNotificationConfig!)

describe('a schema has the fields that the proto has, and requires the ones it requires:', () => {
  const all = Object.entries({ ...REQUESTS, ...NESTED })
  test.each(all)('%s', (name, schema) => {
    const shape = shapeOf(schema)
    const official = facts.messages[name]!
    expect(Object.keys(shape).sort()).toEqual(Object.keys(official).sort())
    for (const [field, { required }] of Object.entries(official)) {
      // The URL of the method says which task it is about; the message alone cannot.
      const asked = required || (name === 'TaskPushNotificationConfig' && field === 'taskId')
      const optional = isOptional(shape[field]!)
      expect([field, optional]).toEqual([field, !asked])
    }
  })

  test('the push config inside SendMessage, where the task is not known yet', () => {
    const official = facts.messages.TaskPushNotificationConfig!
    expect(Object.keys(inline).sort()).toEqual(Object.keys(official).sort())
    expect(isOptional(inline.taskId!)).toBe(true)
    expect(isOptional(inline.url!)).toBe(false)
  })
})

test('a part takes exactly one member of the oneof', () => {
  const members = Object.entries(facts.messages.Part!)
    .filter(([, { oneof }]) => oneof === 'content')
    .map(([name]) => name)
  const sample: Record<string, unknown> = { text: '', raw: '', url: 'http://x', data: null }
  expect(members.sort()).toEqual(Object.keys(sample).sort())
  for (const one of members) {
    expect(NESTED.Part.safeParse({ [one]: sample[one] }).success).toBe(true)
    for (const other of members.filter((name) => name !== one)) {
      const both = { [one]: sample[one], [other]: sample[other] }
      expect(NESTED.Part.safeParse(both).success).toBe(false)
    }
  }
})

/* ----------------------------------------------------------- what we write */

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null

const SCALARS: Record<string, (value: unknown) => boolean> = {
  string: (value) => typeof value === 'string',
  bytes: (value) => typeof value === 'string' && /^(?:[\w+/]{4})*(?:[\w+/]{2,3}=*)?$/.test(value),
  bool: (value) => typeof value === 'boolean',
  int32: Number.isInteger,
  Struct: (value) => isObject(value) && !Array.isArray(value),
  Value: (value) => value !== undefined,
  Timestamp: (value) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(String(value)),
}

const checkValue = (type: string, value: unknown, path: string): string[] => {
  const map = /^map<string, (\w+)>$/.exec(type)?.[1]
  if (map) {
    return Object.entries(value as object).flatMap(([key, item]) =>
      checkValue(map, item, `${path}.${key}`),
    )
  }
  if (facts.messages[type]) return checkMessage(type, value, path)
  const fits = facts.enums[type]
    ? facts.enums[type].slice(1).includes(value as string)
    : SCALARS[type]?.(value)
  return fits ? [] : [`${path} is no ${type}`]
}

const checkField = (field: ProtoField, value: unknown, path: string): string[] => {
  if (!field.repeated) return checkValue(field.type, value, path)
  if (!Array.isArray(value)) return [`${path} is no list`]
  return value.flatMap((item, index) => checkValue(field.type, item, `${path}[${index}]`))
}

/** What is wrong with a JSON value as this message; nothing when it is one. */
const checkMessage = (name: string, value: unknown, path = name): string[] => {
  if (!isObject(value) || Array.isArray(value)) return [`${path} is no ${name}`]
  const fields = facts.messages[name]!
  const given = value as Record<string, unknown>
  const unions = new Set(Object.values(fields).flatMap(({ oneof }) => oneof ?? []))
  const chosen = (union: string) =>
    Object.entries(fields).filter(([field, { oneof }]) => oneof === union && field in given)
  return [
    ...Object.keys(given).flatMap((key) =>
      fields[key] ? checkField(fields[key], given[key], `${path}.${key}`) : [`${path}.${key}?`],
    ),
    ...Object.entries(fields).flatMap(([field, { required }]) =>
      required && !(field in given) ? [`${path}.${field} is missing`] : [],
    ),
    ...[...unions].flatMap((union) =>
      chosen(union).length === 1 ? [] : [`${path} has ${chosen(union).length} of ${union}`],
    ),
  ]
}

const artifact = {
  artifactId: 'a',
  name: 'A',
  description: 'all of it',
  parts: [{ text: 't', mediaType: 'text/plain', metadata: {} }, { raw: 'aGk=' }, { data: [1] }],
  metadata: { x: 1 },
  extensions: ['urn:x'],
}
const full = view(
  { state: 'done', seq: 3, statusSeq: 3 },
  [
    { ...said('ROLE_USER', 'u'), referenceTaskIds: ['t-1'], extensions: ['urn:x'], metadata: {} },
    said('ROLE_AGENT', 'a'),
  ],
  { at: [1, 3], artifacts: [artifact], metadata: { k: 'v' } },
)
const card = agentCard(
  queue({
    provider: { organization: 'O', url: 'http://o' },
    documentationUrl: 'http://d',
    iconUrl: 'http://i',
    capabilities: {
      extendedAgentCard: true,
      extensions: [{ uri: 'urn:x', required: true, params: { n: 1 } }],
    },
    extended: {
      name: 'More',
      supportedInterfaces: [],
      hidden: true,
      skills: [{ id: 's', name: 'S', description: 'D' }],
    },
    ...({ invented: true } as object),
  }),
  'http://localhost:4100',
)
const page = { todos: [full, view()], nextPageToken: '', pageSize: 50, totalSize: 2 }

test.each<[string, string, unknown]>([
  ['a fresh task', 'Task', fromTodo(view())],
  ['a full task', 'Task', fromTodo(full)],
  ['the answer to a send', 'SendMessageResponse', fromSent(full)],
  ['a bare message', 'SendMessageResponse', fromSent({ ...full, direct: true })],
  ['a page', 'ListTasksResponse', fromPage(page, {})],
  ['a page with artifacts', 'ListTasksResponse', fromPage(page, { includeArtifacts: true })],
  ['a first frame', 'StreamResponse', { task: fromTodo(full) }],
  ['a status frame', 'StreamResponse', fromEvent(event({ message: said('ROLE_AGENT', 'x') }))],
  [
    'an artifact frame',
    'StreamResponse',
    fromEvent(event({ verb: 'artifact', artifact: { artifact, append: true, lastChunk: true } })),
  ],
  ['a card', 'AgentCard', card],
  [
    'an extended card',
    'AgentCard',
    extendedCard(
      queue({ capabilities: { extendedAgentCard: true }, extended: { name: 'More', hidden: 1 } }),
      card,
    ),
  ],
])('%s is the official %s, no member more', (_, name, body) => {
  expect(checkMessage(name, JSON.parse(JSON.stringify(body)))).toEqual([])
})

test('the check itself sees what is wrong', () => {
  expect(checkMessage('Task', { id: 5, status: { state: 'working' }, kind: 'task' })).toEqual([
    'Task.id is no string',
    'Task.status.state is no TaskState',
    'Task.kind?',
  ])
  expect(checkMessage('StreamResponse', {})).toEqual(['StreamResponse has 0 of payload'])
  expect(checkMessage('TaskStatus', {})).toEqual(['TaskStatus.state is missing'])
})
