/**
 * The whole HTTP face as one express app: middleware in order, mounts, and what is said where
 * nothing is mounted or something broke. Decides where things are, not what they do.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import express, { type ErrorRequestHandler, type Express, type Router } from 'express'
import helmet from 'helmet'
import type { Log } from '../base/log.ts'
import { enterQueue } from '../protocol/access.ts'
import { a2aError, apiError, type Wording } from '../protocol/errors.ts'
import type { Call, MethodTable, QueueCall, Services } from '../protocol/method.ts'
import { createVersions, versionFor } from '../protocol/versions.ts'
import { type Answered, createRpc } from '../rpc/server.ts'
import type { Authenticate } from '../service/contract.ts'
import { createAuth } from './auth.ts'
import { type OpsParts, opsRouter } from './ops.ts'
import { requestId, requestIdOf } from './request-id.ts'
import { type RpcRouteParts, rpcRoute } from './rpc-route.ts'
import type { StreamOptions, StreamOutcome } from './sse.ts'

type Surface = 'a2a' | 'agent' | 'operator'

/** Told of what happens, for metrics. */
export interface HttpObserver {
  answered?(surface: Surface, answered: Answered): void
  streamOpened?(surface: Surface): void
  streamClosed?(surface: Surface, outcome: StreamOutcome): void
  unauthenticated?(surface: Surface): void
}

export interface HttpParts extends Omit<OpsParts, 'publicUrl'> {
  services: Services
  authenticate: Authenticate
  /** Null: there is no operator by token. */
  adminToken: string | null
  log: Pick<Log, 'debug' | 'warn' | 'error'>
  /** Where clients reach us, with or without a trailing slash; asked at each use. */
  publicUrl: string | (() => string)
  agentTable: MethodTable
  operatorTable: MethodTable
  /** Event feeds and the board: anything with paths of its own. */
  feeds?: Router
  bodyLimitBytes?: number
  bodyTimeoutMs?: number
  /** The longest a blocking SendMessage waits, in milliseconds. */
  maxWaitMs?: number
  sse?: Pick<StreamOptions, 'pingMs' | 'drainMs'>
  /** How often an open stream's right is looked at again. */
  recheckMs?: number
  /** Fires when the server stops: streams end, waits are answered as things are. */
  stopping?: AbortSignal
  observe?: HttpObserver
}

const secure = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  },
  // Whether names under this one are served by TLS only is known to whoever terminates it.
  strictTransportSecurity: false,
})

/** What helmet says is the same for every request: it is asked once. */
const SECURITY_HEADERS: [string, string][] = []
secure(
  {} as IncomingMessage,
  {
    setHeader: (name: string, value: string) => SECURITY_HEADERS.push([name, value]),
    removeHeader: () => undefined,
  } as unknown as ServerResponse,
  () => undefined,
)

/** Of JSON answers; a page with scripts sets its own over these. */
const securityHeaders: express.RequestHandler = (_req, res, next) => {
  for (const [name, value] of SECURITY_HEADERS) res.setHeader(name, value)
  next()
}

const notFound: express.RequestHandler = (_req, res) => {
  res.status(404).json({ error: { code: 404, message: 'There is nothing here' } })
}

/** What express itself refuses (a malformed path) has a status; all else is ours to answer for. */
const lastErrorHandler =
  (log: Pick<Log, 'error'>): ErrorRequestHandler =>
  (error, _req, res, next) => {
    const id = requestIdOf(res)
    const status = typeof error?.status === 'number' && error.status < 500 ? error.status : 500
    if (status === 500) log.error({ request: id, err: error }, 'a request failed')
    // Express destroys the connection where an answer has begun already.
    if (res.headersSent) return next(error)
    const message = status === 500 ? 'Internal error' : 'Bad request'
    res.status(status).json({ error: { code: status, message, requestId: id } })
  }

