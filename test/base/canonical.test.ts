import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalJson } from '../../src/base/canonical-json.ts'
import { parseExact } from '../../src/base/exact-json.ts'
import type { Json } from '../../src/domain/todo.ts'

test('numbers, strings and literals are written as RFC 8785 has them', () => {
  const numbers = JSON.parse('[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001,-0]')
  const string = '\u20ac$\u000F\u000aA\'\u0042\u0022\u005c\\"\u002f'
  expect(canonicalJson({ numbers, string, literals: [null, true, false] })).toBe(
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27,0],' +
      '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
  )
})

test('names are ordered by their UTF-16 code units, whatever engine or insertion say', () => {
  const odd = { '\u20ac': 5, '\r': 1, '\ufb33': 7, '1': 2, '\ud83d\ude00': 6, '\u0080': 3, ö: 4 }
  expect(canonicalJson(odd)).toBe(
    '{"\\r":1,"1":2,"\u0080":3,"ö":4,"\u20ac":5,"\ud83d\ude00":6,"\ufb33":7}',
  )
  expect(canonicalJson({ b: 1, '10': 2, '9': 3, a: 4 })).toBe('{"10":2,"9":3,"a":4,"b":1}')
  expect(canonicalJson(JSON.parse('{"__proto__":1}'))).toBe('{"__proto__":1}')
  expect(canonicalJson({ b: undefined, a: [] })).toBe('{"a":[]}')
})

test('numbers that are no doubles keep their digits, and texts that look like them stay texts', () => {
  const text = '{"a":[9007199254740993,0.1234567890123456789],"b":"9007199254740993","c":1e-400}'
  expect(canonicalJson(parseExact(text))).toBe(text)
  expect(canonicalJson(parseExact('9007199254740993'))).toBe('9007199254740993')
})

test('what is no JSON at all has no canonical form', () => {
  expect(() => canonicalJson(undefined)).toThrow(TypeError)
})

test.each<[string, Json]>([
  ['half a surrogate pair', ['\ud83d']],
  ['a name of half a pair', { '\udc00': 1 }],
  ['no number', [Number.NaN]],
  ['a number without end', { n: Number.POSITIVE_INFINITY }],
])('%s has no canonical form', (_name, value) => {
  expect(() => canonicalJson(value)).toThrow(TypeError)
})

const shuffled = (value: Json): Json => {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(shuffled)
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, shuffled(member)]),
  )
}

test('the form is the same document, and the same for every order of its members', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (given) => {
      const value = JSON.parse(JSON.stringify(given)) as Json
      const text = canonicalJson(value)
      expect(JSON.parse(text)).toEqual(value)
      expect(canonicalJson(JSON.parse(text))).toBe(text)
      expect(canonicalJson(shuffled(value))).toBe(text)
    }),
  )
})
