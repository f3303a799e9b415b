/** Where extensions of A2A stand in HTTP: asked for in headers of the request, told in the answer's. */
import type { Request } from 'express'
import { EXTENSION_HEADERS, extensionHeader, negotiate } from '../protocol/extensions.ts'
import { askedVersion } from '../protocol/versions.ts'
import type { Queue } from '../service/contract.ts'

/** The active ones of a request to this queue; the answer names them as its version spells it. */
export const negotiated = (req: Request, queue: Queue): ReadonlySet<string> => {
  const active = negotiate(
    queue.card,
    EXTENSION_HEADERS.map((name) => req.get(name)),
  )
  if (active.size > 0) {
    const version = askedVersion(req.get('A2A-Version'), req.query['A2A-Version'])
    req.res?.set(extensionHeader(version ?? ''), [...active].join(', '))
  }
  return active
}
