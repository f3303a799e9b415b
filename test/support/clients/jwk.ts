/** Private keys as JWKs, made anew. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'

const MAKERS = {
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey,
  ES384: () => generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey,
  ES512: () => generateKeyPairSync('ec', { namedCurve: 'P-521' }).privateKey,
  EdDSA: () => generateKeyPairSync('ed25519').privateKey,
  PS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
  short: () => generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey,
} satisfies Record<string, () => KeyObject>

export const newJwk = (alg: keyof typeof MAKERS, kid?: string): Record<string, unknown> => ({
  ...MAKERS[alg]().export({ format: 'jwk' }),
  ...(alg !== 'short' && { alg }),
  ...(kid !== undefined && { kid }),
})
