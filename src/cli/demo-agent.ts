/**
 * The example agent in a process of its own, as a stranger's agent would be: it gets an address and
 * a token, and nothing else. If it dies it is started again, a few times. It notices the death of
 * this process, kill -9 included, because their IPC channel closes.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { backoffMs, sleep } from '../base/time.ts'
import { note } from './output.ts'

const MAX_RESTARTS = 5
/** An agent that has lived this long did not fail at its start, so earlier deaths do not count. */
const FORGIVEN_MS = 60_000
/** More than the agent's own grace. */
const STOP_MS = 15_000

export interface DemoAgent {
  /** Ends it, by force if it must. */
  stop(): Promise<void>
}

export const startDemoAgent = (url: string, token: string): DemoAgent => {
  const stopping = new AbortController()
  let child: ChildProcess

  const keepRunning = async (): Promise<void> => {
    for (let deaths = 0; !stopping.signal.aborted; ) {
      const born = performance.now()
      child = spawnAgent(url, token)
      const how = await ended(child)
      if (stopping.signal.aborted) return
      deaths = performance.now() - born > FORGIVEN_MS ? 1 : deaths + 1
      if (deaths > MAX_RESTARTS) {
        note(`switchboard: the example agent has ended (${how}) too often; it stays ended`)
        return
      }
      note(`switchboard: the example agent has ended (${how}); starting it again`)
      await sleep(backoffMs(deaths), stopping.signal).catch(() => {})
    }
  }
  const running = keepRunning()

  return {
    async stop() {
      stopping.abort()
      child.kill('SIGTERM')
      const force = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      await running
      clearTimeout(force)
    },
  }
}

const spawnAgent = (url: string, token: string): ChildProcess => {
  // In the sources it is TypeScript, and runs with the loader that runs this file.
  const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const script = fileURLToPath(new URL(`../../examples/concierge.${ending}`, import.meta.url))
  const { DATABASE_URL: _, SWITCHBOARD_ADMIN_TOKEN: __, ...env } = process.env
  return spawn(process.execPath, [...process.execArgv, script], {
    env: { ...env, SWITCHBOARD_URL: url, SWITCHBOARD_TOKEN: token },
    // Ctrl-C at the terminal goes to this process alone, which then stops the agent.
    detached: true,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
}

const ended = (child: ChildProcess): Promise<string> =>
  new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`))
  })
