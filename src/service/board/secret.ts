/**
 * Secrets that stand in a cookie or an address. They are random, so there is nothing to guess or to
 * sign, and only their hash is kept, so a copy of the database opens nothing.
 */
import { createHash, randomBytes } from 'node:crypto'

/** A longer text is not one of ours, and not worth a query. */
const MAX_LENGTH = 100

export const newSecret = (): string => randomBytes(32).toString('base64url')

export const isSecret = (text: string): boolean => text.length <= MAX_LENGTH

export const hashOf = (secret: string): Buffer => createHash('sha256').update(secret).digest()
