/** The header that names a send, for every binding alike. Read, not judged: protocol/a2a/send-options.ts does. */
import type { IncomingMessage } from 'node:http'

/** Null when there was none; sent twice, Node has joined the two. */
export const idempotencyKeyOf = (req: IncomingMessage): string | null => {
  const value = req.headers['idempotency-key']
  return typeof value === 'string' ? value : null
}
