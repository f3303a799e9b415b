/**
 * The keys that the secrets of webhooks are sealed with: a list, or the name of a file that holds one.
 * Each key is 32 bytes, as base64 of either alphabet or as hexadecimal digits.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

export interface SecretKey {
  /** What tells it from the others in a row: says nothing of the key. */
  id: string
  key: Buffer
}

const KEYS_AT_MOST = 8
const KEY_BYTES = 32

const idOf = (key: Buffer): string =>
  createHash('sha256').update('switchboard secret key').update(key).digest('hex').slice(0, 8)

/** Null where the text is no key. */
const readKey = (text: string): SecretKey | null => {
  const isHex = /^[0-9a-f]{64}$/i.test(text)
  if (!isHex && !/^[\w+/-]{43}=?$/.test(text)) return null
  const key = Buffer.from(text, isHex ? 'hex' : 'base64')
  return key.length === KEY_BYTES ? { id: idOf(key), key } : null
}

const wordsIn = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '')

/** The keys themselves where the value is a list of them, else what the file of that name holds. */
const contentOf = (value: string): string[] => {
  const words = wordsIn(value)
  return words.some((word) => readKey(word)) ? words : wordsIn(readFileSync(value.trim(), 'utf8'))
}

/** All keys of a configured value, or one line for each problem with it; no line shows a key. */
export const readSecretKeys = (value: string): { keys: SecretKey[]; problems: string[] } => {
  let words: string[]
  try {
    words = contentOf(value)
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    const problem = `must be keys of ${KEY_BYTES} bytes as base64, with commas between, or the name of a file with them (${code})`
    return { keys: [], problems: [problem] }
  }
  if (words.length === 0 || words.length > KEYS_AT_MOST) {
    return { keys: [], problems: [`must hold 1 to ${KEYS_AT_MOST} keys`] }
  }
  const keys = words.map(readKey)
  const problems = keys.flatMap((key, index) => {
    if (!key) return [`key ${index + 1} is not ${KEY_BYTES} bytes as base64 or hexadecimal digits`]
    const isTwin = keys.findIndex((other) => other?.id === key.id) < index
    return isTwin ? [`key ${index + 1} is the same as one before it`] : []
  })
  return problems.length > 0
    ? { keys: [], problems }
    : { keys: keys.filter((key) => key !== null), problems }
}
