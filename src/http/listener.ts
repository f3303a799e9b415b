/**
 * The socket: listening, and closing in bounded time. When the server stops, streams and waits have
 * been told to end, and requests under way may finish. Until they have, it goes on listening, so
 * that health checks are answered with "not ready" and clients with when to retry; then it closes.
 */
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { withTimeout } from '../base/time.ts'

export interface Listener {
  /** Resolves to the URL that is listened on; rejects with EADDRINUSE and the like. */
  start(handler: RequestListener): Promise<string>
  /** Requests under way get at most this many ms; those that have not ended by then are cut off. */
  stop(limitMs: number): Promise<void>
  url(): string
  /** The address and port that are listened on; null while there are none. */
  address(): { host: string; port: number } | null
}

/** A request must be read within these; a client that trickles its headers is cut off. */
const HEADERS_MS = 15_000
const REQUEST_MS = 60_000
const IDLE_MS = 20

export const createListener = ({ host, port }: { host: string; port: number }): Listener => {
  const server = createServer()
  server.headersTimeout = HEADERS_MS
  server.requestTimeout = REQUEST_MS
  server.keepAliveTimeout = 10_000
  let url = ''
  const underWay = new Set<ServerResponse>()
  let stopping = false

  /** Makes the client open a new connection, to another node, for its next request. */
  const partAfter = (res: ServerResponse): void => {
    if (!res.headersSent) res.setHeader('Connection', 'close')
  }

  const count = (res: ServerResponse): void => {
    underWay.add(res)
    res.on('close', () => underWay.delete(res))
    if (stopping) partAfter(res)
  }

  /** Waits for the requests under way now; those that come meanwhile are refused anyway. */
  const finished = async (limitMs: number): Promise<void> => {
    const closed = [...underWay].map((res) => {
      partAfter(res)
      return new Promise((resolve) => res.once('close', resolve))
    })
    await withTimeout(limitMs, 'requests', () => Promise.all(closed)).catch(() => {})
  }

  const close = (limitMs: number): Promise<void> =>
    new Promise((resolve) => {
      const cut = setTimeout(() => server.closeAllConnections(), limitMs)
      // A connection whose last answer ends meanwhile would be kept open for another request.
      const idle = setInterval(() => server.closeIdleConnections(), IDLE_MS)
      server.close(() => {
        clearTimeout(cut)
        clearInterval(idle)
        resolve()
      })
      server.closeIdleConnections()
    })

  const bracketed = (address: string): string => (address.includes(':') ? `[${address}]` : address)

  return {
    start: (handler) =>
      new Promise((resolve, reject) => {
        server.on('request', (_req, res) => count(res))
        server.on('request', handler)
        server.once('error', reject)
        server.listen(port, host, () => {
          server.removeListener('error', reject)
          const bound = server.address() as AddressInfo
          url = `http://${bracketed(host)}:${bound.port}`
          resolve(url)
        })
      }),
    stop: async (limitMs) => {
      if (!server.listening) return
      const deadline = performance.now() + limitMs
      stopping = true
      await finished(limitMs)
      await close(Math.max(0, deadline - performance.now()))
    },
    url: () => url,
    address: () => {
      const bound = server.address()
      return bound && typeof bound === 'object' ? { host: bound.address, port: bound.port } : null
    },
  }
}
