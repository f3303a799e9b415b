import { describe, expect, test } from 'vitest'
import { readEnvelope } from '../../src/rpc/envelope.ts'

const call = (members: object = {}) => ({ jsonrpc: '2.0', id: 'e', method: 'M', ...members })
const answeredTo = (value: unknown): unknown => {
  const envelope = readEnvelope(value)
  return 'refusal' in envelope ? envelope.id : 'accepted'
}

describe('a request is refused', () => {
  test.each([[{ x: 1 }], [[1]], [true], [2 ** 60], [Number.POSITIVE_INFINITY], ['x'.repeat(257)]])(
    'with the id null for the id %j',
    (id) => {
      expect(answeredTo(call({ id }))).toBeNull()
    },
  )

  test.each([
    [{ method: '' }],
    [{ method: undefined }],
    [{ method: 5 }],
    [{ jsonrpc: '1.0' }],
    [{ jsonrpc: undefined }],
    [{ jsonrpc: 2 }],
  ])('with its own id for %j', (members) => {
    expect(answeredTo(call(members))).toBe('e')
  })

  test.each([[null], [5], ['x'], [[]], [true]])('as a whole for %j', (value) => {
    expect(answeredTo(value)).toBeNull()
  })
})

test.each([['7'], [7], [null], [-1.5], [0], [''], ['x'.repeat(256)]])(
  'an id keeps its type: %j',
  (id) => {
    expect(readEnvelope(call({ id }))).toEqual({ request: { jsonrpc: '2.0', method: 'M', id } })
  },
)

test('without an id it is a notification, whatever else it holds', () => {
  const { id: _, ...rest } = call({ extra: 1, params: { a: 1 } })
  expect(readEnvelope(rest)).toEqual({
    request: { jsonrpc: '2.0', method: 'M', params: { a: 1 } },
  })
})
