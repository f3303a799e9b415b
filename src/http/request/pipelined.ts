/**
 * Responses that wait behind others of their connection. Node gives them a socket once it is their
 * turn, so when the connection breaks before that they never close: their calls would go on waiting
 * for nobody, and their answers would stay in memory. Here they are closed with their connection.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** A property of OutgoingMessage that its types leave out; `closed` is read from it. */
interface Closable {
  _closed?: boolean
}

const waiting = new WeakMap<Socket, Set<ServerResponse>>()

const close = (res: ServerResponse): void => {
  if (res.closed) return
  ;(res as Closable)._closed = true
  res.destroyed = true
  res.emit('close')
}

const behind = (socket: Socket): Set<ServerResponse> => {
  const known = waiting.get(socket)
  if (known) return known
  const all = new Set<ServerResponse>()
  waiting.set(socket, all)
  socket.once('close', () => {
    for (const res of all) close(res)
  })
  return all
}

/** To be called before a request is answered; does nothing for one that is the first in its line. */
export const closeWithConnection = (req: IncomingMessage, res: ServerResponse): void => {
  if (res.socket !== null) return
  const all = behind(req.socket)
  all.add(res)
  res.once('close', () => all.delete(res))
}
