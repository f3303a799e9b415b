import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { calculateJwkThumbprint, FlattenedSign, flattenedVerify, importJWK } from 'jose'
import { expect, onTestFinished, test } from 'vitest'
import { readCardKeys } from '../../src/config/card-keys.ts'
import { createCardSigner } from '../../src/protocol/a2a/card-signature.ts'
import { newJwk } from '../support/clients/jwk.ts'

const problemsOf = (document: unknown): string[] =>
  readCardKeys(typeof document === 'string' ? document : JSON.stringify(document)).problems

test.each(['ES256', 'ES384', 'ES512', 'EdDSA', 'PS256'] as const)(
  'a key for %s is read, and signs what its public half checks',
  async (alg) => {
    const { keys, problems } = readCardKeys(JSON.stringify(newJwk(alg, 'k')))
    expect(problems).toEqual([])
    const [key] = keys
    expect(key).toMatchObject({ kid: 'k', alg })
    const jws = await new FlattenedSign(Buffer.from('x'))
      .setProtectedHeader({ alg })
      .sign(await importJWK({ ...key!.jwk } as object, alg))
    const [known] = createCardSigner(keys).jwks.keys
    await flattenedVerify(jws, await importJWK(known as object, alg))
    expect(known).not.toHaveProperty('d')
  },
)

test('a key without name and algorithm gets its thumbprint and what fits it', async () => {
  for (const made of ['ES256', 'EdDSA', 'PS256'] as const) {
    const { alg: _, ...jwk } = newJwk(made)
    const [key] = readCardKeys(JSON.stringify(jwk)).keys
    expect(key!.kid).toBe(await calculateJwkThumbprint(jwk as object))
    expect(key!.alg).toBe(made === 'PS256' ? 'RS256' : made)
  }
})

test('keys may be in a file, alone or as a set, in their order', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'switchboard-keys-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 'keys.json')
  writeFileSync(file, JSON.stringify({ keys: [newJwk('ES256', 'a'), newJwk('EdDSA', 'b')] }))
  expect(readCardKeys(file).keys.map(({ kid }) => kid)).toEqual(['a', 'b'])
  writeFileSync(file, JSON.stringify(newJwk('ES256', 'c')))
  expect(readCardKeys(file).keys.map(({ kid }) => kid)).toEqual(['c'])
  expect(problemsOf(path.join(folder, 'none.json'))[0]).toContain('ENOENT')
  expect(problemsOf(folder)[0]).toContain('EISDIR')
})

const good = newJwk('ES256', 'k')
const { d: _d, ...open } = good

test.each<[string, unknown, RegExp]>([
  ['no JSON', '{"kty":', /^holds no JSON/],
  ['no list', { keys: 'x' }, /^must hold a JWK/],
  ['no keys', { keys: [] }, /^must hold 1 to 8 keys/],
  ['too many', { keys: Array(9).fill(good) }, /^must hold 1 to 8 keys/],
  ['a text as a key', { keys: ['x'] }, /^key 1 is no JSON object/],
  ['a public key', open, /^key 1 has no private part/],
  ['a shared secret', { kty: 'oct', k: 'c2VjcmV0' }, /^key 1 must be one of EC P-256/],
  ['a curve of its own', { ...good, crv: '__proto__' }, /^key 1 must be one of EC P-256/],
  ['a key for encryption', { ...good, use: 'enc' }, /^key 1 is not for signatures/],
  [
    'an algorithm of another kind',
    { ...good, alg: 'RS256' },
    /^key 1 must have an alg among ES256/,
  ],
  ['the algorithm none', { ...good, alg: 'none' }, /^key 1 must have an alg among ES256/],
  ['an odd name', { ...good, kid: 'a b' }, /^key 1 must have a kid/],
  ['two of one name', { keys: [good, newJwk('ES256', 'k')] }, /^key 2 has the kid of a key before/],
  ['a short key', newJwk('short'), /^key 1 must have at least 2048 bits/],
  ['letters that are no key', { ...good, d: '!' }, /^key 1 has members that are not base64url/],
  [
    'a key that is too short for its curve',
    { ...good, d: 'AA' },
    /^key 1 (has halves|cannot be read)/,
  ],
  ['an RSA key without its primes', { ...newJwk('PS256'), p: undefined }, /^key 1 cannot be read/],
  [
    'halves of two keys',
    { ...newJwk('EdDSA'), x: newJwk('EdDSA').x },
    /^key 1 (has halves|cannot be read)/,
  ],
  ['halves of two curves', { ...good, x: newJwk('ES256').x }, /^key 1 (has halves|cannot be read)/],
])('%s is refused in one line', (_name, document, line) => {
  const problems = problemsOf(document)
  expect(problems).toHaveLength(1)
  expect(problems[0]).toMatch(line)
})

test('every key at fault has a line, and no line shows a key', () => {
  const problems = problemsOf({ keys: [open, good, { ...good, use: 'enc' }] })
  expect(problems.map((line) => line.slice(0, 5))).toEqual(['key 1', 'key 3'])
  for (const part of [good.d, good.x, good.y]) expect(problems.join()).not.toContain(part)
  expect(problemsOf('{"d":"opensesame').join()).not.toContain('opensesame')
})
