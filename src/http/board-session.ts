/**
 * Who is logged in to the board in a browser. A session is a random id in an HttpOnly cookie that
 * is good for /board only; a code is a secret that makes one session and is then spent, so that no
 * token ever stands in a URL. Both live in this process: after a restart one logs in again. Their
 * time is the process's own (monotonic), since nothing of it is stored.
 */
import { randomBytes } from 'node:crypto'
import { type Caller, watchScope } from '../domain/scope.ts'
import { type AuthParts, isSameToken } from './auth.ts'

/** A working day. */
export const SESSION_MS = 12 * 3600_000
const MAX_SESSIONS = 1000
const MAX_CODES = 100

export type Proof = { token: string } | { code: string }

export interface BoardSessions {
  /** A code that logs `caller` in once within `ttlMs`. */
  issueCode(caller: Caller, ttlMs: number): string
  /**
   * The id of a new session; null when token or code are worth nothing. Refuses: forbidden, when
   * the token is good but may not watch.
   */
  login(proof: Proof): Promise<string | null>
  /** Who the session belongs to, asked anew each time: a revoked token ends its sessions. */
  authenticate(session: string): Promise<Caller | null>
  end(session: string): void
}

interface Entry {
  until: number
  who: () => Promise<Caller | null>
}

const secret = (): string => randomBytes(32).toString('base64url')

/** Keeps at most `max` entries, the oldest giving way, each no longer than it was given. */
const createKeep = (max: number) => {
  const entries = new Map<string, Entry>()
  const read = (key: string): Entry | null => {
    const entry = entries.get(key)
    if (!entry) return null
    if (entry.until > performance.now()) return entry
    entries.delete(key)
    return null
  }
  return {
    add(ttlMs: number, who: Entry['who']): string {
      const key = secret()
      entries.set(key, { until: performance.now() + ttlMs, who })
      const [oldest] = entries.keys()
      if (entries.size > max && oldest !== undefined) entries.delete(oldest)
      return key
    },
    read,
    take(key: string): Entry | null {
      const entry = read(key)
      entries.delete(key)
      return entry
    },
    drop: (key: string): void => {
      entries.delete(key)
    },
  }
}

export const createBoardSessions = ({
  authenticate,
  adminToken,
}: Pick<AuthParts, 'authenticate' | 'adminToken'>): BoardSessions => {
  const whose = async (token: string): Promise<Caller | null> =>
    adminToken !== null && isSameToken(token, adminToken)
      ? { kind: 'operator' }
      : authenticate(token)
  const sessions = createKeep(MAX_SESSIONS)
  const codes = createKeep(MAX_CODES)

  return {
    issueCode: (caller, ttlMs) => codes.add(ttlMs, () => Promise.resolve(caller)),

    login: async (proof) => {
      const who = 'code' in proof ? codes.take(proof.code)?.who : () => whose(proof.token)
      const caller = who && (await who())
      if (!who || !caller) return null
      watchScope(caller)
      return sessions.add(SESSION_MS, who)
    },

    authenticate: async (session) => {
      const caller = await sessions.read(session)?.who()
      if (caller) return caller
      sessions.drop(session)
      return null
    },

    end: sessions.drop,
  }
}
