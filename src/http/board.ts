/**
 * The board at `/board`: its page, its log-in and the todos it starts from; what happens
 * afterwards comes from /board/events (feeds.ts). The page's cookie is looked at under /board
 * only, and only where no bearer token was sent.
 */
import { type Request, Router } from 'express'
import type { Log } from '../base/log.ts'
import { invalid } from '../domain/errors.ts'
import { watchScope } from '../domain/scope.ts'
import { WireRefusal } from '../protocol/errors.ts'
import type { OperatorService } from '../service/contract.ts'
import type { Auth } from './auth.ts'
import { createBoardLogin, type LoginParts, readCookie } from './board-login.ts'
import { boardHeaders, createBoardPage } from './board-page.ts'
import type { BoardSessions } from './board-session.ts'
import { readSnapshot } from './board-snapshot.ts'
import { answerRefusal } from './refusal.ts'

export interface BoardParts extends LoginParts {
  operator: Pick<OperatorService, 'list' | 'listQueues'>
  boardAuth: Auth
  log: Pick<Log, 'error'>
}

/** Who asks on a path of the board: the bearer, else whoever is logged in. */
export const createBoardAuth =
  (auth: Auth, sessions: BoardSessions): Auth =>
  async (req) => {
    const session = readCookie(req)
    if (session === null || req.headers.authorization !== undefined) return auth(req)
    const caller = await sessions.authenticate(session)
    if (!caller) throw new WireRefusal('unauthenticated')
    return caller
  }

const readQueue = (req: Request): string | null => {
  const { queue } = req.query
  if (queue === undefined || queue === '') return null
  if (typeof queue !== 'string') throw invalid('queue', 'must name one queue')
  return queue
}

/** All of /board but its feed. Mount it before the feeds: its headers are theirs, too. */
export const createBoard = (parts: BoardParts): Router => {
  const router = Router()
  router.use('/board', boardHeaders)
  router.use(createBoardPage())
  router.use(createBoardLogin(parts))

  router.get('/board/todos', async (req, res) => {
    const caller = await parts.boardAuth(req)
    watchScope(caller)
    const snapshot = await readSnapshot(parts.operator, readQueue(req), caller)
    res.set('Cache-Control', 'no-store').json(snapshot)
  })

  router.use(answerRefusal(parts.log))
  return router
}
