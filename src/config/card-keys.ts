/**
 * The keys that sign agent cards: a JWK or a JWK set, inline or in a file. They are tried when the
 * configuration is read, since the first card would be too late to find one wrong. What is wrong is
 * reported without any part of a key.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  type JsonWebKey,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto'
import { readFileSync } from 'node:fs'

export interface CardKey {
  /** The key's own `kid`, else its thumbprint (RFC 7638). */
  kid: string
  alg: string
  /** The members that make up the key, and no others. */
  jwk: Readonly<Record<string, string>>
}

/** The limit on keys, each of which adds a signature to every card. */
const KEYS_AT_MOST = 8
const RSA_BITS_AT_LEAST = 2048

/** Signature algorithms by kind of key; the first is used where the key names none. */
const ALGORITHMS: Readonly<Record<string, readonly string[]>> = {
  'EC P-256': ['ES256'],
  'EC P-384': ['ES384'],
  'EC P-521': ['ES512'],
  'OKP Ed25519': ['EdDSA', 'Ed25519'],
  RSA: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
}

const PUBLIC_MEMBERS: Readonly<Record<string, readonly string[]>> = {
  EC: ['crv', 'kty', 'x', 'y'],
  OKP: ['crv', 'kty', 'x'],
  RSA: ['e', 'kty', 'n'],
}
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi']

type Given = Record<string, unknown>

const isObject = (value: unknown): value is Given =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const textMembers = (key: Given, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    names.flatMap((name) => (typeof key[name] === 'string' ? [[name, key[name]]] : [])),
  )

/** The public members in the order of their names, which the thumbprint requires. */
const publicPart = (key: Given): Record<string, string> =>
  textMembers(key, PUBLIC_MEMBERS[String(key.kty)] ?? [])

const thumbprint = (key: Given): string =>
  createHash('sha256')
    .update(JSON.stringify(publicPart(key)))
    .digest('base64url')

const PROBE = Buffer.from('switchboard')

/** Whether the two halves belong to one key. */
const belongTogether = (privateKey: KeyObject, publicKey: KeyObject): boolean => {
  const hash = privateKey.asymmetricKeyType === 'ed25519' ? null : 'sha256'
  return verify(hash, PROBE, publicKey, sign(hash, PROBE, privateKey))
}

/** Whether the members are base64url. Node accepts more than that, other readers do not. */
const isStrict = ({ kty: _kty, crv: _crv, ...material }: Record<string, string>): boolean =>
  Object.values(material).every((text) => /^[\w-]+$/.test(text))

/** Why these members do not make a key that can sign; null when they do. */
const materialProblem = (key: Given, members: Record<string, string>): string | null => {
  if (!isStrict(members)) return 'has members that are not base64url'
  try {
    const privateKey = createPrivateKey({ key: members as JsonWebKey, format: 'jwk' })
    const publicKey = createPublicKey({ key: publicPart(key) as JsonWebKey, format: 'jwk' })
    const bits = publicKey.asymmetricKeyDetails?.modulusLength
    if (bits !== undefined && bits < RSA_BITS_AT_LEAST) {
      return `must have at least ${RSA_BITS_AT_LEAST} bits`
    }
    return belongTogether(privateKey, publicKey) ? null : 'has halves that do not belong together'
  } catch {
    return 'cannot be read as a private key'
  }
}

/** One key, or what is wrong with it. */
const readKey = (key: unknown): CardKey | string => {
  if (!isObject(key)) return 'is no JSON object'
  const kind = key.kty === 'RSA' ? 'RSA' : `${String(key.kty)} ${String(key.crv)}`
  const algorithms = Object.hasOwn(ALGORITHMS, kind) ? ALGORITHMS[kind] : undefined
  if (!algorithms) {
    return `must be one of ${Object.keys(ALGORITHMS).join(', ')} by its kty and crv`
  }
  const { alg = algorithms[0], kid = thumbprint(key), use = 'sig', d } = key
  if (typeof d !== 'string') return 'has no private part'
  if (use !== 'sig') return 'is not for signatures by its use'
  if (typeof kid !== 'string' || !/^[\x21-\x7e]{1,200}$/.test(kid)) {
    return 'must have a kid of 1 to 200 printable ASCII letters, or none'
  }
  if (typeof alg !== 'string' || !algorithms.includes(alg)) {
    return `must have an alg among ${algorithms.join(', ')}, or none`
  }
  const jwk = { ...publicPart(key), ...textMembers(key, PRIVATE_MEMBERS) }
  return materialProblem(key, jwk) ?? { kid, alg, jwk }
}

const withoutTwins = (keys: readonly (CardKey | string)[]): (CardKey | string)[] => {
  const seen = new Set<string>()
  return keys.map((key) => {
    if (typeof key === 'string') return key
    if (seen.has(key.kid)) return 'has the kid of a key before it'
    seen.add(key.kid)
    return key
  })
}

/** The value itself where it begins like JSON, else the content of the file of that name. */
const contentOf = (value: string): string =>
  value.trim().startsWith('{') ? value : readFileSync(value, 'utf8')

const keysIn = (document: unknown): unknown[] | null => {
  if (!isObject(document)) return null
  if (!('keys' in document)) return [document]
  return Array.isArray(document.keys) ? document.keys : null
}

/** All keys of a configured value, or one line for each problem with it. */
export const readCardKeys = (value: string): { keys: CardKey[]; problems: string[] } => {
  const wrong = (...problems: string[]) => ({ keys: [], problems })
  let content: string
  try {
    content = contentOf(value)
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    return wrong(`must be a JWK, a JWK set or the name of a file with one (${code})`)
  }
  let document: unknown
  try {
    document = JSON.parse(content)
  } catch {
    return wrong('holds no JSON that can be read')
  }
  const given = keysIn(document)
  if (!given) return wrong('must hold a JWK, or a JWK set with a list of keys')
  if (given.length === 0 || given.length > KEYS_AT_MOST) {
    return wrong(`must hold 1 to ${KEYS_AT_MOST} keys`)
  }
  const read = withoutTwins(given.map(readKey))
  const problems = read.flatMap((key, index) =>
    typeof key === 'string' ? [`key ${index + 1} ${key}`] : [],
  )
  return problems.length > 0
    ? wrong(...problems)
    : { keys: read.filter((key) => typeof key !== 'string'), problems }
}
