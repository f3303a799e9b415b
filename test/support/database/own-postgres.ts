/** A PostgreSQL of its own for a test file, to be stopped and started again under those who use it. */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll } from 'vitest'
import { type EmbeddedPostgres, startEmbedded } from '../../../src/embedded.ts'
import { migrate } from '../../../src/store/postgres/migrate.ts'

export interface OwnPostgres {
  /** The same after each start. */
  url: string
  stop(): Promise<void>
  /** kill -9 of its first process and of all that one started; nothing is shut down. */
  crash(): Promise<void>
  start(): Promise<void>
}

interface OwnedPostgres extends OwnPostgres {
  /** Stops it, and nothing is left of it. */
  remove(): Promise<void>
}

/** A process and its children. Stopped one by one as they are read, it would start new ones. */
const treeOf = (pid: number): number[] => {
  process.kill(pid, 'SIGSTOP')
  const { stdout } = spawnSync('ps', ['-axo', 'pid=,ppid='], { encoding: 'utf8' })
  const pairs = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number))
  return [pid, ...pairs.flatMap(([child, parent]) => (parent === pid ? [child!] : []))]
}

/**
 * Durable, unlike that of the other tests: what was committed has to be there after a restart. Its
 * caller removes it.
 */
export const openOwnPostgres = async (): Promise<OwnedPostgres> => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sb-restart-'))
  // As root, PostgreSQL runs as another user, who must get there.
  fs.chmodSync(folder, 0o711)
  const data = path.join(folder, 'data')
  let running: EmbeddedPostgres | null = null
  const stop = async () => {
    await running?.stop()
    running = null
  }
  const remove = async () => {
    await stop()
    fs.rmSync(folder, { recursive: true, force: true })
  }
  const start = async (): Promise<string> => {
    running ??= await startEmbedded(data)
    return running.url
  }
  try {
    const url = await start()
    await migrate(url)
    return {
      url,
      stop,
      crash: async () => {
        for (const pid of treeOf(running!.pid)) process.kill(pid, 'SIGKILL')
        await stop()
      },
      start: async () => void (await start()),
      remove,
    }
  } catch (error) {
    await remove()
    throw error
  }
}

/** The same for a test file, removed with it. */
export const startOwnPostgres = async (): Promise<OwnPostgres> => {
  const postgres = await openOwnPostgres()
  afterAll(postgres.remove)
  return postgres
}
