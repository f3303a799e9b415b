import { expect, test } from 'vitest'
import { etagOf, isKnown } from '../../src/http/cards.ts'

test('a tag follows the content', () => {
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
  expect(isKnown(header, 'W/"x"')).toBe(known)
})
