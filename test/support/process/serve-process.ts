/** The server as it runs in production: a `serve` process, on the database of a test. */
import type { ChildProcess } from 'node:child_process'
import { endWithFile } from './child.ts'
import { spawnServe } from './serve-child.ts'

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
  const serving = spawnServe({ env, databaseUrl, options })
  endWithFile(serving.child)
  return { ...serving, url: await serving.listening }
}
