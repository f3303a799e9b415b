/** Runs the command line as a process of its own and gathers what it says and how it ends. */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { childArgs } from '../support/process/child-args.ts'

const ROOT = path.join(import.meta.dirname, '../..')

export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

export interface RunOptions {
  env?: NodeJS.ProcessEnv
  /** Closes the reading end of stdout after so many bytes, as `| head` does. */
  closeAfter?: number
}

export const runCli = (args: string[], { env = {}, closeAfter }: RunOptions = {}): Promise<Ended> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [...childArgs('src/cli/main.ts'), ...args], {
      cwd: ROOT,
      // A data directory that is not there: no dev.json of this machine may be found.
      env: { PATH: process.env.PATH, SWITCHBOARD_DATA_DIR: '/nonexistent', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const ended: Ended = { code: null, stdout: '', stderr: '' }
    child.stdout.on('data', (chunk: Buffer) => {
      ended.stdout += chunk
      if (closeAfter !== undefined && ended.stdout.length >= closeAfter) child.stdout.destroy()
    })
    child.stderr.on('data', (chunk: Buffer) => {
      ended.stderr += chunk
    })
    child.once('close', (code) => resolve({ ...ended, code }))
  })
