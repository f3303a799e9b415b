import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import {
  extensionHeader,
  isDeclarable,
  negotiate,
  OWN_EXTENSIONS,
  requireExtensions,
} from '../../src/protocol/a2a/extensions.ts'
import type { QueueCall } from '../../src/protocol/wire/method.ts'
import { queue } from './v1/build.ts'

const [ours] = OWN_EXTENSIONS.map(({ uri }) => uri) as [string]
const declared = queue({
  capabilities: {
    extensions: [
      { uri: 'urn:a', required: true },
      { uri: 'urn:b', required: false },
      { uri: 'urn:c', required: true },
    ],
  },
})

describe('active is what was asked for and is declared:', () => {
  test.each<[string, (string | undefined)[], string[]]>([
    ['nothing', [undefined, undefined], []],
    ['an empty header', ['', undefined], []],
    ['one', ['urn:a', undefined], ['urn:a']],
    [
      'several, with odd spaces and commas',
      [' urn:a ,, urn:b,\turn:a', undefined],
      ['urn:a', 'urn:b'],
    ],
    ['both spellings of the header', ['urn:a', 'urn:c'], ['urn:a', 'urn:c']],
    ['one of our own', [undefined, ours], [ours]],
    ['one that is not known', ['urn:a/v2, urn:zzz', undefined], []],
    ['another version of one of ours', [ours.replace('/v1', '/v2'), undefined], []],
    ['other letters', ['URN:a', undefined], []],
    ['the name of a member of every object', ['constructor,__proto__', undefined], []],
  ])('%s', (_name, headers, active) => {
    expect([...negotiate(declared.card, headers)]).toEqual(active)
  })
})

describe('what the card requires', () => {
  const refusal = (...extensions: string[]): unknown => {
    try {
      requireExtensions({
        queue: declared,
        extensions: new Set(extensions),
      } as unknown as QueueCall)
      return null
    } catch (error) {
      return error
    }
  }

  test('is named where the client did not ask for it', () => {
    expect(refusal('urn:a', 'urn:c', 'urn:b')).toBeNull()
    expect(refusal('urn:b')).toMatchObject({
      kind: 'extension',
      metadata: { requiredExtensions: 'urn:a,urn:c' },
    })
    expect(refusal('urn:a')).toMatchObject({ metadata: { requiredExtensions: 'urn:c' } })
  })

  test('is nothing, where the operator required nothing', () => {
    const call = { queue: queue(), extensions: new Set() } as unknown as QueueCall
    expect(() => requireExtensions(call)).not.toThrow()
  })
})

test('the answer spells the header as its version does', () => {
  expect(extensionHeader('1.0')).toBe('A2A-Extensions')
  expect(extensionHeader('0.3')).toBe('X-A2A-Extensions')
})

test('in our own name only what we have can be declared', () => {
  expect(isDeclarable(ours)).toBe(true)
  expect(isDeclarable('https://a.example/x')).toBe(true)
  expect(isDeclarable('urn:switchboard:ext:telepathy/v1')).toBe(false)
})

test.each(OWN_EXTENSIONS.map(({ uri }) => uri))('%s has a document that names it', (uri) => {
  const name = /:ext:([a-z-]+)\/v\d+$/.exec(uri)?.[1]
  const file = new URL(`../../docs/extensions/${name}.md`, import.meta.url)
  expect(existsSync(file)).toBe(true)
  expect(readFileSync(file, 'utf8')).toContain(uri)
})
