import { describe, expect, test } from 'vitest'
import { askedVersion, createVersions, versionFor } from '../../src/protocol/versions.ts'

describe('a request asks for', () => {
  test.each<[string | undefined, unknown, string | null]>([
    [undefined, undefined, '0.3'],
    ['', undefined, '0.3'],
    ['  ', undefined, '0.3'],
    ['1.0', undefined, '1.0'],
    [' 1.0 ', undefined, '1.0'],
    ['1.0.7', undefined, '1.0'],
    ['0.3.0', undefined, '0.3'],
    [undefined, '1.0', '1.0'],
    ['0.3', '1.0', '0.3'],
    ['', '1.0', '0.3'],
    [undefined, ['1.0', '0.3'], '0.3'],
    ['1', undefined, null],
    ['v1.0', undefined, null],
    ['1.0, 0.3', undefined, null],
    ['1.0.0.0', undefined, null],
  ])('header %j and query %j: %s', (header, query, version) => {
    expect(askedVersion(header, query)).toBe(version)
  })
})

test('a version that is not served is refused with those that are', () => {
  const versions = createVersions({ publicUrl: () => 'http://x' })
  expect(versionFor(versions, '1.0.3', undefined).version).toBe('1.0')
  for (const header of ['0.5', '99.0', 'x', undefined]) {
    expect(() => versionFor(versions, header, undefined)).toThrow(
      expect.objectContaining({ kind: 'version', metadata: { supportedVersions: '1.0' } }),
    )
  }
})
