import { describe, expect, test } from 'vitest'
import {
  askedVersion,
  checkVersion,
  createVersions,
  versionFor,
} from '../../src/protocol/versions.ts'

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
    [undefined, ['1.0'], '1.0'],
    [undefined, ['1.0', '0.3'], null],
    [undefined, ['1.0', '1.0'], null],
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
  expect(versionFor(versions, '0.3.0', undefined).version).toBe('0.3')
  expect(versionFor(versions, undefined, undefined).version).toBe('0.3')
  for (const header of ['0.5', '99.0', 'x', '0.2.6', '0.1']) {
    expect(() => versionFor(versions, header, undefined)).toThrow(
      expect.objectContaining({ kind: 'version', metadata: { supportedVersions: '1.0,0.3' } }),
    )
  }
})

test('no method is of two versions, and each version says where the others are', () => {
  const versions = createVersions({ publicUrl: () => 'http://x' })
  const names = versions.flatMap(({ table }) => Object.keys(table))
  expect(new Set(names).size).toBe(names.length)
  for (const { version, table } of versions) {
    for (const { version: other, table: theirs, explain } of versions) {
      for (const method of version === other ? [] : Object.keys(theirs)) {
        expect(Object.hasOwn(table, method)).toBe(false)
        expect(explain(method)).toContain(`A2A-Version: ${other}`)
      }
    }
  }
  for (const { explain } of versions) {
    for (const method of ['NoSuchThing', '__proto__', 'toString']) {
      expect(explain(method)).toBeUndefined()
    }
  }
})

test('a path is of one version, and asked for as an older one it says which', () => {
  const versions = createVersions({ publicUrl: () => 'http://x' })
  const [v1, v03] = versions as [(typeof versions)[0], (typeof versions)[0]]
  for (const path of ['tasks', 'tasks/t:cancel', 'message:send', 'extendedAgentCard']) {
    expect(v1.rest.paths.at(path)).not.toEqual([])
    expect(v03.rest.paths.at(path)).toEqual([])
  }
  for (const path of ['v1/tasks', 'v1/tasks/t:cancel', 'v1/message:send', 'v1/card']) {
    expect(v1.rest.paths.at(path)).toEqual([])
    expect(v03.rest.paths.at(path)).not.toEqual([])
  }
  const thrown = (kind: string) => expect.objectContaining({ kind })
  for (const [header, query] of [
    ['1.0', undefined],
    [undefined, '1.0'],
    ['1.0', '0.3'],
  ]) {
    checkVersion(versions, header, query, v1)
    expect(() => checkVersion(versions, header, query, v03)).toThrow(thrown('method'))
  }
  for (const header of [undefined, '', '0.3']) {
    checkVersion(versions, header, undefined, v03)
    expect(() => checkVersion(versions, header, undefined, v1)).toThrow(
      expect.objectContaining({ kind: 'version', metadata: { supportedVersions: '1.0' } }),
    )
  }
  for (const version of versions) {
    expect(() => checkVersion(versions, '0.5', undefined, version)).toThrow(thrown('version'))
  }
})
