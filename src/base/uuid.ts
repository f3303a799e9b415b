/**
 * Ids that the server makes, which sort by the time they were made (UUIDv7, RFC 9562 5.7). Rows
 * made together lie together in every index, so a commit writes a few of its pages instead of one
 * for each row. The 74 bits after the time are random, so nobody guesses an id.
 */
import { createHash, randomBytes } from 'node:crypto'

export const newId = (now: number = Date.now()): string => {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(now, 0, 6)
  return written(bytes)
}

/** The same id for the same text, beside that of `neighbor` in every index. The text is to be secret. */
export const idFrom = (neighbor: string, text: string): string => {
  const bytes = createHash('sha256').update(text).digest().subarray(0, 16)
  bytes.write(neighbor.replaceAll('-', '').slice(0, 12), 'hex')
  return written(bytes)
}

const written = (bytes: Buffer): string => {
  bytes[6] = (bytes[6]! & 0x0f) | 0x70
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Callers may send any text as an id. Text that is no UUID names nothing and reaches no cast. */
export const isUuid = (id: string): boolean => UUID.test(id)
