/** The server as it runs in production: a `serve` process, on the database of a test. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { afterAll } from 'vitest'
import { ADMIN_TOKEN } from './app.ts'
import { killed, ROOT } from './child.ts'

export interface ServeProcess {
  child: ChildProcess
  url: string
  log: string[]
}

export const serveProcess = (databaseUrl: string, ...options: string[]): Promise<ServeProcess> =>
  serveProcessWith({}, databaseUrl, ...options)

/** Comes back once it listens; is ended with the test file, if nobody ended it before. */
export const serveProcessWith = async (
  env: NodeJS.ProcessEnv,
  databaseUrl: string,
  ...options: string[]
): Promise<ServeProcess> => {
  const words = ['--import', 'tsx', 'src/cli/main.ts', 'serve', ...options]
  const child = spawn(process.execPath, words, {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: databaseUrl,
      PORT: '0',
      SWITCHBOARD_ADMIN_TOKEN: ADMIN_TOKEN,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  const log: string[] = []
  const lines = createInterface({ input: child.stderr! })
  const url = await new Promise<string>((resolve, reject) => {
    lines.on('line', (line) => {
      log.push(line)
      const found = /listening on (http:\S+)/.exec(line)?.[1]
      if (found) resolve(found)
    })
    child.once('exit', () => reject(new Error(`serve ended: ${log.join('\n')}`)))
  })
  return { child, url, log }
}

const children: ChildProcess[] = []
afterAll(() => Promise.all(children.map(killed)))
