/** Signed cards as others check them: with jose by hand, and with the protocol's own SDK. */
import { readFileSync } from 'node:fs'
import {
  canonicalizeAgentCard,
  type AgentCard as SdkCard,
  verifyAgentCardSignature,
} from '@a2a-js/sdk'
import fc from 'fast-check'
import { createLocalJWKSet, decodeProtectedHeader, flattenedVerify } from 'jose'
import { describe, expect, test } from 'vitest'
import { canonicalJson } from '../../src/base/canonical-json.ts'
import { readCardKeys } from '../../src/config/card-keys.ts'
import type { JsonObject } from '../../src/domain/todo.ts'
import { type AgentCard, agentCard, extendedCard } from '../../src/protocol/a2a/card.ts'
import { createCardSigner } from '../../src/protocol/a2a/card-signature.ts'
import { newJwk } from '../support/clients/jwk.ts'
import type { ProtoFacts, ProtoField } from '../support/clients/proto.ts'
import { queue } from './v1/build.ts'

const FIXTURE = new URL('../fixtures/a2a-1.0.json', import.meta.url)
const facts: ProtoFacts = JSON.parse(readFileSync(FIXTURE, 'utf8'))

const WHERE = 'https://work.example'

const signerOf = (...jwks: object[]) => {
  const { keys, problems } = readCardKeys(JSON.stringify({ keys: jwks }))
  expect(problems).toEqual([])
  return createCardSigner(keys)
}
const old = newJwk('ES256', 'old')
const next = newJwk('EdDSA', 'next')
const signer = signerOf(old, next)

const extensions = [
  { uri: 'urn:x', required: true, params: { '10': 'ten', '9': [1.5e300], b: { '1': true } } },
]
const card = agentCard(
  queue({ capabilities: { extensions }, description: 'Tût 漢 😀 "\\\u2028' }),
  WHERE,
)

/** The payload is what anyone can make of the card that was received. */
const verify = async (received: AgentCard, index: number, jwks: object) => {
  const { signatures = [], ...rest } = received
  const payload = Buffer.from(canonicalJson(rest)).toString('base64url')
  const keys = createLocalJWKSet(jwks as Parameters<typeof createLocalJWKSet>[0])
  return flattenedVerify({ ...signatures[index]!, payload }, keys)
}

/**
 * The SDK's functions read JSON as it was fetched. Given what its own client makes of that, 1.3.0
 * loses the security schemes, and then finds no card signed that has some.
 */
const asFetched = (one: AgentCard): SdkCard => one as unknown as SdkCard

const received = async (): Promise<AgentCard> =>
  JSON.parse(JSON.stringify(await signer.sign(card, WHERE)))

test('every key signs, and every signature says how and where to check it', async () => {
  const { signatures } = await received()
  expect(signatures!.map((one) => decodeProtectedHeader(one))).toEqual([
    { alg: 'ES256', kid: 'old', typ: 'JOSE', jku: `${WHERE}/.well-known/jwks.json` },
    { alg: 'EdDSA', kid: 'next', typ: 'JOSE', jku: `${WHERE}/.well-known/jwks.json` },
  ])
})

test('what is published is the public halves, and they check the signatures', async () => {
  expect(Object.keys(signer.jwks.keys[0]!).sort()).toEqual(
    ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'].sort(),
  )
  const signed = await received()
  for (const index of [0, 1]) {
    const { protectedHeader } = await verify(signed, index, signer.jwks)
    expect(protectedHeader!.kid).toBe(['old', 'next'][index])
  }
})

test('who knows one key only can check, while keys are exchanged', async () => {
  for (const jwk of [old, next]) {
    const known = signerOf(jwk).jwks.keys[0]!
    const check = verifyAgentCardSignature(async (kid) => {
      if (kid !== known.kid) throw new Error(`unknown key ${kid}`)
      return known
    })
    await check(asFetched(await received()))
  }
})

