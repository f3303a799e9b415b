/** The forms of a card against 0.3's official schema, and what each has of the other. */
import { readFileSync } from 'node:fs'
import { Ajv } from 'ajv'
import { describe, expect, test } from 'vitest'
import { type AgentCard, agentCard } from '../../src/protocol/a2a/card.ts'
import { FORMS, hybridCard, toV03Card } from '../../src/protocol/a2a/card-forms.ts'
import { SERVED_INTERFACES } from '../../src/protocol/a2a/interfaces.ts'
import { queue } from './v1/build.ts'

const FIXTURE = new URL('../fixtures/a2a-0.3-agent-card.json', import.meta.url)
const schema = JSON.parse(readFileSync(FIXTURE, 'utf8')) as {
  definitions: Record<string, { properties?: object; additionalProperties?: boolean }>
}

/** The official schema lets unknown members pass; the strict one does not. */
const strict = structuredClone(schema)
for (const definition of Object.values(strict.definitions)) {
  if (definition.properties) definition.additionalProperties = false
}
const faultsIn = (official: object, value: unknown): string[] => {
  const ajv = new Ajv({ allErrors: true, strict: false })
  const validate = ajv.compile(official)
  validate(value)
  return (validate.errors ?? []).map((error) => `${error.instancePath} ${error.message}`)
}

const BASE = 'https://work.example/a2a/demo'
const bare = agentCard(queue(), 'https://work.example')
const full = agentCard(
  queue({
    provider: { organization: 'O', url: 'https://o.example' },
    documentationUrl: 'https://d.example',
    iconUrl: 'https://i.example',
    capabilities: {
      streaming: false,
      extendedAgentCard: true,
      extensions: [{ uri: 'urn:x', description: 'X', required: true, params: { '10': [1] } }],
    },
    skills: [
      {
        id: 's',
        name: 'S',
        description: 'D',
        tags: ['t'],
        examples: ['e'],
        inputModes: ['text/plain'],
        outputModes: ['image/png'],
      },
    ],
  }),
  'https://work.example',
)
const cards: [string, AgentCard][] = [
  ['a bare card', bare],
  ['a full card', full],
]

describe('0.3', () => {
  test('has its own members', () => {
    expect(toV03Card(bare)).toEqual({
      protocolVersion: '0.3.0',
      name: 'Demo',
      description: 'Does what it is told.',
      version: '1.2.3',
      url: `${BASE}/`,
      preferredTransport: 'JSONRPC',
      additionalInterfaces: [
        { url: `${BASE}/`, transport: 'JSONRPC' },
        { url: BASE, transport: 'HTTP+JSON' },
      ],
      capabilities: {
        streaming: true,
        pushNotifications: bare.capabilities.pushNotifications,
        stateTransitionHistory: false,
        extensions: bare.capabilities.extensions,
      },
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      security: [{ bearer: [] }],
      defaultInputModes: ['text/plain', 'application/json'],
      defaultOutputModes: ['text/plain', 'application/json'],
      skills: [{ id: 'do', name: 'Do', description: 'Does it.', tags: ['work'] }],
      supportsAuthenticatedExtendedCard: false,
    })
  })

  test.each(cards)('of %s is the official one, no member more', (_name, card) => {
    expect(faultsIn(strict, toV03Card(card))).toEqual([])
  })

  test('has no URL of two transports, and names every scheme that it requires', () => {
    const card = toV03Card(full)
    const transports = new Map(card.additionalInterfaces.map((one) => [one.url, one.transport]))
    expect(transports.size).toBe(card.additionalInterfaces.length)
    expect(transports.get(card.url)).toBe(card.preferredTransport)
    for (const name of card.security.flatMap((one) => Object.keys(one))) {
      expect(Object.keys(card.securitySchemes)).toContain(name)
    }
  })

  test('leaves the signatures of another form out', () => {
    const signed = { ...bare, signatures: [{ protected: 'p', signature: 's' }] }
    expect(toV03Card(signed)).toEqual(toV03Card(bare))
  })
})

describe('hybrid', () => {
  test.each(cards)('of %s is an official 0.3 card with more', (_name, card) => {
    expect(faultsIn(schema, hybridCard(card))).toEqual([])
    expect(hybridCard(card)).toMatchObject(toV03Card(card))
  })

  test.each(cards)('of %s has all that the 1.0 card has', (_name, card) => {
    expect(hybridCard(card)).toMatchObject(card)
  })

  test('names the scheme for both, in one', () => {
    expect(hybridCard(bare).securitySchemes.bearer).toEqual({
      type: 'http',
      scheme: 'bearer',
      httpAuthSecurityScheme: { scheme: 'Bearer' },
    })
  })
})

test('the check itself sees what is wrong', () => {
  expect(faultsIn(strict, { ...toV03Card(bare), kind: 'card', url: 5 })).toHaveLength(2)
  expect(faultsIn(schema, bare)).not.toEqual([])
})

test('what is declared has 1.0 before 0.3 in every binding, and each pair once', () => {
  const pairs = SERVED_INTERFACES.map(({ version, binding }) => `${binding} ${version}`)
  expect(new Set(pairs).size).toBe(pairs.length)
  for (const binding of new Set(SERVED_INTERFACES.map((one) => one.binding))) {
    const [first] = SERVED_INTERFACES.filter((one) => one.binding === binding)
    expect(first?.version).toBe('1.0')
  }
})

test('the forms are of different bytes', () => {
  const texts = Object.values(FORMS).map((form) => JSON.stringify(form(bare)))
  expect(new Set(texts).size).toBe(3)
})
