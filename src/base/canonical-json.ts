/**
 * JSON in its one canonical form (RFC 8785), to be hashed or signed. The form is made by
 * `canonicalize`, in the only file that knows it. What the library has no notion of is added here:
 * numbers that are no doubles keep their digits, and what has no form is a TypeError.
 */
import canonicalize from 'canonicalize'
import { keepingDigits } from './exact-json.ts'

/**
 * The canonical text of a JSON value; members that are undefined are left out. Throws TypeError for
 * what JSON cannot say unambiguously: half surrogate pairs, NaN, Infinity.
 */
export const canonicalJson = (value: unknown): string => {
  let text: string | undefined
  try {
    text = keepingDigits(() => canonicalize(value))
  } catch (error) {
    if (!(error instanceof Error)) throw error
    throw new TypeError(`There is no canonical form: ${error.message}`, { cause: error })
  }
  if (text === undefined) throw new TypeError('What has no JSON has no canonical form')
  return text
}
