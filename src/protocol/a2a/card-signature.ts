/**
 * Signatures over agent cards (spec 8.4): JWS with a detached payload, which is the canonical form
 * of the 1.0 card without its signatures. Every key signs, so that a key can be replaced while
 * clients know only the old one. Nothing else imports jose.
 */
import { createHash } from 'node:crypto'
import { FlattenedSign, importJWK, type JWK } from 'jose'
import { canonicalJson } from '../../base/canonical-json.ts'
import type { AgentCard } from './card.ts'
import { under } from './interfaces.ts'

/** A private key that has been checked: `jwk` is complete, and `alg` fits it. */
export interface SigningKey {
  kid: string
  alg: string
  jwk: Readonly<Record<string, string>>
}

export const JWKS_PATH = '/.well-known/jwks.json'

const PUBLIC_MEMBERS = ['kty', 'crv', 'x', 'y', 'n', 'e']

const publicJwk = ({ kid, alg, jwk }: SigningKey): Record<string, string> => ({
  ...Object.fromEntries(Object.entries(jwk).filter(([name]) => PUBLIC_MEMBERS.includes(name))),
  kid,
  alg,
  use: 'sig',
})

/** The text that is signed. A card has no empty members (card.ts), so none need to be left out. */
const payloadOf = ({ signatures: _, ...card }: AgentCard): string => canonicalJson(card)

/** How many documents' signatures are kept; each takes a few kilobytes. */
const KEPT = 500

type Signatures = NonNullable<AgentCard['signatures']>

export const createCardSigner = (keys: readonly SigningKey[]) => {
  const imported = keys.map(({ jwk, alg }) => importJWK(jwk as JWK, alg))
  // Signing awaits these and sees their failure; until then it must not count as unhandled.
  for (const key of imported) key.catch(() => undefined)
  const made = new Map<string, Promise<Signatures>>()

  const signaturesOf = (payload: string, jku: string): Promise<Signatures> =>
    Promise.all(
      keys.map(async ({ kid, alg }, index) => {
        const jws = await new FlattenedSign(new TextEncoder().encode(payload))
          .setProtectedHeader({ alg, kid, typ: 'JOSE', jku })
          .sign(await imported[index]!)
        return { protected: jws.protected!, signature: jws.signature }
      }),
    )

  /** Keyed by content, so that nothing has to be forgotten when a card changes. */
  const remembered = (payload: string, jku: string): Promise<Signatures> => {
    const id = createHash('sha256').update(`${jku}\n${payload}`).digest('base64url')
    const known = made.get(id)
    if (known) return known
    const making = signaturesOf(payload, jku)
    made.set(id, making)
    if (made.size > KEPT) made.delete(made.keys().next().value!)
    making.catch(() => made.delete(id))
    return making
  }

  return {
    /** The names of the keys that sign. */
    kids: keys.map(({ kid }) => kid),
    /** The keys' public halves, for everybody. */
    jwks: { keys: keys.map(publicJwk) },
    /** The card with one signature by each key; unchanged if there are no keys. */
    sign: async (card: AgentCard, publicUrl: string): Promise<AgentCard> => {
      if (keys.length === 0) return card
      const signatures = await remembered(payloadOf(card), under(publicUrl, JWKS_PATH))
      return { ...card, signatures }
    },
  }
}

export type CardSigner = ReturnType<typeof createCardSigner>
