/**
 * The socket: listening, and closing in bounded time. When the server stops, streams and waits have
 * been told to end, and requests under way may finish. It goes on listening as long as they do, so
 * that whoever looks is told that this node is not ready, and where to come later; then it closes.
 */
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Listener {
  /** Rejects with EADDRINUSE and the like. Answers with the address that is listened on. */
  start(handler: RequestListener): Promise<string>
  /** Requests under way get at most so many ms; what has not ended by then is cut off. */
  stop(limitMs: number): Promise<void>
  url(): string
  /** The address and port that are listened on; null while there are none. */
  address(): { host: string; port: number } | null
}

/** A request must be read within this; a client that trickles its header is cut off. */
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

  /** The client takes its next request elsewhere. */
  const partAfter = (res: ServerResponse): void => {
    if (!res.headersSent) res.setHeader('Connection', 'close')
  }

  const count = (res: ServerResponse): void => {
    underWay.add(res)
    res.on('close', () => underWay.delete(res))
    if (stopping) partAfter(res)
  }

  /** Of the requests under way now; the ones that come meanwhile are refused, and not waited for. */
  const finished = (limitMs: number): Promise<void> => {
    const waitedFor = new Set(underWay)
    for (const res of waitedFor) partAfter(res)
    return new Promise((resolve) => {
      const limit = setTimeout(resolve, limitMs)
      const check = (): void => {
        if (waitedFor.size > 0) return
        clearTimeout(limit)
        resolve()
      }
      for (const res of waitedFor) {
        res.once('close', () => {
          waitedFor.delete(res)
          check()
        })
      }
      check()
    })
  }

  const close = (limitMs: number): Promise<void> =>
    new Promise((resolve) => {
      const cut = setTimeout(() => server.closeAllConnections(), limitMs)
      // A connection whose last answer ends meanwhile would be kept open for a next request.
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
