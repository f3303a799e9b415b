/** `switchboard dev` as a process of its own, and the commands that it prints. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../support/process/child.ts'
import { childArgs } from '../support/process/child-args.ts'
import { until } from '../support/until.ts'

const run = promisify(execFile)
export const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sb-dev-'))
const running: ChildProcess[] = []
/** Led by a shell: killing that one would leave the others. */
export const groups: number[] = []
interface Dev {
  child: ChildProcess
  output: () => string
  errors: () => string
  exited: Promise<unknown[]>
}

export const startDev = (dataDir: string): Dev => {
  const child = spawn(process.execPath, [...childArgs('src/cli/main.ts'), 'dev'], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      HOME: folder,
      PORT: '0',
      SWITCHBOARD_DATA_DIR: dataDir,
      LOG_LEVEL: 'error',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.push(child)
  let output = ''
  let errors = ''
  child.stdout!.on('data', (chunk: Buffer) => {
    output += chunk
  })
  child.stderr!.on('data', (chunk: Buffer) => {
    errors += chunk
  })
  return { child, output: () => output, errors: () => errors, exited: once(child, 'exit') }
}

export const banner = async (dev: Dev): Promise<string> => {
  await until(() => dev.output().includes('Ctrl-C'), {
    timeoutMs: 60_000,
    what: 'the banner',
  })
  return dev.output()
}

/** Processes whose command line or environment names the data directory. */
export const leftovers = (dataDir: string): string[] =>
  fs
    .readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => {
      try {
        const command = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
        const dead = stat[stat.lastIndexOf(')') + 2] === 'Z'
        return !dead && command.includes(dataDir)
      } catch {
        return false
      }
    })

export const paste = (command: string): Promise<{ stdout: string }> =>
  run('sh', ['-c', command], { cwd: os.tmpdir(), env: { PATH: process.env.PATH, HOME: folder } })

/** Ends whatever still runs, and removes the folder. */
export const endDev = (): void => {
  for (const child of running) if (child.exitCode === null) child.kill('SIGKILL')
  for (const group of groups) {
    try {
      process.kill(-group, 'SIGKILL')
    } catch {
      // It has ended, as it should.
    }
  }
  fs.rmSync(folder, { recursive: true, force: true })
}
