/** Where extensions of A2A stand in HTTP: asked for in headers of the request, told in the answer's. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Queue } from '../domain/queue.ts'
import { EXTENSION_HEADERS, extensionHeader, negotiate } from '../protocol/a2a/extensions.ts'
import { askedVersion } from '../protocol/versions.ts'
import { requestedVersion } from './request.ts'

const headerOf = ({ headers }: IncomingMessage, name: string): string | undefined => {
  const value = headers[name.toLowerCase()]
  return typeof value === 'string' ? value : value?.join(', ')
}

/** The active ones of a request to this queue; the answer names them as its version spells it. */
export const negotiated = (
  req: IncomingMessage,
  res: ServerResponse,
  queue: Queue,
): ReadonlySet<string> => {
  const active = negotiate(
    queue.card,
    EXTENSION_HEADERS.map((name) => headerOf(req, name)),
  )
  if (active.size > 0) {
    const version = askedVersion(...requestedVersion(req))
    res.setHeader(extensionHeader(version ?? ''), [...active].join(', '))
  }
  return active
}
