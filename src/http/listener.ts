/**
 * The socket: listening, and closing in bounded time. When the server stops, streams and waits have
 * been told to end, and requests under way may finish. Until they have, it goes on listening, so
 * that health checks are answered with "not ready" and clients with when to retry. Idle connections
 * linger on: a request that is on its way over one would fail with a reset if it was closed, and is
 * now answered with `Connection: close`, which tells its client to go elsewhere. Then it closes.
 */
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sleep, withTimeout } from '../base/time.ts'
import { findDeadPeers } from './request/dead-peers.ts'
import { probeHalfClosed } from './request/half-closed.ts'

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
/**
 * A peer that died without a word is found by TCP's own probes, which the system sends once nothing
 * has moved for so long, ten of them a second apart. What was sent and not acknowledged puts the
 * probes off: see dead-peers.ts.
 */
export const PROBE_AFTER_MS = 4000

export interface ListenerOptions {
  host: string
  port: number
  /** How long a connection may be idle before it is closed. */
  keepAliveSeconds: number
  /** How long idle connections are kept once the server stops, in ms. Default: 0. */
  lingerMs?: number | undefined
}

export const createListener = (options: ListenerOptions): Listener => {
  const { host, port, keepAliveSeconds, lingerMs = 0 } = options
  const server = createServer({ keepAlive: true, keepAliveInitialDelay: PROBE_AFTER_MS })
  server.headersTimeout = HEADERS_MS
  server.requestTimeout = REQUEST_MS
  server.keepAliveTimeout = keepAliveSeconds * 1000
  probeHalfClosed(server)
  let url = ''
  let endLooks = (): void => {}
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

  const connections = (): Promise<number> =>
    new Promise((resolve) => {
      server.getConnections((error, count) => resolve(error ? 0 : count))
    })

  /** Until every connection has been told to end, or was closed by its peer. */
  const lingered = async (limitMs: number): Promise<void> => {
    const deadline = performance.now() + Math.min(lingerMs, limitMs)
    while (performance.now() < deadline && (await connections()) > 0) await sleep(IDLE_MS)
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
          endLooks = findDeadPeers(bound.port, underWay)
          resolve(url)
        })
      }),
    stop: async (limitMs) => {
      if (!server.listening) return
      const deadline = performance.now() + limitMs
      stopping = true
      await Promise.all([finished(limitMs), lingered(limitMs)])
      await close(Math.max(0, deadline - performance.now()))
      endLooks()
    },
    url: () => url,
    address: () => {
      const bound = server.address()
      return bound && typeof bound === 'object' ? { host: bound.address, port: bound.port } : null
    },
  }
}
