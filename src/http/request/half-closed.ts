/**
 * A peer that has closed its sending side may read on for its answer, as some proxies do, or be gone
 * with its process: the two look the same until something is written. So a call that goes on after
 * its peer's last byte is probed by writing what no reader takes for content: interim responses
 * (RFC 9110 15.2) before the answer has begun, comments in an event stream. Where nobody reads, the
 * connection breaks, and with it the call.
 */
import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** A property of http.Server that its types leave out: whether to answer after the peer's end. */
interface HalfOpen {
  httpAllowHalfOpen: boolean
}

/** A call that is answered within this is not probed at all. */
export const GRACE_MS = 50
/** The first probe makes the peer's system say that nobody is there, the second hears it. */
const PAUSES_MS = [100, 400]
export const LATER_MS = 5000
/** Who has outlived so many probes is there. */
const PROBES = 2

const isStream = (res: ServerResponse): boolean =>
  String(res.getHeader('content-type')).startsWith('text/event-stream')

const probe = (res: ServerResponse): void => {
  if (!res.headersSent) {
    // HTTP/1.0 has no interim responses; such a call ends with its own wait.
    if (res.req.httpVersion !== '1.0') res.writeProcessing()
  }
  // A reader that lags is found by what it does not take.
  else if (isStream(res) && !res.writableNeedDrain) res.write(':\n')
}

/** Probes until the call is over; resolves once it is known whether the peer is there. */
const probeUntilOver = (res: ServerResponse): Promise<boolean> =>
  new Promise((resolve) => {
    let probes = 0
    const next = (): void => {
      if (res.closed || res.writableEnded) return
      if (probes === PROBES) resolve(true)
      probe(res)
      timer = setTimeout(next, PAUSES_MS[probes] ?? LATER_MS)
      probes += 1
    }
    let timer = setTimeout(next, GRACE_MS)
    res.once('close', () => {
      clearTimeout(timer)
      resolve(res.writableFinished)
    })
  })

const verdicts = new WeakMap<ServerResponse, Promise<boolean>>()

/** Whether the peer of a call is still there, as far as can be found out. */
export const isPeerThere = (res: ServerResponse): boolean | Promise<boolean> =>
  verdicts.get(res) ?? !res.closed

/** Lets the peers of `server` close their sending side, and finds those that are gone. */
export const probeHalfClosed = (server: Server): void => {
  ;(server as unknown as HalfOpen).httpAllowHalfOpen = true
  const latest = new WeakMap<Socket, ServerResponse>()
  server.on('request', (_req, res) => {
    if (res.socket) latest.set(res.socket, res)
  })
  // One function for all, since there are thousands of connections.
  function end(this: Socket): void {
    const res = latest.get(this)
    if (res && !res.closed && !res.writableEnded) verdicts.set(res, probeUntilOver(res))
  }
  server.on('connection', (socket) => void socket.on('end', end))
}
