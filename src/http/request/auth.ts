/**
 * From the bearer token to the caller. Tokens come in the Authorization header and nowhere else,
 * since a URL ends up in logs. The admin token is compared in constant time; `authenticate` looks
 * endpoints up by hash. Failures are counted, and never logged with the token.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Caller } from '../../domain/endpoint.ts'
import { WireRefusal } from '../../protocol/wire/errors.ts'
import type { Authenticate } from '../../service/registry.ts'

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Compares tokens with this one, in a time that does not depend on how much of them is equal. */
const sameAs = (expected: string): ((given: string) => boolean) => {
  const hash = sha256(expected)
  return (given) => timingSafeEqual(sha256(given), hash)
}

export const isSameToken = (given: string, expected: string): boolean => sameAs(expected)(given)

/** The token of an `Authorization: Bearer …` header; null without one. */
export const bearerToken = (header: string | undefined): string | null =>
  /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1] ?? null

export interface AuthParts {
  authenticate: Authenticate
  /** Makes its sender the operator; null where there is no such token. */
  adminToken: string | null
  onFailure?: () => void
}

/** Who sent this request. Refuses: unauthenticated, and whatever `authenticate` refuses. */
export type Auth = (req: IncomingMessage) => Promise<Caller>

export const createAuth = ({ authenticate, adminToken, onFailure }: AuthParts): Auth => {
  const isAdmin = adminToken === null ? () => false : sameAs(adminToken)
  return async (req) => {
    const token = bearerToken(req.headers.authorization)
    if (token !== null && isAdmin(token)) return { kind: 'operator' }
    const caller = token === null ? null : await authenticate(token)
    if (caller) return caller
    onFailure?.()
    throw new WireRefusal('unauthenticated')
  }
}

/** The challenge of a 401 (RFC 6750 3), which says whether the token was missing or not valid. */
export const challengeFor = (req: IncomingMessage): string =>
  bearerToken(req.headers.authorization) === null
    ? 'Bearer realm="switchboard"'
    : 'Bearer realm="switchboard", error="invalid_token"'
