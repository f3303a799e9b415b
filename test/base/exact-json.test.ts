/** JSON whose numbers keep their digits, against JSON itself. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ExactNumber, exactText, parseExact } from '../../src/base/exact-json.ts'

const EXACT = [
  '9007199254740993',
  '-9007199254740993',
  '1234567890123456789',
  '0.1234567890123456789',
  '1e-400',
  '1e400',
  '-1.5E+999',
  '1.7e-323',
  '123456789012345678901234567890e-10',
  '9007199254740993.0',
  `1${'0'.repeat(400)}1`,
  `0.${'0'.repeat(400)}1`,
]

test.each(EXACT)('%s is written as it was read', (text) => {
  const value = parseExact(text)
  expect(value).toBeInstanceOf(ExactNumber)
  expect(String(value)).toBe(text)
  expect(exactText(value)).toBe(text)
  for (const around of [`[${text}]`, `{"a":${text},"b":[1,${text}]}`, ` [ ${text} , 1 ] `]) {
    expect(exactText(parseExact(around))).toBe(around.replaceAll(' ', ''))
  }
})

test.each([
  '0',
  '-0',
  '1',
  '1.0',
  '1e2',
  '0.1',
  '0.10000000000000000',
  '9007199254740992',
  '9007199254740994.000000',
  '1.7976931348623157e308',
  '5e-324',
  '100000000000000000000000',
  '1e+021',
  '0e-400',
])('%s is a number like any other', (text) => {
  expect(parseExact(text)).toBe(JSON.parse(text))
  expect(parseExact(`[${text}]`)).toEqual(JSON.parse(`[${text}]`))
})

test('strings stay strings, whatever they look like', () => {
  const odd = [
    '9007199254740993',
    ':9007199254740993',
    '\\',
    '\\"',
    '"',
    '[1e-400,',
    '\\\\", 1e-400',
  ]
  const document = { odd, 'a: 9007199254740993': 1 }
  const text = JSON.stringify({ ...document, n: 0 }).replace('"n":0', '"n":9007199254740993')
  expect(parseExact(text)).toEqual({ ...document, n: new ExactNumber('9007199254740993') })
  expect(exactText(parseExact(text))).toBe(text)
})

test('a member named __proto__ is one like any other', () => {
  const text = '{"__proto__":9007199254740993,"a":{"__proto__":{"b":1e-400}}}'
  const value = parseExact(text) as object
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
  expect(exactText(value)).toBe(text)
})

describe('what is no JSON is none', () => {
  test.each([
    '{9007199254740993:1}',
    '{9007199254740993 :1}',
    '[09007199254740993]',
    '[9007199254740993.]',
    '[.9007199254740993]',
    '[+9007199254740993]',
    '[--9007199254740993]',
    '[9007199254740993 1]',
    '[9007199254740993"a"]',
    '[9007199254740993e]',
    '[9007199254740993n]',
    '[1e-400',
    '"9007199254740993',
    ':9007199254740993',
  ])('%s', (text) => {
    expect(() => JSON.parse(text)).toThrow(SyntaxError)
    expect(() => parseExact(text)).toThrow(SyntaxError)
  })

  test('as JSON has it, for any text', () => {
    const token = fc.constantFrom(
      ...['{', '}', '[', ']', ',', ':', '"', '\\', ' ', 'a', '-', '.', 'e', '1', '"a"', '"b":'],
      ...EXACT.slice(0, 6),
    )
    const any = fc.array(token, { maxLength: 12 }).map((tokens) => tokens.join(''))
    const read = (parse: (text: string) => unknown, text: string) => {
      try {
        return { value: parse(text) }
      } catch {
        return null
      }
    }
    fc.assert(
      fc.property(any, (text) => {
        const [plain, exact] = [read(JSON.parse, text), read(parseExact, text)]
        expect(exact === null).toBe(plain === null)
        if (exact) {
          const back = JSON.parse(exactText(exact.value))
          expect(JSON.stringify(back)).toBe(JSON.stringify(plain!.value))
        }
      }),
      { numRuns: 3000 },
    )
  })
})

test('any document is read and written as by JSON, where its numbers are doubles', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(exactText(parseExact(text))).toBe(JSON.stringify(JSON.parse(text)))
    }),
  )
})

test('it cannot be computed with, and other JSON has its digits', () => {
  const number = new ExactNumber('9007199254740993')
  expect(() => (number as unknown as number) + 1).toThrow(TypeError)
  expect(BigInt(String(number))).toBe(9007199254740993n)
  expect(JSON.stringify({ number })).toBe('{"number":"9007199254740993"}')
  for (const text of ['', 'x', '1 ', '"1"', '01', '1"', 'NaN']) {
    expect(() => new ExactNumber(text)).toThrow(TypeError)
  }
  const broken = { toJSON: () => JSON.parse('{') }
  expect(() => exactText([number, broken])).toThrow(SyntaxError)
  expect(JSON.stringify([number])).toBe('["9007199254740993"]')
})

test('long runs of digits and quotes take no longer than they are', () => {
  const zeros = '0'.repeat(2_000_000)
  for (const text of [`[0.${zeros}1]`, `[1${zeros}]`, `["${'\\\\'.repeat(1_000_000)}",1e-400]`]) {
    const started = performance.now()
    expect(exactText(parseExact(text))).toHaveLength(text.length)
    expect(performance.now() - started).toBeLessThan(5_000)
  }
})
