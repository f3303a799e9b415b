import { spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { findBinaries } from '../src/embedded/binaries.ts'
import { chooseRunner, command } from '../src/embedded/runner.ts'
import { startEmbedded } from '../src/embedded.ts'
import { isGone, query, words, write } from './embedded/notes.ts'
import { cleanUp, killed, makeFolder, runChild } from './support/process/child.ts'
import { canHideRoot, isRoot } from './support/system.ts'
import { until } from './support/until.ts'

const FAST = { settings: ['fsync=off'] }
const linux = process.platform === 'linux'

afterEach(cleanUp)

describe('one process', () => {
  test('a new data directory gets a PostgreSQL that speaks UTF-8 and listens on no port', async () => {
    const { url, connection, owned, stop } = await startEmbedded(makeFolder(), FAST)
    const shown = `select current_setting('server_encoding') as encoding,
      current_setting('listen_addresses') as addresses, current_setting('fsync') as fsync`
    expect(await query(url, shown)).toEqual([{ encoding: 'UTF8', addresses: '', fsync: 'off' }])
    expect(owned).toBe(true)
    expect(fs.statSync(connection.host).mode & 0o777).toBe(0o700)
    await stop()
  })

  test('what was written is there at the next start, and a stop leaves nothing outside the directory', async () => {
    const dataDir = path.join(makeFolder(), 'not', 'yet', 'made')
    for (const [word, expected] of [
      ['one', ['one']],
      ['two', ['one', 'two']],
    ] as const) {
      const { url, pid, connection, stop } = await startEmbedded(dataDir)
      await write(url, word)
      expect(await words(url)).toEqual(expected)
      await Promise.all([stop(), stop()])
      expect(isGone(pid)).toBe(true)
      expect(fs.existsSync(connection.host)).toBe(false)
    }
  })

  test('a second start in the same process shares the server of the first', async () => {
    const folder = makeFolder()
    const [first, second] = await Promise.all([startEmbedded(folder, FAST), startEmbedded(folder)])
    expect(second.pid).toBe(first.pid)
    expect([first.owned, second.owned]).toEqual([true, false])
    await first.stop()
  })

  test.runIf(linux)('the server is not given the environment, which holds tokens', async () => {
    const env = { SWITCHBOARD_ADMIN_TOKEN: 'open-sesame-open' }
    const { said } = await runChild(['start', makeFolder()], { env })
    expect(fs.readFileSync(`/proc/${said.pid}/environ`, 'utf8')).not.toContain('open-sesame')
  })

  test('a setting that PostgreSQL does not know fails the start with what PostgreSQL said', async () => {
    const folder = makeFolder()
    await expect(startEmbedded(folder, { settings: ['nonsense=1'] })).rejects.toThrow(
      /unrecognized configuration parameter "nonsense"/,
    )
    await (await startEmbedded(folder, FAST)).stop()
  })

  test('a data directory that cannot be made is named, together with the ways out', async () => {
    const file = path.join(makeFolder(), 'file')
    fs.writeFileSync(file, '')
    await expect(startEmbedded(file)).rejects.toThrow(/file cannot be used.*set DATABASE_URL/)
  })
})

describe('several processes', () => {
  test('a second process shares the running server, and its stop leaves it running', async () => {
    const folder = makeFolder()
    const owner = await startEmbedded(folder, FAST)
    const sharer = await runChild(['start', folder])
    expect(sharer.said).toMatchObject({ pid: owner.pid, url: owner.url, owned: false })
    await sharer.end()
    await write(owner.url, 'still here')
    await owner.stop()
  })

  test('of several first starts at once one owns the server and the others share it', async () => {
    const folder = makeFolder()
    const at = String(Date.now() + 2000)
    const all = await Promise.all([1, 2, 3, 4].map(() => runChild(['start', folder, at])))
    expect(new Set(all.map(({ said }) => said.pid)).size).toBe(1)
    expect(all.filter(({ said }) => said.owned)).toHaveLength(1)
    expect(fs.readdirSync(folder).filter((name) => name.includes('draft'))).toEqual([])
  })

  test('whoever comes while the owner is stopping becomes the next owner', async () => {
    const folder = makeFolder()
    const first = await startEmbedded(folder, FAST)
    await write(first.url, 'kept')
    const [, next] = await Promise.all([first.stop(), startEmbedded(folder, FAST)])
    expect(next.owned).toBe(true)
    expect(await words(next.url)).toEqual(['kept'])
    await next.stop()
  })
})

describe('what an earlier run left behind', () => {
  /** A server that nothing ties to its node, as on systems without setpriv. */
  const startUntied = (folder: string) => {
    const runner = chooseRunner(findBinaries(folder)[0]!, folder)!
    const postgres = path.join(runner.bin, 'postgres')
    const settings = ['-c', 'listen_addresses=', '-c', `unix_socket_directories=${folder}`]
    const cluster = path.join(folder, 'pg18')
    const [file, args, options] = command(runner, [postgres, '-D', cluster, ...settings])
    fs.chmodSync(folder, 0o777)
    spawn(file, args, { ...options, stdio: 'ignore' }).unref()
    return until(() => {
      const lines = fs.readFileSync(path.join(cluster, 'postmaster.pid'), 'utf8').split('\n')
      return lines[7]?.trim() === 'ready' ? Number(lines[0]) : null
    })
  }

  test('a server without an owner is ended, and one that is owned takes its place', async () => {
    const folder = makeFolder()
    await (await startEmbedded(folder, FAST)).stop()
    const left = await startUntied(folder)

    const { pid, owned, stop } = await startEmbedded(folder, FAST)
    expect(owned).toBe(true)
    expect(pid).not.toBe(left)
    expect(isGone(left)).toBe(true)
    await stop()
  })

  /** Where PostgreSQL runs under our own uid: for root, a folder that is closed to others. */
  const ownFolder = () => makeFolder(isRoot && !canHideRoot ? 0o711 : 0o700)

  /** As after a crash of the machine: the number in the file is another process's by now. */
  const leavePidFile = (folder: string, pid: number) => {
    const text = `${pid}\n${folder}/pg18\n1700000000\n5432\n${folder}\n\n  5432001         9\nready   \n`
    fs.writeFileSync(path.join(folder, 'pg18', 'postmaster.pid'), text)
    fs.writeFileSync(path.join(folder, '.s.PGSQL.5432.lock'), text)
  }

  test('a pid file whose number is another process by now does not stop a start', async () => {
    const folder = ownFolder()
    await (await startEmbedded(folder, FAST)).stop()
    leavePidFile(folder, process.pid)
    await (await startEmbedded(folder, FAST)).stop()
  })

  test.runIf(linux)(
    'a pid file whose number is a zombie that nobody reaps does not stop a start',
    async () => {
      const folder = ownFolder()
      await (await startEmbedded(folder, FAST)).stop()
      const parent = spawn('sh', ['-c', 'sleep 0.1 & echo $!; exec sleep 60'])
      onTestFinished(() => killed(parent))
      const zombie = await new Promise<number>((resolve) => {
        parent.stdout.once('data', (text) => resolve(Number(text)))
      })
      const stat = () => fs.readFileSync(`/proc/${zombie}/stat`, 'utf8')
      await until(() => stat().includes(') Z '), { what: 'the zombie' })

      leavePidFile(folder, zombie)
      await (await startEmbedded(folder, FAST)).stop()
      expect(stat()).toContain(') Z ')
    },
  )
})
