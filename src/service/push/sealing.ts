/**
 * The secrets of webhooks as they lie in the database: sealed with the first key of the node, where it
 * has one (AES-256-GCM); plain otherwise. Rows of either kind are read, whichever key sealed them.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { LeasedDelivery } from '../../store/push/deliveries.ts'

export interface SealingKey {
  id: string
  key: Buffer
}

/** What a sealed text is part of: it is no other config's secret and no other member's. */
type About = 'token' | 'credentials' | 'secret'

export interface Sealing {
  seal<T extends string | undefined>(text: T, configId: string, about: About): T
  /** Throws Unreadable. */
  open<T extends string | null>(kept: T, configId: string, about: About): T
}

/** It was sealed with a key that this node does not have, or was changed since. */
export class Unreadable extends Error {
  override name = 'Unreadable'
}

/**
 * No header can carry this sign, and no secret that is kept plain has it. So a node of a version that
 * does not know of keys sends nothing of a sealed row.
 */
const MARK = '🔒'
const ALGORITHM = 'aes-256-gcm'
const NONCE = 12
const TAG = 16

export const createSealing = (keys: readonly SealingKey[]): Sealing => {
  const [first] = keys
  const boundTo = (configId: string, about: About): Buffer => Buffer.from(`${about} ${configId}`)

  return {
    seal: (text, configId, about) => {
      if (text === undefined || !first) return text
      const nonce = randomBytes(NONCE)
      const cipher = createCipheriv(ALGORITHM, first.key, nonce)
      cipher.setAAD(boundTo(configId, about))
      const sealed = [nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]
      return `${MARK}${first.id}.${Buffer.concat(sealed).toString('base64url')}` as typeof text
    },
    open: (kept, configId, about) => {
      if (kept === null || !kept.startsWith(MARK)) return kept
      const [id, body = ''] = kept.slice(MARK.length).split('.')
      const found = keys.find((key) => key.id === id)
      if (!found) throw new Unreadable(`sealed with key ${id}, which this node does not have`)
      const bytes = Buffer.from(body, 'base64url')
      try {
        const nonce = bytes.subarray(0, NONCE)
        const decipher = createDecipheriv(ALGORITHM, found.key, nonce, { authTagLength: TAG })
        decipher.setAAD(boundTo(configId, about)).setAuthTag(bytes.subarray(-TAG))
        const text = decipher.update(bytes.subarray(NONCE, -TAG), undefined, 'utf8')
        return `${text}${decipher.final('utf8')}` as typeof kept
      } catch {
        throw new Unreadable(`changed since it was sealed with key ${id}`)
      }
    },
  }
}

/** A delivery with its secrets opened. Throws Unreadable. */
export const opened = <T extends LeasedDelivery>(delivery: T, { open }: Sealing): T => {
  const { configId, token, credentials, secrets } = delivery
  return {
    ...delivery,
    token: open(token, configId, 'token'),
    credentials: open(credentials, configId, 'credentials'),
    secrets: secrets.map((secret) => open(secret, configId, 'secret')),
  }
}
