/**
 * Who is logged in to the board in a browser. A session is a random secret in an HttpOnly cookie; a
 * code is a secret that makes one session and is then spent, so that no token ever stands in a URL.
 * Both are rows, so any node knows them and a restart ends none. A session is checked with each
 * request, and ends with the token that opened it.
 */
import { timingSafeEqual } from 'node:crypto'
import type { Endpoint } from '../../domain/endpoint.ts'
import { type Caller, watchScope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import {
  addBoardCode,
  addBoardSession,
  type BoardSessionRow,
  endBoardSession,
  readBoardSession,
  readBoardSessions,
  revokeBoardSessions,
  spendBoardCode,
} from '../../store/admin/board-sessions.ts'
import { readEndpointByHash } from '../../store/admin/endpoints.ts'
import type { Parts } from '../parts.ts'
import type { Authenticate } from '../registry.ts'
import { createLogInFailures, type LogInFailures } from './log-in-failures.ts'
import { hashOf, isSecret, newSecret } from './secret.ts'

/** A session of the board, without its secret. */
export interface BoardSession {
  id: string
  /** Whose token opened it; null for the admin's token or a one-time code. */
  endpoint: Endpoint | null
  /** False once that token is no longer valid. */
  live: boolean
  createdAt: Date
  expiresAt: Date
}

export interface BoardSessions {
  sessionSeconds: number
  failures: LogInFailures
  /** A code that logs an operator in once, within this many seconds. */
  issueCode(seconds: number): Promise<string>
  /**
   * The secret of a new session; null if the token or code is not valid. Refuses: forbidden, if the
   * token is valid but may not watch.
   */
  login(proof: { token: string } | { code: string }): Promise<string | null>
  /** Who the session belongs to. It is read each time, so a revoked token ends its sessions. */
  authenticate(secret: string): Promise<Caller | null>
  end(secret: string): Promise<void>
  list(): Promise<BoardSession[]>
  /** Ends one session, or (null) all; returns how many. Refuses: not_found. */
  revoke(id: string | null): Promise<number>
}

/** A working day. */
const SESSION_SECONDS = 12 * 3600

interface BoardSessionsParts extends Pick<Parts, 'database'> {
  authenticate: Authenticate
  adminToken: string | null
}

export const createBoardSessions = (parts: BoardSessionsParts): BoardSessions => {
  const { database, authenticate } = parts
  const admin = parts.adminToken === null ? null : hashOf(parts.adminToken)

  const isAdmin = (token: Buffer | null): boolean =>
    admin === null || token === null ? admin === token : timingSafeEqual(admin, token)

  const callerOf = async (token: string): Promise<Caller | null> =>
    admin !== null && isAdmin(hashOf(token)) ? { kind: 'operator' } : authenticate(token)

  const open = async (token: Buffer | null): Promise<string> => {
    const secret = newSecret()
    await addBoardSession(database, {
      secret: hashOf(secret),
      token,
      seconds: SESSION_SECONDS,
    })
    return secret
  }

  /** Whoever the session's token belongs to now. */
  const ownerOf = async ({ tokenHash: token }: BoardSessionRow): Promise<Caller | null> => {
    if (isAdmin(token)) return { kind: 'operator' }
    const endpoint = token && (await readEndpointByHash(database, token))
    return endpoint && { kind: 'endpoint', endpoint }
  }

  return {
    sessionSeconds: SESSION_SECONDS,
    failures: createLogInFailures(parts),

    issueCode: async (seconds) => {
      const secret = newSecret()
      await addBoardCode(database, { secret: hashOf(secret), seconds })
      return secret
    },

    login: async (proof) => {
      if ('code' in proof) {
        if (!isSecret(proof.code) || !(await spendBoardCode(database, hashOf(proof.code)))) {
          return null
        }
        return open(admin)
      }
      const caller = await callerOf(proof.token)
      if (!caller) return null
      watchScope(caller)
      return open(hashOf(proof.token))
    },

    authenticate: async (secret) => {
      const row = isSecret(secret) ? await readBoardSession(database, hashOf(secret)) : null
      return row && ownerOf(row)
    },

    end: async (secret) => {
      if (isSecret(secret)) await endBoardSession(database, hashOf(secret))
    },

    list: async () => {
      const rows = await readBoardSessions(database)
      return Promise.all(
        rows.map(async (row) => {
          const caller = await ownerOf(row)
          return {
            id: row.id,
            endpoint: caller?.kind === 'endpoint' ? caller.endpoint : null,
            live: caller !== null,
            createdAt: row.createdAt,
            expiresAt: row.expiresAt,
          }
        }),
      )
    },

    revoke: async (id) => {
      const count = await revokeBoardSessions(database, id)
      if (id !== null && count === 0) throw new Refusal('not_found')
      return count
    },
  }
}