type Shared<C extends Call> = Pick<
  RpcRouteParts<C>,
  'rpc' | 'auth' | 'sse' | 'stopping' | 'onStream' | 'recheckMs'
>

/** What the three endpoints have in common. */
const shared = <C extends Call>(
  parts: HttpParts,
  surface: Surface,
  served: Pick<Parameters<typeof createRpc<C>>[0], 'tables' | 'wording' | 'batches'>,
): Shared<C> => {
  const { observe, log, sse, stopping, recheckMs, authenticate, adminToken } = parts
  return {
    rpc: createRpc<C>({ ...served, log, onCall: (call) => observe?.answered?.(surface, call) }),
    auth: createAuth({
      authenticate,
      adminToken,
      onFailure: () => observe?.unauthenticated?.(surface),
    }),
    onStream: {
      opened: () => observe?.streamOpened?.(surface),
      closed: (outcome) => observe?.streamClosed?.(surface, outcome),
    },
    ...(sse && { sse }),
    ...(stopping && { stopping }),
    ...(recheckMs !== undefined && { recheckMs }),
  }
}

const bodyOptions = (parts: HttpParts, mediaTypes: readonly string[]) => ({
  mediaTypes,
  ...(parts.bodyLimitBytes !== undefined && { limitBytes: parts.bodyLimitBytes }),
  ...(parts.bodyTimeoutMs !== undefined && { timeoutMs: parts.bodyTimeoutMs }),
})

/** POST /a2a/:queue: the version chooses the table, the caller's right opens the queue. */
const a2aRoute = (parts: HttpParts, publicUrl: () => string): express.RequestHandler => {
  const { services, readQueue, maxWaitMs } = parts
  const versions = createVersions({ publicUrl, ...(maxWaitMs !== undefined && { maxWaitMs }) })
  return rpcRoute<QueueCall>({
    ...shared<QueueCall>(parts, 'a2a', { tables: versions, wording: a2aError, batches: false }),
    body: bodyOptions(parts, ['application/json', 'application/a2a+json']),
    open: (req, facts) => {
      const served = () => versionFor(versions, req.get('A2A-Version'), req.query['A2A-Version'])
      return {
        serve: served,
        enter: async () => {
          const queue = enterQueue(facts.caller, await readQueue(String(req.params.queue)))
          const setHeader = (name: string, value: string) => req.res?.setHeader(name, value)
          return { ...facts, services, queue, dialect: served().version, setHeader }
        },
      }
    },
  })
}

/** POST /agent and POST /operator: one table, batches and notifications as JSON-RPC has them. */
const apiRoute = (
  parts: HttpParts,
  surface: Surface,
  table: MethodTable,
): express.RequestHandler => {
  const wording: Wording = apiError
  const served = { table, wording }
  return rpcRoute<Call>({
    ...shared<Call>(parts, surface, { tables: [served], wording, batches: true }),
    body: bodyOptions(parts, ['application/json']),
    open: (_req, facts) => ({
      serve: () => served,
      enter: async () => ({ ...facts, services: parts.services }),
    }),
  })
}

/** The app, ready to be listened with or mounted in another one at its root. */
export const createHttp = (parts: HttpParts): Express => {
  const given = parts.publicUrl
  const publicUrl = typeof given === 'string' ? () => given : given
  const app = express()
  app.disable('x-powered-by')
  // Tags are set where they mean something; hashing every answer means nothing.
  app.set('etag', false)
  app.use(requestId, securityHeaders)
  // The busiest first: express tries one path after the other.
  app.all('/a2a/:queue', a2aRoute(parts, publicUrl))
  app.all('/agent', apiRoute(parts, 'agent', parts.agentTable))
  app.all('/operator', apiRoute(parts, 'operator', parts.operatorTable))
  app.use(opsRouter({ ...parts, publicUrl }))
  if (parts.feeds) app.use(parts.feeds)
  app.use(notFound)
  app.use(lastErrorHandler(parts.log))
  return app
}
