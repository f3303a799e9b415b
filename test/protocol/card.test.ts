import { describe, expect, test } from 'vitest'
import { agentCard, etagOf, extendedCard, isKnown } from '../../src/protocol/card.ts'
import { acceptSend, acceptStream } from '../../src/protocol/v1/accept.ts'
import { REQUESTS } from '../../src/protocol/v1/schema.ts'
import { queue } from './v1/build.ts'

const where = { publicUrl: 'https://work.example/sub/', versions: ['1.0'] }

describe('the agent card', () => {
  test('says what the operator wrote and what only the server knows', () => {
    expect(agentCard(queue(), where)).toEqual({
      name: 'Demo',
      description: 'Does what it is told.',
      version: '1.2.3',
      supportedInterfaces: [
        {
          url: 'https://work.example/sub/a2a/demo/',
          protocolBinding: 'JSONRPC',
          protocolVersion: '1.0',
        },
      ],
      capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: false },
      securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
      securityRequirements: [{ schemes: { bearer: { list: [] } } }],
      defaultInputModes: ['text/plain', 'application/json'],
      defaultOutputModes: ['text/plain', 'application/json'],
      skills: [{ id: 'do', name: 'Do', description: 'Does it.', tags: ['work'] }],
    })
  })

  test('declares what the operator switched off or on', () => {
    const capabilities = { streaming: false, pushNotifications: false, extendedAgentCard: true }
    expect(agentCard(queue({ capabilities }), where).capabilities).toEqual(capabilities)
  })

  test('keeps its extension to itself', () => {
    const text = JSON.stringify(agentCard(queue({ extended: { name: 'secret' } }), where))
    expect(text).not.toContain('secret')
  })

  test('is extended member by member, but never in how it is reached', () => {
    const extended = { name: 'More', supportedInterfaces: [], capabilities: {}, skills: [] }
    const demo = queue({ capabilities: { extendedAgentCard: true }, extended })
    const card = agentCard(demo, where)
    expect(extendedCard(demo, card)).toEqual({ ...card, name: 'More', skills: [] })
  })

  test('has no extension that it does not declare, or that is not there', () => {
    expect(() => extendedCard(queue({ extended: {} }), {})).toThrow(
      expect.objectContaining({ kind: 'unsupported' }),
    )
    expect(() => extendedCard(queue({ capabilities: { extendedAgentCard: true } }), {})).toThrow(
      expect.objectContaining({ kind: 'no_extended_card' }),
    )
  })
})

describe('an entity tag', () => {
  test('follows the content', () => {
    expect(etagOf('a')).toBe(etagOf('a'))
    expect(etagOf('a')).not.toBe(etagOf('b'))
    expect(etagOf('a')).toMatch(/^"[\w-]{27}"$/)
  })

  test.each([
    [undefined, false],
    ['', false],
    ['"x"', true],
    ['W/"x"', true],
    ['"y", "x"', true],
    ['*', true],
    ['x', false],
  ])('"x" is known to If-None-Match %j: %s', (header, known) => {
    expect(isKnown(header, '"x"')).toBe(known)
  })
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
