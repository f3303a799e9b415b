/**
 * Logging in to the board and out again. A token comes in a JSON body that only the page itself may
 * post; a one-time code may stand in a URL, since the first use spends it. Failures are bounded for
 * each address, so that nobody guesses at leisure.
 */
import type { IncomingMessage } from 'node:http'
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
const MAX_ADDRESSES = 1000
const BODY = { mediaTypes: ['application/json'], limitBytes: 4096, timeoutMs: 5000 }

/** The session's secret, as the browser sent it. */
export const readCookie = (req: IncomingMessage): string | null => {
  for (const pair of (req.headers.cookie ?? '').split(';')) {
    const [name, value] = pair.split('=', 2)
    if (name?.trim() === COOKIE && value) return value.trim()
  }
  return null
}

/**
 * Counts an attempt before it is checked, or a burst in parallel would go uncounted, and takes a
 * success back. When there are too many addresses the oldest is forgotten: memory is bounded first.
 */
const createGate = () => {
  const failures = new Map<string, { count: number; until: number }>()
  return {
    /** Returns the function that takes the attempt back, to be called once it has passed. */
    enter(address: string): () => void {
      const now = performance.now()
      let entry = failures.get(address)
      if (!entry || entry.until <= now) {
        entry = { count: 0, until: now + WINDOW_MS }
        failures.delete(address)
        failures.set(address, entry)
        const [oldest] = failures.keys()
        if (failures.size > MAX_ADDRESSES && oldest !== undefined) failures.delete(oldest)
      }
      if (entry.count >= MAX_FAILURES) {
        const retryAfterSeconds = Math.ceil((entry.until - now) / 1000)
        throw new Refusal('rate_limited', { retryAfterSeconds })
      }
      const counted = entry
      counted.count += 1
      return () => {
        counted.count -= 1
      }
    },
  }
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
    const passed = gate.enter(req.ip ?? '')
    const session = await sessions.login(proof)
    if (session === null) return false
    passed()
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
    if (!(await login(req, res, { token: await readToken(req) }))) {
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
