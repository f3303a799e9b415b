import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isUuid, newId } from '../../src/base/uuid.ts'

test('is a UUID of version 7, by its time and then by chance', () => {
  fc.assert(
    fc.property(fc.nat(2 ** 48 - 1), fc.nat(1000), (now, later) => {
      const id = newId(now)
      expect(isUuid(id)).toBe(true)
      expect(id[14]).toBe('7')
      expect('89ab').toContain(id[19])
      expect(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)).toBe(now)
      const then = Math.min(now + later + 1, 2 ** 48 - 1)
      if (then > now) expect(newId(then) > id).toBe(true)
    }),
  )
})

test('no two are alike, however many are made in one moment', () => {
  expect(new Set(Array.from({ length: 10_000 }, () => newId(1))).size).toBe(10_000)
})
