/**
 * Secrets that stand in a cookie or an address. Random, so that there is nothing to guess or to
 * sign; kept as their hash only, so that a copy of the database opens nothing.
 */
import { createHash, randomBytes } from 'node:crypto'

/** A longer text is none of ours, and not worth a query. */
const LENGTH_AT_MOST = 100

export const newSecret = (): string => randomBytes(32).toString('base64url')

export const isSecret = (text: string): boolean => text.length <= LENGTH_AT_MOST

export const hashOf = (secret: string): Buffer => createHash('sha256').update(secret).digest()
