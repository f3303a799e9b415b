import fs from 'node:fs'
import path from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { DataDirInUse, lockDataDir } from '../../src/embedded.ts'
import { cleanUp, makeFolder, runChild } from '../support/process/child.ts'

afterEach(cleanUp)

test('a second process is told the pid of the first, until that gives the lock back', async () => {
  const folder = makeFolder()
  const first = await runChild(['lock', folder])
  expect(() => lockDataDir(folder)).toThrow(DataDirInUse)
  expect(() => lockDataDir(folder)).toThrow(`(pid ${first.pid})`)
  await first.end()
  lockDataDir(folder).release()
  expect(fs.readdirSync(folder)).toEqual([])
})

test('a second lock in the same process is refused too', () => {
  const folder = makeFolder()
  const { release } = lockDataDir(folder)
  expect(() => lockDataDir(folder)).toThrow(`(pid ${process.pid})`)
  release()
  release()
  lockDataDir(folder).release()
})

test('the lock of a process that was killed is replaced', async () => {
  const folder = makeFolder()
  await (await runChild(['lock', folder])).kill()
  expect(fs.readdirSync(folder)).toEqual(['switchboard.lock'])
  lockDataDir(folder).release()
  expect(fs.readdirSync(folder)).toEqual([])
})

test('a lock whose pid has been given to another process has no holder', () => {
  const folder = makeFolder()
  fs.writeFileSync(path.join(folder, 'switchboard.lock'), `${process.pid}\nborn long ago\n`)
  lockDataDir(folder).release()
})

test('a lock cut short by a power failure has no holder', () => {
  const folder = makeFolder()
  fs.writeFileSync(path.join(folder, 'switchboard.lock'), '')
  lockDataDir(folder).release()
})

test('of several that find a dead lock at once exactly one takes it', async () => {
  const folder = makeFolder()
  await (await runChild(['lock', folder])).kill()
  const at = String(Date.now() + 2000)
  const all = await Promise.all([1, 2, 3, 4].map(() => runChild(['lock', folder, at])))
  const winners = all.filter(({ said }) => !said.error)
  expect(winners).toHaveLength(1)
  for (const { said } of all.filter(({ said }) => said.error)) {
    expect(said).toMatchObject({ error: 'DataDirInUse' })
    expect(said.message).toMatch(/pid \d+/)
  }
})
