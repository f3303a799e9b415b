/**
 * Logging in to the board and out again. A token comes in a JSON body that only the page itself may
 * post; a one-time code may stand in a URL, since the first use spends it. Failures are bounded, by
 * what was tried and by address, so that nobody guesses at leisure.
 */
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIPv6 } from 'node:net'
import { parseCookie } from 'cookie'
import { type Request, type Response, Router } from 'express'
import { invalid, Refusal } from '../../domain/errors.ts'
import { WireRefusal } from '../../protocol/wire/errors.ts'
import { parseJson } from '../../rpc/envelope.ts'
import type { BoardSessions } from '../../service/board/sessions.ts'
import { readText } from '../request/body.ts'
import { createSameOrigin } from './same-origin.ts'

const COOKIE = 'switchboard_board'
const WINDOW_MS = 60_000
const MAX_FAILURES = 10
const MAX_REMEMBERED = 1000
const BODY = { mediaTypes: ['application/json'], limitBytes: 4096, timeoutMs: 5000 }

/** The session's secret, as the browser sent it. */
export const readCookie = (req: IncomingMessage): string | null =>
  parseCookie(req.headers.cookie ?? '')[COOKIE] || null

/** Failures of one kind of culprit. Of too many the oldest is forgotten: memory is bounded first. */
const createTally = () => {
  const failures = new Map<string, { count: number; until: number }>()
  return {
    /** Refuses: rate_limited, if this one has failed too often lately. */
    check(culprit: string): void {
      const { count, until } = failures.get(culprit) ?? { count: 0, until: 0 }
      const leftMs = until - performance.now()
      if (count < MAX_FAILURES || leftMs <= 0) return
      throw new Refusal('rate_limited', { retryAfterSeconds: Math.ceil(leftMs / 1000) })
    },
    add(culprit: string): void {
      const now = performance.now()
      const entry = failures.get(culprit)
      if (entry && entry.until > now) {
        entry.count += 1
        return
      }
      failures.delete(culprit)
      failures.set(culprit, { count: 1, until: now + WINDOW_MS })
      const [oldest] = failures.keys()
      if (failures.size > MAX_REMEMBERED && oldest !== undefined) failures.delete(oldest)
    },
  }
}

/**
 * Bounds failures by what was tried and by where it came from. What was tried too often is not looked
 * up again. An address that failed too often is told only that, however it goes on failing; what is
 * good still opens the board, since behind a proxy, or one office's router, many people share it.
 */
const createGate = () => {
  const byProof = createTally()
  const byNetwork = createTally()
  return {
    check: (proof: string): void => byProof.check(hashOf(proof)),
    /** Refuses: rate_limited. Neither an error nor a success is a failure, so they are not told. */
    failed(proof: string, address: string): void {
      const network = networkOf(address)
      byProof.add(hashOf(proof))
      byNetwork.check(network)
      byNetwork.add(network)
    },
  }
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64url')

/** Whoever has an address of IPv6 has at least the 2^64 that begin like it. */
export const networkOf = (address: string): string => {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.toLowerCase().replace(/%.*/, '').split('::')
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'))
  const [first, last] = [groups(head), groups(tail ?? '')]
  const zeros = Array.from({ length: Math.max(0, 8 - first.length - last.length) }, () => '0')
  return `${[...first, ...(tail === undefined ? [] : zeros), ...last]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}

export interface LoginParts {
  sessions: Pick<BoardSessions, 'sessionSeconds' | 'login' | 'authenticate' | 'end'>
  /** Where browsers reach this server. It decides Secure, and which Origin is our own. */
  publicUrl: () => string
}

const readToken = async (req: Request): Promise<string> => {
  const body = parseJson(await readText(req, BODY))
  const token = typeof body === 'object' && body !== null && 'token' in body ? body.token : null
  if (typeof token !== 'string' || token === '') throw invalid('token', 'is required')
  return token
}

export const createBoardLogin = ({ sessions, publicUrl }: LoginParts): Router => {
  const gate = createGate()
  const ownOnly = createSameOrigin(publicUrl)

  /** The cookie is sent below the path that the host application gave us, and only to /board. */
  const cookieFor = (req: Request) => ({
    httpOnly: true,
    sameSite: 'strict' as const,
    secure: req.secure || publicUrl().startsWith('https:'),
    path: `${req.baseUrl}/board`,
  })

  const login = async (
    req: Request,
    res: Response,
    proof: Parameters<BoardSessions['login']>[0],
  ): Promise<boolean> => {
    const tried = 'token' in proof ? proof.token : proof.code
    gate.check(tried)
    const session = await sessions.login(proof)
    if (session === null) return false
    const former = readCookie(req)
    if (former !== null) await sessions.end(former)
    res.cookie(COOKIE, session, { ...cookieFor(req), maxAge: sessions.sessionSeconds * 1000 })
    return true
  }

  const isLoggedIn = async (req: Request): Promise<boolean> => {
    const session = readCookie(req)
    return session !== null && (await sessions.authenticate(session)) !== null
  }

  const router = Router()
  router.use(['/board/login', '/board/logout'], (_req, res, next) => {
    res.set('Cache-Control', 'no-store')
    next()
  })

  router.post('/board/login', ownOnly, async (req, res) => {
    const token = await readToken(req)
    if (!(await login(req, res, { token }))) {
      gate.failed(token, req.ip ?? '')
      throw new WireRefusal('unauthenticated', 'This token is not valid')
    }
    res.status(204).end()
  })

  router.get('/board/login', async (req, res) => {
    const { code } = req.query
    // Neither a link preview nor another site's page may spend the code.
    if (req.method === 'HEAD' || req.get('sec-fetch-site') === 'cross-site') {
      res.status(403).type('text/plain').send('Open this link from the address bar.\n')
      return
    }
    const spent = typeof code === 'string' && code !== '' && (await login(req, res, { code }))
    // Whoever uses this morning's link again is logged in already.
    if (spent || (await isLoggedIn(req))) {
      res.redirect(303, '../board')
      return
    }
    if (typeof code === 'string') gate.failed(code, req.ip ?? '')
    const text = 'This link was used before or has expired. The board itself asks for a token.\n'
    res.status(401).type('text/plain').send(text)
  })

  router.post('/board/logout', ownOnly, async (req, res) => {
    const session = readCookie(req)
    if (session !== null) await sessions.end(session)
    res.clearCookie(COOKIE, cookieFor(req)).status(204).end()
  })
  return router
}
