/** Programs of the system that some tests need, such as a pooler; run for one test file. */
import { type ChildProcess, spawn } from 'node:child_process'
import fs from 'node:fs'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import { isRoot, NOBODY } from '../system.ts'
import { until } from '../until.ts'
import { endWithFile } from './child.ts'

const FOLDERS = [...(process.env.PATH ?? '').split(path.delimiter), '/usr/sbin', '/usr/local/sbin']

/** Where the program lies; null where it is not installed. */
export const findProgram = (name: string): string | null =>
  FOLDERS.map((folder) => path.join(folder, name)).find((file) => fs.existsSync(file)) ?? null

/** A port that was free a moment ago, for programs that cannot choose one themselves. */
export const freePort = async (): Promise<number> => {
  const server = net.createServer()
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1')
    const done = (answered: boolean) => (): void => {
      socket.destroy()
      resolve(answered)
    }
    socket.once('connect', done(true)).once('error', done(false))
  })

/** Runs it, not as root, and comes back once it takes connections on the port. */
export const startProgram = async (
  file: string,
  words: string[],
  port: number,
  uid = NOBODY,
): Promise<ChildProcess> => {
  const child = spawn(file, words, {
    stdio: 'ignore',
    ...(isRoot && { uid }),
  })
  endWithFile(child)
  await until(
    async () => {
      if (child.exitCode !== null) throw new Error(`${file} ended with ${child.exitCode}`)
      return answers(port)
    },
    { what: `${path.basename(file)} takes connections` },
  )
  return child
}
