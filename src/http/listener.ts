/**
 * The socket: listening, and closing in bounded time. A connection is kept for requests under way
 * when the server stops; streams and waits have been told to end by then.
 */
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Listener {
  /** Rejects with EADDRINUSE and the like. Answers with the address that is listened on. */
  start(handler: RequestListener): Promise<string>
  stop(): Promise<void>
  url(): string
}

/** A request must be read within this; a client that trickles its header is cut off. */
const HEADERS_MS = 15_000
const REQUEST_MS = 60_000
const STOP_MS = 5000
const IDLE_MS = 20

export const createListener = ({ host, port }: { host: string; port: number }): Listener => {
  const server = createServer()
  server.headersTimeout = HEADERS_MS
  server.requestTimeout = REQUEST_MS
  server.keepAliveTimeout = 10_000
  let url = ''

  const bracketed = (address: string): string => (address.includes(':') ? `[${address}]` : address)

  return {
    start: (handler) =>
      new Promise((resolve, reject) => {
        server.on('request', handler)
        server.once('error', reject)
        server.listen(port, host, () => {
          server.removeListener('error', reject)
          const bound = server.address() as AddressInfo
          url = `http://${bracketed(host)}:${bound.port}`
          resolve(url)
        })
      }),
    stop: () =>
      new Promise((resolve) => {
        if (!server.listening) return resolve()
        const cut = setTimeout(() => server.closeAllConnections(), STOP_MS)
        // A connection whose last answer ends meanwhile would be kept open for a next request.
        const idle = setInterval(() => server.closeIdleConnections(), IDLE_MS)
        server.close(() => {
          clearTimeout(cut)
          clearInterval(idle)
          resolve()
        })
        server.closeIdleConnections()
      }),
    url: () => url,
  }
}
