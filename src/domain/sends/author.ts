/**
 * Authors: the people, or programs, on whose behalf a client speaks. One endpoint may stand for many of
 * them, as a bridge to a group chat does; an author is known within its client only, so that two clients'
 * `ann` are two authors. A send that names nobody has the author null, who is equal to itself alone.
 */
import type { Endpoint } from '../endpoint.ts'

const AUTHOR_MAX_LENGTH = 200

/** The member of a send's metadata that names its author. */
export const AUTHOR_MEMBER = 'switchboard/author'

/** The same in the spelling of the other members, for clients that write it like those. */
export const AUTHOR_ALIAS = 'urn:switchboard:author'

export const AUTHOR_RULE = `must be 1 to ${AUTHOR_MAX_LENGTH} characters without line breaks, control or format characters, and no blank at either end`

/** One name in two Unicode spellings is one author. */
export const normalAuthor = (name: string): string => name.normalize('NFC')

/** What is shown as one word of a line, and is not taken for another that looks the same. */
export const isAuthor = (value: unknown): value is string =>
  typeof value === 'string' &&
  value !== '' &&
  value === value.trim() &&
  normalAuthor(value).length <= AUTHOR_MAX_LENGTH &&
  !/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(value)

/**
 * Whom a send is from. Its client is believed about its own people. A credential that proves who its
 * bearer is, as a token with a subject would, is asked here: that name is taken, and another refused.
 */
export const authorOf = (_sender: Endpoint | null, named: string | undefined): string | null =>
  named ?? null
