/** A `serve` process, for whoever ends it: also a program that is no test file. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { ADMIN_TOKEN } from '../app.ts'
import { ROOT } from './child.ts'
import { childArgs } from './child-args.ts'

export interface ServeOptions {
  databaseUrl: string
  env?: NodeJS.ProcessEnv
  /** Of the command. */
  options?: string[]
  /** The words before those of Node, such as `unshare -n`. */
  within?: string[]
  /** Loaded into the process before the program. */
  imports?: string[]
}

/** Its caller ends it. `listening` is its address; rejects where it ends before. */
export const spawnServe = ({
  databaseUrl,
  env = {},
  options = [],
  within = [],
  imports = [],
}: ServeOptions) => {
  // What is loaded before it is TypeScript, too.
  const loads = imports.length > 0 ? ['tsx', ...imports].flatMap((name) => ['--import', name]) : []
  const [file, ...words] = [...within, process.execPath, ...loads]
  const child = spawn(file!, [...words, ...childArgs('src/cli/main.ts'), 'serve', ...options], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: databaseUrl,
      PORT: '0',
      SWITCHBOARD_ADMIN_TOKEN: ADMIN_TOKEN,
      // Whoever reads its metrics wants them as they are now.
      SWITCHBOARD_METRICS_CACHE_SECONDS: '0',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const log: string[] = []
  const lines = createInterface({ input: child.stderr })
  const listening = new Promise<string>((resolve, reject) => {
    lines.on('line', (line) => {
      log.push(line)
      const found = /listening on (http:\S+)/.exec(line)?.[1]
      if (found) resolve(found)
    })
    child.once('exit', () => reject(new Error(`serve ended: ${log.join('\n')}`)))
  })
  return { child, log, listening }
}
