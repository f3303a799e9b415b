/** A PostgreSQL of its own for a test file, to be stopped and started again under those who use it. */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll } from 'vitest'
import { type EmbeddedPostgres, startEmbedded } from '../../src/embedded.ts'
import { migrate } from '../../src/store/migrate.ts'

export interface OwnPostgres {
  /** The same after each start. */
  url: string
  stop(): Promise<void>
  /** kill -9 of its first process and of all that one started; nothing is shut down. */
  crash(): Promise<void>
  start(): Promise<void>
}

/** A process and its children. Stopped one by one as they are read, it would start new ones. */
const treeOf = (pid: number): number[] => {
  process.kill(pid, 'SIGSTOP')
  const { stdout } = spawnSync('ps', ['-axo', 'pid=,ppid='], { encoding: 'utf8' })
  const pairs = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number))
  return [pid, ...pairs.flatMap(([child, parent]) => (parent === pid ? [child!] : []))]
}

/** Durable, unlike that of the other tests: what was committed has to be there after a restart. */
export const startOwnPostgres = async (): Promise<OwnPostgres> => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sb-restart-'))
  // As root, PostgreSQL runs as another user, who must get there.
  fs.chmodSync(folder, 0o711)
  const data = path.join(folder, 'data')
  let running: EmbeddedPostgres | null = await startEmbedded(data)
  const { url } = running
  const stop = async () => {
    await running?.stop()
    running = null
  }
  afterAll(async () => {
    await stop()
    fs.rmSync(folder, { recursive: true, force: true })
  })
  await migrate(url)
  return {
    url,
    stop,
    crash: async () => {
      for (const pid of treeOf(running!.pid)) process.kill(pid, 'SIGKILL')
      await stop()
    },
    start: async () => {
      running ??= await startEmbedded(data)
    },
  }
}
