import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Queue, QueueCard } from '../../src/domain/queue.ts'
import { agentCard, extendedCard } from '../../src/protocol/a2a/card.ts'
import { OWN_EXTENSIONS } from '../../src/protocol/a2a/extensions.ts'
import { acceptSend, acceptStream } from '../../src/protocol/v1/accept.ts'
import { REQUESTS } from '../../src/protocol/v1/schema.ts'
import { queue } from './v1/build.ts'

const WHERE = 'https://work.example/sub/'
const BASE = 'https://work.example/sub/a2a/demo'

describe('the agent card', () => {
  test('says what the operator wrote and what only the server knows', () => {
    expect(agentCard(queue(), WHERE)).toEqual({
      name: 'Demo',
      description: 'Does what it is told.',
      version: '1.2.3',
      supportedInterfaces: [
        { url: `${BASE}/`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
        { url: BASE, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
        { url: `${BASE}/`, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
        { url: BASE, protocolBinding: 'HTTP+JSON', protocolVersion: '0.3' },
      ],
      capabilities: {
        streaming: true,
        pushNotifications: true,
        extendedAgentCard: false,
        extensions: OWN_EXTENSIONS,
      },
      securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
      securityRequirements: [{ schemes: { bearer: { list: ['send'] } } }],
      defaultInputModes: ['text/plain', 'application/json'],
      defaultOutputModes: ['text/plain', 'application/json'],
      skills: [{ id: 'do', name: 'Do', description: 'Does it.', tags: ['work'] }],
    })
  })

  test('declares what the operator switched off or on', () => {
    const capabilities = { streaming: false, pushNotifications: false, extendedAgentCard: true }
    expect(agentCard(queue({ capabilities }), WHERE).capabilities).toMatchObject(capabilities)
  })

  test("has the operator's extensions behind the server's own, which may be required", () => {
    const [ours] = OWN_EXTENSIONS
    const extensions = [
      { uri: 'https://a.example/x', description: '', required: false, params: {} },
      { uri: 'urn:b', required: true, params: { n: 1 } },
      { uri: ours!.uri, required: true },
    ]
    const card = agentCard(queue({ capabilities: { extensions } }), WHERE)
    expect(card.capabilities.extensions).toEqual([
      { ...ours, required: true },
      ...OWN_EXTENSIONS.slice(1),
      { uri: 'https://a.example/x' },
      { uri: 'urn:b', required: true, params: { n: 1 } },
    ])
  })

  test('of an agent that lists no skill shows what it is for', () => {
    const only = [
      { id: 'demo', name: 'Demo', description: 'Does what it is told.', tags: ['demo'] },
    ]
    expect(agentCard(queue({ skills: [] }), WHERE).skills).toEqual(only)
  })

  test('keeps its extension to itself', () => {
    const text = JSON.stringify(agentCard(queue({ extended: { name: 'secret' } }), WHERE))
    expect(text).not.toContain('secret')
  })

  test('is extended member by member, but never in how it is reached', () => {
    const skills = [{ id: 's', name: 'S', description: 'D', tags: ['t'] }]
    const extended = { name: 'More', supportedInterfaces: [], capabilities: {}, skills }
    const demo = queue({ capabilities: { extendedAgentCard: true }, extended })
    const card = agentCard(demo, WHERE)
    expect(extendedCard(demo, card)).toEqual({ ...card, name: 'More', skills })
  })

  test('has no extension that it does not declare, or that is not there', () => {
    const card = agentCard(queue(), WHERE)
    expect(() => extendedCard(queue({ extended: {} }), card)).toThrow(
      expect.objectContaining({ kind: 'unsupported' }),
    )
    expect(() => extendedCard(queue({ capabilities: { extendedAgentCard: true } }), card)).toThrow(
      expect.objectContaining({ kind: 'no_extended_card' }),
    )
  })
})

/** Members that hold nothing, by path. */
const empties = (value: unknown, path = ''): string[] => {
  if (value === '' || value === null || value === undefined) return [path]
  if (typeof value !== 'object') return []
  const members = Object.entries(value)
  return members.length === 0
    ? [path]
    : members.flatMap(([key, member]) => empties(member, `${path}.${key}`))
}

test('whatever was stored, a card is whole and nothing in it is empty', () => {
  const members = fc.dictionary(
    fc.constantFrom(
      ...['name', 'description', 'version', 'provider', 'documentationUrl', 'iconUrl'],
      ...['defaultInputModes', 'defaultOutputModes', 'skills', 'invented'],
    ),
    fc.oneof(
      fc.jsonValue(),
      fc.array(
        fc.record(
          { id: fc.jsonValue(), name: fc.string(), tags: fc.array(fc.string()) },
          { requiredKeys: [] },
        ),
      ),
    ),
  )
  fc.assert(
    fc.property(members, members, (card, extended) => {
      const stored = { capabilities: { extendedAgentCard: true }, ...card, extended }
      const odd: Queue = { ...queue(), card: stored as unknown as QueueCard }
      const shown = agentCard(odd, WHERE)
      expect(empties(shown)).toEqual([])
      expect(empties(extendedCard(odd, shown))).toEqual([])
      expect(shown.skills.length).toBeGreaterThan(0)
    }),
  )
})

describe('what a card leaves out is refused:', () => {
  const send = (part: object, rest: object = {}) =>
    REQUESTS.SendMessageRequest.parse({
      message: { messageId: 'm', role: 'ROLE_USER', parts: [part] },
      ...rest,
    })
  const kindOf = (run: () => void): string | null => {
    try {
      run()
      return null
    } catch (error) {
      return (error as { kind: string }).kind
    }
  }

  test('streams', () => {
    expect(kindOf(() => acceptStream(queue()))).toBeNull()
    expect(kindOf(() => acceptStream(queue({ capabilities: { streaming: false } })))).toBe(
      'unsupported',
    )
  })

  test.each([
    [undefined, 'application/x-odd', null],
    [['text/plain'], undefined, null],
    [['text/plain'], 'Text/Plain; charset=utf-8', null],
    [['text/plain'], 'application/x-odd', 'content_type'],
    [['image/*'], 'image/png', null],
    [['image/*'], 'images/png', 'content_type'],
    [['*/*'], 'image/png', null],
    [[], 'application/x-odd', null],
    [['text/plain'], 'application/pdf', null],
  ])('with the modes %j a part of %s is %s', (modes, mediaType, kind) => {
    const skills = mediaType === 'application/pdf' ? [{ inputModes: ['application/pdf'] }] : []
    const demo = queue({ ...(modes && { defaultInputModes: modes }), skills })
    expect(kindOf(() => acceptSend(demo, send({ text: 'x', mediaType })))).toBe(kind)
  })

  test('push configs inside a send', () => {
    const configuration = { taskPushNotificationConfig: { url: 'https://example.com' } }
    const sent = send({ text: 'x' }, { configuration })
    expect(kindOf(() => acceptSend(queue(), sent))).toBe(null)
    const off = queue({ capabilities: { pushNotifications: false } })
    expect(kindOf(() => acceptSend(off, sent))).toBe('push_unsupported')
  })
})
