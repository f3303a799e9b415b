/** A real server on a free port, and raw requests to it. */
import { createServer, type RequestListener, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export const listen = async (listener: RequestListener): Promise<{ url: string; port: number }> => {
  const server: Server = createServer(listener)
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, port }
}

/** A socket that has sent this head, and what came back so far. */
export const rawRequest = (port: number, head: string): { socket: Socket; text: () => string } => {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
  })
  socket.on('error', () => undefined)
  socket.write(head)
  onTestFinished(() => void socket.destroy())
  return { socket, text: () => text }
}
