/** Entity tags of what may be cached (RFC 9110 8.8.3 and 13.1.2). */
import { createHash } from 'node:crypto'

/** A strong tag of these bytes. */
export const etagOf = (body: string): string =>
  `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`

/** Whether `If-None-Match` (its raw value) names this tag, by weak comparison. */
export const isKnown = (ifNoneMatch: string | undefined, etag: string): boolean => {
  const opaque = etag.replace(/^W\//, '')
  return (ifNoneMatch ?? '')
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''))
    .some((tag) => tag === '*' || tag === opaque)
}
