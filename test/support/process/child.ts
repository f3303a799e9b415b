/**
 * Processes that a test may kill, and folders that go when it ends. What is left of either after a
 * test is ended by pid: children by the handle, PostgreSQL's processes by the temp folder that only
 * they name.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { EmbeddedPostgres } from '../../../src/embedded.ts'
import { until } from '../until.ts'
import { childArgs } from './child-args.ts'

export const ROOT = path.join(import.meta.dirname, '../../..')

const children = new Set<ChildProcess>()
const folders = new Set<string>()

/** Closed to other users, as mkdtemp makes it, or open for passing through. */
export const makeFolder = (mode: 0o700 | 0o711 | 0o777 = 0o711): string => {
  const folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'sb-embedded-')))
  fs.chmodSync(folder, mode)
  folders.add(folder)
  return folder
}

export interface Child {
  pid: number
  /** The line it told. */
  said: Partial<Omit<EmbeddedPostgres, 'stop'>> & { error?: string; message?: string }
  /** kill -9, and waits until it is gone. */
  kill(): Promise<void>
  /** Asks it to give back what it took, and waits until it is gone. */
  end(): Promise<void>
}

export interface ChildOptions {
  uid?: number
  env?: NodeJS.ProcessEnv
  /** Where the code lies. */
  cwd?: string
}

const spawnChild = (args: string[], { uid, env = {}, cwd = ROOT }: ChildOptions): ChildProcess => {
  const file = 'test/support/process/embedded-child.ts'
  // Elsewhere lie the sources alone.
  const words = [...(cwd === ROOT ? childArgs(file) : ['--import', 'tsx', file]), ...args]
  const child = spawn(process.execPath, words, {
    cwd,
    env: { PATH: process.env.PATH, TMPDIR: os.tmpdir(), ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
    ...(uid !== undefined && { uid, gid: uid }),
  })
  children.add(child)
  child.once('exit', () => children.delete(child))
  return child
}

/** Comes back at once; for a kill before anything was told. */
export const beginChild = (...args: string[]): ChildProcess => spawnChild(args, {})

export const runChild = async (args: string[], options: ChildOptions = {}): Promise<Child> => {
  const child = spawnChild(args, options)
  const lines = createInterface({ input: child.stdout! })
  const [line] = (await Promise.race([once(lines, 'line'), once(child, 'exit')])) as [unknown]
  if (typeof line !== 'string') throw new Error(`the child ended (${line}) without a word`)
  const said = JSON.parse(line) as Child['said']
  if (said.connection) folders.add(said.connection.host)
  return {
    pid: child.pid!,
    said,
    kill: () => killed(child),
    end: async () => {
      const exit = once(child, 'exit')
      child.stdin?.end()
      await exit
    },
  }
}

const ofThisFile = new Set<ChildProcess>()

/** Ends it with the test file, if nobody ended it before. */
export const endWithFile = (child: ChildProcess): void => {
  ofThisFile.add(child)
  child.once('exit', () => ofThisFile.delete(child))
}

export const endOfFile = async (): Promise<void> => {
  await Promise.all([...ofThisFile].map(killed))
}

export const killed = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}

const commandLines = (): [pid: number, words: string][] => {
  if (process.platform !== 'linux') {
    const { stdout } = spawnSync('ps', ['-axo', 'pid=,command='], { encoding: 'utf8' })
    return stdout.split('\n').map((line) => [Number.parseInt(line, 10), line])
  }
  return fs.readdirSync('/proc').flatMap((name) => {
    try {
      return [[Number(name), fs.readFileSync(`/proc/${name}/cmdline`, 'utf8')]]
    } catch {
      return []
    }
  })
}

/** Pids of what names the folder on its command line, except this process. */
const processesOn = (folder: string): number[] =>
  commandLines()
    .filter(([pid, words]) => pid > 0 && pid !== process.pid && words.includes(folder))
    .map(([pid]) => pid)

export const killAllOn = (folder: string): void => {
  for (const pid of processesOn(folder)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It went by itself.
    }
  }
}

export const cleanUp = async (): Promise<void> => {
  await Promise.all([...children].map(killed))
  for (const folder of folders) {
    killAllOn(folder)
    await until(() => processesOn(folder).length === 0, { what: `quiet on ${folder}` })
    fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  folders.clear()
}
