// The keys that seal the secrets of webhooks, as they stand in the environment or in a file.
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { readSecretKeys } from '../../src/config/secret-keys.ts'
import { readConfig } from '../../src/config.ts'
import { makeFolder } from '../support/process/child.ts'

const [one, other] = [randomBytes(32), randomBytes(32)]
const keysOf = (value: string): string[] =>
  readSecretKeys(value).keys.map(({ key }) => key.toString('hex'))
const HEX = [one, other].map((key) => key.toString('hex'))

test.each([
  ['base64', `${one.toString('base64')},${other.toString('base64')}`],
  ['base64url', `${one.toString('base64url')} , ${other.toString('base64url')}\n`],
  ['hexadecimal digits', HEX.join(',').toUpperCase()],
  ['a line each', `${HEX[0]}\n${HEX[1]}\n`],
])('a list of keys is read: %s', (_form, value) => {
  expect(keysOf(value)).toEqual(HEX)
})

test('or the name of a file with them, and each key has an id that says nothing of it', () => {
  const file = path.join(makeFolder(), 'keys')
  fs.writeFileSync(file, `${HEX[0]}\n${other.toString('base64')}\n`)
  expect(keysOf(file)).toEqual(HEX)
  const ids = readConfig({ SWITCHBOARD_SECRET_KEYS: file }).secretKeys?.map(({ id }) => id)
  expect(ids).toEqual([
    expect.stringMatching(/^[0-9a-f]{8}$/),
    expect.stringMatching(/^[0-9a-f]{8}$/),
  ])
  for (const id of ids ?? []) expect(HEX.join()).not.toContain(id)
  expect(readSecretKeys(HEX[0]!).keys[0]?.id).toBe(ids?.[0])
})

test('a key of base64 that begins like a path is a key', () => {
  const key = Buffer.alloc(32, 0xff)
  expect(key.toString('base64')).toMatch(/^\//)
  expect(keysOf(key.toString('base64'))).toEqual([key.toString('hex')])
})

test.each([
  ['no file', '/no/such/file', /with commas between, or the name of a file with them \(ENOENT\)$/],
  [
    'a short key among others',
    `${HEX[0]},${randomBytes(16).toString('hex')}`,
    /^key 2 is not 32 bytes/,
  ],
  [
    'the same key twice',
    `${HEX[0]},${one.toString('base64')}`,
    /^key 2 is the same as one before it$/,
  ],
  [
    'too many',
    Array.from({ length: 9 }, () => randomBytes(32).toString('hex')).join(),
    /^must hold 1 to 8 keys$/,
  ],
])('%s is refused, and no key is shown', (_what, value, problem) => {
  const { keys, problems } = readSecretKeys(value)
  expect(keys).toEqual([])
  expect(problems).toEqual([expect.stringMatching(problem)])
  for (const word of value.split(',').filter((text) => text.length > 20)) {
    expect(problems.join()).not.toContain(word)
  }
})
