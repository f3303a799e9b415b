/** `switchboard serve` as it is started in production, in a process of its own. Measures nothing. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

export interface Serve {
  url: string
  end(): Promise<void>
}

const LISTENING = /listening on (http:\S+)/
const LOOK_MS = 2

const ended = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  await exit
}

/** Resolves once /readyz says so. `build` is where the compiled code lies. */
export const startServe = async (
  build: string,
  databaseUrl: string,
  adminToken: string,
): Promise<Serve> => {
  const child = spawn(process.execPath, [path.join(build, 'src/cli/main.js'), 'serve'], {
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: databaseUrl,
      SWITCHBOARD_ADMIN_TOKEN: adminToken,
      PORT: '0',
      LOG_LEVEL: 'error',
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const end = () => ended(child)
  try {
    const url = await new Promise<string>((resolve, reject) => {
      let said = ''
      child.stderr!.setEncoding('utf8').on('data', (chunk: string) => {
        said += chunk
        const found = LISTENING.exec(said)?.[1]
        if (found) resolve(found)
      })
      child.once('exit', () => reject(new Error(`serve ended: ${said}`)))
    })
    while ((await fetch(`${url}/readyz`)).status !== 200) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
    return { url, end }
  } catch (error) {
    await end()
    throw error
  }
}