describe('a card that was changed is not signed any more:', () => {
  const changes: [string, (card: AgentCard) => object][] = [
    ['its name', (one) => ({ ...one, name: 'Other' })],
    [
      'an address',
      (one) => ({
        ...one,
        supportedInterfaces: one.supportedInterfaces.map((entry) => ({
          ...entry,
          url: 'https://evil.example/',
        })),
      }),
    ],
    ['its security', ({ securityRequirements: _, ...one }) => one],
    [
      'the order of its interfaces',
      (one) => ({ ...one, supportedInterfaces: one.supportedInterfaces.toReversed() }),
    ],
    ['a member more', (one) => ({ ...one, iconUrl: 'https://evil.example/' })],
  ]
  test.each(changes)('%s', async (_name, change) => {
    const changed = change(await received()) as AgentCard
    for (const index of [0, 1]) {
      await expect(verify(changed, index, signer.jwks)).rejects.toThrow(/verification failed/)
    }
    const check = verifyAgentCardSignature(
      async (kid) => signer.jwks.keys.find((key) => key.kid === kid)!,
    )
    await expect(check(asFetched(changed))).rejects.toThrow()
  })

  test('the key is another one of the same name', async () => {
    const { jwks } = signerOf(newJwk('ES256', 'old'))
    await expect(verify(await received(), 0, jwks)).rejects.toThrow(/verification failed/)
  })
})

test('the SDK makes the same payload of any card, so the two cannot disagree', () => {
  const line = fc.string({ unit: 'grapheme', maxLength: 20 })
  const lines = fc.array(line, { maxLength: 3 })
  const member = fc.record(
    {
      name: line,
      description: line,
      version: line,
      documentationUrl: line,
      defaultInputModes: lines,
      skills: fc.array(fc.record({ id: line, name: line, tags: lines }, { requiredKeys: [] }), {
        maxLength: 3,
      }),
    },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(member, member, (stored, extended) => {
      const odd = queue({
        ...(stored as object),
        capabilities: { extensions, extendedAgentCard: true },
        extended: extended as JsonObject,
      })
      const open = agentCard(odd, WHERE)
      for (const shown of [open, extendedCard(odd, open)]) {
        expect(canonicalizeAgentCard(asFetched(shown))).toBe(canonicalJson(shown))
      }
    }),
  )
})

const isDefault = (value: unknown): boolean =>
  ['""', '0', 'false', '[]', '{}'].includes(JSON.stringify(value))

/**
 * A card as the specification has it signed (8.4.1): without `signatures`, and without members
 * that hold their default, but for required ones and optional ones that were set.
 */
const asSigned = (value: unknown, type: string): unknown => {
  const map = /^map<string, (\w+)>$/.exec(type)?.[1]
  const fields = facts.messages[type]
  if (!map && !fields) return value
  const signed = ([name, member]: [string, unknown]): [string, unknown][] => {
    const field: ProtoField | undefined = map ? { type: map, required: true } : fields?.[name]
    if (!field) throw new Error(`${type} has no ${name}`)
    const { required, optional, oneof, repeated } = field
    if (isDefault(member) && !required && !optional && !oneof) return []
    const items = repeated ? (member as unknown[]) : [member]
    const shown = items.map((item) => asSigned(item, field.type))
    return [[name, repeated ? shown : shown[0]]]
  }
  return Object.fromEntries(Object.entries(value as object).flatMap(signed))
}

test('what the specification wants to be signed is what is signed: defaults out, what was set in', async () => {
  const switches = { streaming: false, pushNotifications: false, extendedAgentCard: true }
  const full = queue({
    capabilities: { ...switches, extensions },
    skills: [{ id: 's', name: 'S', description: 'D', tags: ['t'], examples: [], inputModes: [] }],
    provider: { organization: 'O', url: 'https://o.example' },
    extended: { name: 'More' },
  })
  const open = agentCard(full, WHERE)
  for (const one of [agentCard(queue({}), WHERE), open, extendedCard(full, open)]) {
    const served: AgentCard = JSON.parse(JSON.stringify(await signer.sign(one, WHERE)))
    const { signatures = [], ...rest } = served
    const text = canonicalJson(asSigned(rest, 'AgentCard'))
    const payload = Buffer.from(text).toString('base64url')
    const keys = createLocalJWKSet(signer.jwks as Parameters<typeof createLocalJWKSet>[0])
    for (const signature of signatures) await flattenedVerify({ ...signature, payload }, keys)
    expect(signatures).toHaveLength(2)
  }
  expect(open.capabilities).toMatchObject(switches)
})

test('a card is signed once, and anew where it or its address changed', async () => {
  const signs = (one: AgentCard, where = WHERE) =>
    signer.sign(one, where).then(({ signatures }) => signatures![0]!.signature)
  expect(await signs(card)).toBe(await signs({ ...card }))
  expect(await signs({ ...card, name: 'Other' })).not.toBe(await signs(card))
  expect(await signs(card, 'https://elsewhere.example')).not.toBe(await signs(card))
})

test('without keys a card stays as it is, and nothing is published', async () => {
  const none = createCardSigner([])
  expect(await none.sign(card, WHERE)).toBe(card)
  expect(none.jwks).toEqual({ keys: [] })
})
