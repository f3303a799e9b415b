/**
 * What we read and what we answer against the official JSON Schema of A2A 0.3. The fixture holds
 * its definitions (see test/support/clients/schema03.ts); with A2A_SCHEMA_03 naming the official file, the
 * fixture itself is checked too.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { agentCard, extendedCard } from '../../../src/protocol/a2a/card.ts'
import { toV03Card } from '../../../src/protocol/a2a/card-forms.ts'
import { createV1Methods } from '../../../src/protocol/v1/methods.ts'
import * as v1 from '../../../src/protocol/v1/translate.ts'
import { v03Error } from '../../../src/protocol/v03/errors.ts'
import { createV03Methods } from '../../../src/protocol/v03/methods.ts'
import { NESTED, PARAMS } from '../../../src/protocol/v03/schema.ts'
import {
  fromPushConfig,
  fromSent,
  fromStreamed,
  fromTask,
  STATES,
} from '../../../src/protocol/v03/translate.ts'
import { checker, type Definitions, readSchema } from '../../support/clients/schema03.ts'
import { event, queue, said, view } from '../v1/build.ts'

const FIXTURE = new URL('../../fixtures/a2a-0.3.json', import.meta.url)
const definitions: Definitions = JSON.parse(readFileSync(FIXTURE, 'utf8'))
const check = checker(definitions)

const OFFICIAL = process.env.A2A_SCHEMA_03
test.runIf(OFFICIAL)('the fixture holds the definitions of the schema', () => {
  expect(definitions).toEqual(readSchema(readFileSync(OFFICIAL ?? '', 'utf8')))
})

const rows = createV1Methods({ publicUrl: () => 'http://x' })
const table = createV03Methods(rows)

interface Request {
  properties: { method: { const: string }; params?: { $ref?: string } }
}
const requests = (definitions.A2ARequest as { anyOf: { $ref: string }[] }).anyOf.map(
  ({ $ref }) => definitions[$ref.split('/').at(-1)!] as unknown as Request,
)

test('every method of the schema is served, and no other but the card under its old name', () => {
  const official = requests.map(({ properties }) => properties.method.const)
  expect(Object.keys(table).sort()).toEqual([...official, 'agent/authenticatedExtendedCard'].sort())
  for (const { properties } of requests) {
    const name = properties.params?.$ref?.split('/').at(-1)
    const row = table[properties.method.const as keyof typeof table]
    if (name) expect(row.params).toBe(PARAMS[name as keyof typeof PARAMS])
  }
  const streams = Object.entries(table).flatMap(([name, { kind }]) =>
    kind === 'stream' ? [name] : [],
  )
  expect(streams).toEqual(['message/stream', 'tasks/resubscribe'])
})

test('states have the official names, all but the one that says nothing', () => {
  const { enum: official } = definitions.TaskState as { enum: string[] }
  expect([...Object.values(STATES), 'unknown'].sort()).toEqual([...official].sort())
})

/* ------------------------------------------------------------ what we read */

type Def = { type: string; out?: z.ZodType; in?: z.ZodType; innerType?: z.ZodType }

const shapeOf = (schema: z.ZodType): Record<string, z.ZodType> => {
  const { type, out, innerType } = schema.def as Def
  if (type === 'object') return (schema as z.ZodObject).shape as Record<string, z.ZodType>
  return shapeOf(out ?? innerType!)
}

describe('a schema has the members that the official one has, and requires the same:', () => {
  const { Nothing: _, ...params } = PARAMS
  test.each(Object.entries({ ...params, ...NESTED }))('%s', (name, schema) => {
    const official = definitions[name] as { properties: object; required?: string[] }
    const shape = shapeOf(schema)
    expect(Object.keys(shape).sort()).toEqual(Object.keys(official.properties).sort())
    const required = Object.keys(shape).filter((key) => shape[key]!._zod.optout !== 'optional')
    // Its own examples leave the kind out.
    const asked = (official.required ?? []).filter((key) => key !== 'kind')
    expect(required.sort()).toEqual(asked.sort())
  })
})

/* ----------------------------------------------------------- what we write */

const artifact = {
  artifactId: 'a',
  name: 'A',
  description: 'all of it',
  parts: [
    { text: 't', mediaType: 'text/markdown', filename: 'a.md', metadata: {} },
    { raw: 'aGk=', filename: 'a.txt', mediaType: 'text/plain' },
    { url: 'https://f.example.org/a', metadata: { a: 1 } },
    { data: { n: 1 } },
    { data: [1] },
    { data: null },
  ],
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
const streamed = (of: Parameters<typeof event>[0]) => fromStreamed(v1.fromEvent(event(of))!)
const card = agentCard(
  queue({
    provider: { organization: 'O', url: 'http://o' },
    documentationUrl: 'http://d',
    iconUrl: 'http://i',
    capabilities: { extendedAgentCard: true },
  }),
  'http://localhost:4100',
)
const pushed = {
  id: 'c',
  taskId: 't-7',
  url: 'https://h',
  token: 't',
  authentication: { scheme: 'Bearer', credentials: 'x' },
}

test.each<[string, string, unknown]>([
  ['a fresh task', 'Task', fromTask(v1.fromTodo(view()))],
  ['a full task', 'Task', fromTask(v1.fromTodo(full))],
  ['a bare message', 'Message', fromSent(v1.fromSent({ ...full, direct: true }))],
  ['the answer to a send', 'Task', fromSent(v1.fromSent(full))],
  ['a first event', 'Task', fromStreamed({ task: v1.fromTodo(full) })],
  ['a status', 'TaskStatusUpdateEvent', streamed({ message: said('ROLE_AGENT', 'x') })],
  [
    'a chunk',
    'TaskArtifactUpdateEvent',
    streamed({ verb: 'artifact', artifact: { artifact, append: true, lastChunk: true } }),
  ],
  ['a push config', 'TaskPushNotificationConfig', fromPushConfig(pushed, 't-7')],
  ['a bare push config', 'TaskPushNotificationConfig', fromPushConfig({ url: 'https://h' }, 't')],
  ['a card', 'AgentCard', toV03Card(card)],
  [
    'an extended card',
    'AgentCard',
    toV03Card(
      extendedCard(
        queue({ capabilities: { extendedAgentCard: true }, extended: { name: 'More' } }),
        card,
      ),
    ),
  ],
  [
    'an error',
    'JSONRPCErrorResponse',
    { jsonrpc: '2.0', id: 1, error: v03Error({ kind: 'not_found' }).error },
  ],
])('%s is the official %s, no member more', (_, name, body) => {
  expect(check(name, body)).toEqual([])
})

test('the check itself sees what is wrong', () => {
  const [task] = [fromTask(v1.fromTodo(view()))]
  expect(check('Task', { ...task, contextId: undefined })).not.toEqual([])
  expect(check('Task', { ...task, extra: 1 })).not.toEqual([])
  expect(check('Task', { ...task, status: { state: 'TASK_STATE_WORKING' } })).not.toEqual([])
  expect(check('Message', { ...task })).not.toEqual([])
})
