/** A nats-server of the run's own, where one is installed, on loopback and at a free port. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import net from 'node:net'
import type { Lab } from './lab.ts'

const PROGRAM = 'nats-server'
const TRIES = 100
const PAUSE_MS = 50

export const hasNats = (): boolean => spawnSync(PROGRAM, ['--version']).status === 0

const freePort = async (): Promise<number> => {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as net.AddressInfo
  server.close()
  return port
}

const answers = async (port: number): Promise<boolean> => {
  const socket = net.connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** Its URL, once it answers; it ends with the lab. */
export const startNats = async (lab: Lab): Promise<string> => {
  const port = await freePort()
  const child = spawn(PROGRAM, ['-a', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' })
  const exit = once(child, 'exit')
  lab.undo(async () => {
    child.kill('SIGTERM')
    await exit
  })
  for (let tried = 0; tried < TRIES; tried += 1) {
    if (await answers(port)) return `nats://127.0.0.1:${port}/bench`
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
  throw new Error(`${PROGRAM} does not answer`)
}
