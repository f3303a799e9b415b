import { describe, expect, test } from 'vitest'
import { MAX_DEPTH, pathText, unkeepable } from '../../src/protocol/wire/params.ts'

test('paths read as a programmer would write them', () => {
  expect(pathText(['message', 'parts', 0, 'text'])).toBe('message.parts[0].text')
  expect(pathText([0, 'a'])).toBe('[0].a')
  expect(pathText([])).toBe('params')
})

describe('params cannot be kept', () => {
  const nested = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`)

  test('when they are nested too deeply, however deep that is', () => {
    expect(unkeepable(nested(MAX_DEPTH))).toBeNull()
    for (const depth of [MAX_DEPTH + 1, 200_000]) {
      expect(unkeepable({ a: nested(depth) })).toMatchObject({ field: 'params' })
    }
  })

  test.each<[string, unknown, string]>([
    ['a NUL', { message: { parts: [{ text: 'a\u0000' }] } }, 'message.parts[0].text'],
    ['half a surrogate pair', { a: [1, '\ud83d'] }, 'a[1]'],
    ['a number beyond a double', JSON.parse('{"a":{"b":1e999}}'), 'a.b'],
    ['a NUL in a name', { a: { 'b\u0000': 1 } }, 'a'],
  ])('with %s', (_, params, field) => {
    expect(unkeepable(params)).toMatchObject({ field })
  })

  test('but any other text can', () => {
    const text = '<b>&"\'</b> é 漢字 😀 \u2028 \\n \r\n \t'
    expect(unkeepable({ [text]: [text, 1, null, true] })).toBeNull()
    expect(unkeepable(undefined)).toBeNull()
  })
})
