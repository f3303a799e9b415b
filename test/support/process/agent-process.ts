/**
 * An example agent as a child process, as its own users would run it, and a way to end it: with
 * SIGTERM as an operator would, or as a crash. Awaits the line in which it says that it is ready.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { childArgs } from './child-args.ts'

const ROOT = path.join(import.meta.dirname, '../../..')

export interface AgentProcess {
  pid: number
  /** Ends it and waits until it has ended. */
  stop(signal?: NodeJS.Signals): Promise<void>
}

/** `example` is a file in examples/, such as `concierge.ts`. Rejects when it ends before it is ready. */
export const startAgentProcess = async (
  example: string,
  { url, token }: { url: string; token: string },
): Promise<AgentProcess> => {
  const child: ChildProcess = spawn(process.execPath, childArgs(path.join('examples', example)), {
    cwd: ROOT,
    env: { PATH: process.env.PATH, SWITCHBOARD_URL: url, SWITCHBOARD_TOKEN: token },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const lines = createInterface({ input: child.stdout! })
  const ready = (async () => {
    for await (const line of lines) if (line.endsWith('is ready')) return true
    return false
  })()
  if (!(await ready)) throw new Error(`${example} ended before it was ready`)
  return {
    pid: child.pid!,
    async stop(signal = 'SIGTERM') {
      child.kill(signal)
      await exited
    },
  }
}
