import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalJson } from '../../src/base/canonical.ts'

test.each([
  [{ b: 1, a: [true, null, { d: 'é', c: -0 }] }, '{"a":[true,null,{"c":0,"d":"é"}],"b":1}'],
  // By code units, and not as JavaScript orders its keys.
  [
    { '10': 1, '9': 2, A: 3, a: 4, '\u20ac': 5, '\r': 6 },
    '{"\\r":6,"10":1,"9":2,"A":3,"a":4,"€":5}',
  ],
  [{ a: undefined, b: [1e21, 0.1, 1e-7] }, '{"b":[1e+21,0.1,1e-7]}'],
  ['', '""'],
  [null, 'null'],
])('%j has one form', (value, text) => {
  expect(canonicalJson(value)).toBe(text)
})

test('a member named __proto__ is one like any other', () => {
  expect(canonicalJson(JSON.parse('{"b":1,"__proto__":{"z":1,"a":2}}'))).toBe(
    '{"__proto__":{"a":2,"z":1},"b":1}',
  )
})

/** The same document with the members of every object the other way round. */
const turned = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(turned)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, member]) => [name, turned(member)]),
  )
}

test('it reads back as what it was, however the members came', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = canonicalJson(value)
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
      expect(canonicalJson(turned(value))).toBe(text)
    }),
  )
})
