/**
 * The board at `/board`: its page, its log-in, the todos of its lanes, and what one may do from it.
 * What happens meanwhile comes from /board/events (stream/feeds.ts). The page's cookie counts under
 * /board only, and only where no bearer token was sent.
 */

import { type Request, Router } from 'express'
import { defined } from '../../base/defined.ts'
import { exactText } from '../../base/exact-json.ts'
import type { Log } from '../../base/log.ts'
import { type Caller, watchScope } from '../../domain/endpoint.ts'
import { invalid } from '../../domain/errors.ts'
import { apiError, WireRefusal } from '../../protocol/wire/errors.ts'
import type { Call, MethodTable, Services } from '../../protocol/wire/method.ts'
import { createRpc } from '../../rpc/server.ts'
import type { Activity } from '../../service/board/activity.ts'
import type { BoardLane, BoardService } from '../../service/board/lanes.ts'
import type { BoardSessions } from '../../service/board/sessions.ts'
import { rpcRoute } from '../bindings/rpc-route.ts'
import type { HttpBounds } from '../bounds/bounds.ts'
import { ownerOf } from '../bounds/callers.ts'
import type { Auth } from '../request/auth.ts'
import { answerRefusal } from '../request/refusal.ts'
import { readFilter } from '../stream/feed-filter.ts'
import type { ReadSnapshot } from '../stream/feeds.ts'
import type { Reauthorizer } from '../stream/reauthorize.ts'
import { CARDS, fromCard, readLane } from './cards.ts'
import { createBoardLogin, type LoginParts, readCookie } from './login.ts'
import { boardHeaders, createBoardPage } from './page.ts'
import { createSameOriginCalls } from './same-origin.ts'

export interface BoardParts extends LoginParts {
  board: BoardService
  activity: Activity
  /** Boards that ask at one moment share a reading. */
  snapshots: ReadSnapshot
  services: Services
  /** The board may call a part of it (isBoards). */
  operatorTable: MethodTable
  boardAuth: Auth
  log: Pick<Log, 'debug' | 'warn' | 'error'>
  reauthorizer: Reauthorizer
  stopping?: AbortSignal
  /** What is shared with the other paths. */
  bounds: HttpBounds
  maxBodyValues?: number
}

/** Who the caller is on a path of the board: the bearer, else whoever is logged in. */
export const createBoardAuth =
  (auth: Auth, sessions: Pick<BoardSessions, 'authenticate'>): Auth =>
  async (req) => {
    const session = readCookie(req)
    if (session === null || req.headers.authorization !== undefined) return auth(req)
    const caller = await sessions.authenticate(session)
    if (!caller) throw new WireRefusal('unauthenticated')
    return caller
  }

const LANES: Record<BoardLane, true> = {
  waiting: true,
  held: true,
  interrupted: true,
  ended: true,
  dead: true,
}
const MAX_PAGE = 200
const MAX_IDS = 100

const textOf = (req: Request, name: string): string | null => {
  const value = req.query[name]
  if (value === undefined || value === '') return null
  if (typeof value !== 'string') throw invalid(name, 'must be given once')
  return value
}

const readIds = (req: Request): string[] | null => {
  const ids = textOf(req, 'ids')?.split(',') ?? null
  if (ids && ids.length > MAX_IDS) throw invalid('ids', `must be at most ${MAX_IDS}`)
  return ids
}

const readSize = (req: Request): number => {
  const text = textOf(req, 'pageSize')
  if (text === null) return CARDS
  const size = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (size < 1 || size > MAX_PAGE) throw invalid('pageSize', `must be from 1 to ${MAX_PAGE}`)
  return size
}

/** `?ids=` asks for some todos, `?lane=` for a page of a lane, neither for the first of all, and the position they were read at. */
const readTodos = async (
  { board, snapshots }: Pick<BoardParts, 'board' | 'snapshots'>,
  req: Request,
  caller: Caller,
): Promise<object> => {
  const ids = readIds(req)
  if (ids) return { todos: (await board.cards(ids, caller)).map(fromCard) }
  const filter = readFilter(req, caller)
  const lane = textOf(req, 'lane')
  if (lane === null) {
    const [frame] = await snapshots(filter, caller)
    return frame!.data as object
  }
  if (!Object.hasOwn(LANES, lane)) throw invalid('lane', `must be ${Object.keys(LANES).join(', ')}`)
  const token = textOf(req, 'pageToken') ?? undefined
  const page = { size: readSize(req), ...defined({ token }) }
  return readLane(board, lane as BoardLane, filter, page, caller)
}

/** Who is logged in, and what the page may offer. The server decides again at each call. */
const meOf = async (board: BoardService, caller: Caller) => {
  const operator = caller.kind === 'operator'
  const verbs = operator ? [] : caller.endpoint.verbs
  return {
    name: operator ? 'operator' : caller.endpoint.name,
    queues: await board.queues(caller),
    mayAnswer: operator || verbs.includes('answer'),
    mayOperate: operator,
  }
}

/** The methods that the board may call: all about todos, and the log of their deliveries. */
const isBoards = (method: string): boolean =>
  method.startsWith('todos.') || method === 'deliveries.list'

/** POST /board/operator: those methods, by the cookie, and from the page only. */
const calls = (parts: BoardParts) => {
  const { services, operatorTable, boardAuth, reauthorizer, log, stopping } = parts
  const { maxBodyValues: maxValues } = parts
  const rows = Object.entries(operatorTable).filter(([name]) => isBoards(name))
  const served = { table: Object.fromEntries(rows), writeError: apiError }
  return rpcRoute<Call>({
    rpc: createRpc<Call>({ tables: [served], writeError: apiError, batches: false, log }),
    auth: boardAuth,
    reauthorizer,
    ...parts.bounds,
    body: defined({ mediaTypes: ['application/json'], maxValues }),
    open: (_req, facts) => ({
      serve: () => served,
      enter: async () => ({ ...facts, services }),
    }),
    ...defined({ stopping }),
  })
}

/** All of /board but its feed. Mount it before the feeds, which need its headers, too. */
export const createBoard = (parts: BoardParts): Router => {
  const { board, activity, boardAuth, publicUrl } = parts
  const router = Router()
  router.use('/board', boardHeaders)
  router.use(createBoardPage())
  router.use(createBoardLogin(parts))

  const answer = (path: string, read: (req: Request, caller: Caller) => Promise<object>): void => {
    router.get(path, async (req, res) => {
      const caller = await boardAuth(req)
      watchScope(caller)
      const admission = parts.bounds.callers.enter(ownerOf(caller))
      try {
        const text = exactText(await read(req, caller))
        res.set('Cache-Control', 'no-store').type('application/json').send(text)
      } finally {
        admission.end()
      }
    })
  }
  answer('/board/todos', (req, caller) => readTodos(parts, req, caller))
  answer('/board/me', (_req, caller) => meOf(board, caller))
  answer('/board/pulse', (req, caller) => activity.read(readFilter(req, caller).queues))
  router.all('/board/operator', createSameOriginCalls(publicUrl), calls(parts))

  router.use(answerRefusal(parts.log))
  return router
}
