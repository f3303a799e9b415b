// The embedded PostgreSQL after a kill -9 of node, of PostgreSQL, or of both.
import fs from 'node:fs'
import { afterEach, describe, expect, test } from 'vitest'
import { startEmbedded } from '../../src/embedded.ts'
import { isGone, words, write } from '../embedded/notes.ts'
import {
  beginChild,
  cleanUp,
  killAllOn,
  killed,
  makeFolder,
  runChild,
} from '../support/process/child.ts'
import { canTie } from '../support/system.ts'
import { until } from '../support/until.ts'

const FAST = { settings: ['fsync=off'] }

afterEach(cleanUp)

describe('kill -9', () => {
  test('of node: the server goes too, and the next start finds what was committed', async () => {
    const folder = makeFolder()
    const { said, kill } = await runChild(['start', folder])
    await write(said.url, 'committed')
    await kill()
    if (canTie) await until(() => isGone(said.pid), { what: 'the end of the server' })

    const next = await startEmbedded(folder, FAST)
    expect(next.owned).toBe(true)
    expect(await words(next.url)).toEqual(['committed'])
    await next.stop()
  })

  test('of node and PostgreSQL together: the next start recovers what was committed', async () => {
    const folder = makeFolder()
    const { said, kill } = await runChild(['start', folder])
    await write(said.url, 'committed')
    process.kill(said.pid!, 'SIGKILL')
    await kill()

    const next = await startEmbedded(folder, FAST)
    expect(await words(next.url)).toEqual(['committed'])
    await next.stop()
  })

  test.each([0, 60, 150, 300])(
    'of everything %i ms into the first start: the next one works and removes the leavings',
    async (afterMs) => {
      const folder = makeFolder()
      const child = beginChild('start', folder)
      await until(() => fs.readdirSync(folder).length > 0, { what: 'the first start' })
      await new Promise((resolve) => setTimeout(resolve, afterMs))
      killAllOn(folder)
      await killed(child)

      const { url, stop } = await startEmbedded(folder, FAST)
      await write(url, 'works')
      await stop()
      // The leavings may have been written to until now, by what the killed initdb had begun.
      await (await startEmbedded(folder, FAST)).stop()
      expect(fs.readdirSync(folder).filter((name) => name.includes('draft'))).toEqual([])
    },
  )

  test('of node alone while initdb runs: the next start works beside the initdb left alone', async () => {
    const folder = makeFolder()
    const child = beginChild('start', folder)
    await until(() => fs.readdirSync(folder).some((name) => name.includes('draft-')))
    await killed(child)
    const { url, stop } = await startEmbedded(folder, FAST)
    await write(url, 'works')
    await stop()
  })
})
