/**
 * The whole HTTP surface as one express app, and the short way past it (fast-path.ts): middleware
 * in order, mounts, and the answers where nothing is mounted or something broke. It decides where
 * things are, not what they do.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import express, { type ErrorRequestHandler, type Express, type Router } from 'express'
import helmet from 'helmet'
import { defined } from '../base/defined.ts'
import type { Log } from '../base/log.ts'
import type { CardForm } from '../protocol/a2a/card-forms.ts'
import { type CardSigner, createCardSigner } from '../protocol/a2a/card-signature.ts'
import { extensionHeader, negotiate } from '../protocol/a2a/extensions.ts'
import { turnOf } from '../protocol/agent/methods.ts'
import {
  askedVersion,
  checkVersion,
  createVersions,
  type Version,
  versionFor,
} from '../protocol/versions.ts'
import { a2aError, apiError } from '../protocol/wire/errors.ts'
import type { Call, MethodTable, QueueCall, Services } from '../protocol/wire/method.ts'
import type { Answered } from '../rpc/answer.ts'
import { createRest } from '../rpc/rest.ts'
import { createRpc } from '../rpc/server.ts'
import type { Authenticate, ReadQueue } from '../service/registry.ts'
import type { CallFacts, ExchangeParts } from './bindings/exchange.ts'
import { restRoute } from './bindings/rest-route.ts'
import { type Route, rpcRoute } from './bindings/rpc-route.ts'
import { createBounds, type HttpBounds } from './bounds/bounds.ts'
import { guardUnread } from './bounds/unread.ts'
import { cardRouter, type PublicUrl } from './cards.ts'
import { fastPath } from './fast-path.ts'
import { type OpsParts, opsRouter } from './ops.ts'
import { createAuth } from './request/auth.ts'
import type { BodyOptions } from './request/body.ts'
import { type Cors, createCors } from './request/cors.ts'
import { closeWithConnection } from './request/pipelined.ts'
import {
  nameRequest,
  requestedExtensions,
  requestedQueue,
  requestedVersion,
  requestIdOf,
} from './request/request.ts'
import { createReauthorizer, type Reauthorizer } from './stream/reauthorize.ts'
import type { StreamOptions, StreamOutcome } from './stream/sse.ts'

type Surface = 'a2a' | 'agent' | 'operator'

/** Hears of what happens, for metrics. */
export interface HttpObserver {
  answered?(surface: Surface, answered: Answered): void
  streamOpened?(surface: Surface): void
  streamClosed?(surface: Surface, outcome: StreamOutcome): void
  unauthenticated?(surface: Surface): void
}

export interface HttpParts extends OpsParts {
  services: Services
  readQueue: ReadQueue
  authenticate: Authenticate
  /** Null: no token makes its bearer the operator. */
  adminToken: string | null
  log: Pick<Log, 'debug' | 'warn' | 'error'>
  /** Where clients reach us, with or without a trailing slash; a function is called at each use. */
  publicUrl: string | PublicUrl
  /** The agent card for clients that name no version; absent: the hybrid one. */
  cardForm?: Exclude<CardForm, '0.3'>
  /** Absent: cards are not signed. */
  cardSigner?: CardSigner
  agentTable: MethodTable
  operatorTable: MethodTable
  /** Event feeds and the board: anything with paths of its own. */
  feeds?: Router
  bodyLimitBytes?: number
  bodyTimeoutMs?: number
  /** How many JSON values a body may hold. */
  maxBodyValues?: number
  /** What is shared with the feeds and the board. */
  bounds?: HttpBounds
  /** The longest a blocking SendMessage waits, in milliseconds. */
  maxWaitMs?: number
  sse?: Pick<StreamOptions, 'pingMs' | 'drainMs'>
  /** Ends what waits when the right to it is withdrawn; absent: one that only looks at intervals. */
  reauthorizer?: Reauthorizer
  /** Origins whose pages may call the APIs; `*` for all; absent: none. */
  corsOrigins?: readonly string[]
  /** Which proxies are believed about a request's address and scheme; absent: none. */
  trustProxy?: number | readonly string[]
  /** Fires when the server stops: streams end, and waits are answered with the current state. */
  stopping?: AbortSignal
  observe?: HttpObserver
}

const secure = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  },
  // Only whoever terminates TLS knows whether all names under this one are served by it.
  strictTransportSecurity: false,
})

/**
 * The headers of JSON answers, which a page with scripts replaces with its own. Helmet sets the
 * same for every request, so it is asked once.
 */
const SECURITY_HEADERS: [string, string][] = []
secure(
  {} as IncomingMessage,
  {
    setHeader: (name: string, value: string) => SECURITY_HEADERS.push([name, value]),
    removeHeader: () => undefined,
  } as unknown as ServerResponse,
  () => undefined,
)

/** What every request gets before it is answered. True where that is the answer. */
const preparing =
  (cors: Cors) =>
  (req: IncomingMessage, res: ServerResponse): boolean => {
    closeWithConnection(req, res)
    nameRequest(req, res)
    for (const [name, value] of SECURITY_HEADERS) res.setHeader(name, value)
    return cors(req, res)
  }

const notFound: express.RequestHandler = (_req, res) => {
  res.status(404).json({ error: { code: 404, message: 'There is nothing here' } })
}

/** What express itself refuses (a malformed path) has a status; everything else is our fault. */
const answerFailure =
  (log: Pick<Log, 'error'>) =>
  (error: unknown, res: ServerResponse): void => {
    const id = requestIdOf(res)
    const given = (error as { status?: unknown } | null)?.status
    const status = typeof given === 'number' && given >= 400 && given < 500 ? given : 500
    if (status === 500) log.error({ request: id, err: error }, 'a request failed')
    // An answer that has begun cannot be taken back, only broken off.
    if (res.headersSent) return void res.destroy()
    const message = status === 500 ? 'Internal error' : 'Bad request'
    const body = JSON.stringify({ error: { code: status, message, requestId: id } })
    res.writeHead(status, { 'Content-Type': 'application/json; charset=utf-8' }).end(body)
  }

type BoundedParts = HttpParts & { bounds: HttpBounds }

/** What the endpoints of a surface have in common. */
const shared = (parts: BoundedParts, surface: Surface): ExchangeParts => {
  const { observe, sse, stopping, authenticate, adminToken } = parts
  return {
    auth: createAuth({
      authenticate,
      adminToken,
      onFailure: () => observe?.unauthenticated?.(surface),
    }),
    onStream: {
      opened: () => observe?.streamOpened?.(surface),
      closed: (outcome) => observe?.streamClosed?.(surface, outcome),
    },
    reauthorizer: parts.reauthorizer ?? createReauthorizer(),
    ...parts.bounds,
    ...defined({ sse, stopping }),
  }
}

/** Where a surface's calls are logged and counted. */
const reporting = ({ log, observe }: HttpParts, surface: Surface) => ({
  log,
  onCall: (call: Answered) => observe?.answered?.(surface, call),
})

const bodyOptions = (
  { bodyLimitBytes, bodyTimeoutMs, maxBodyValues: maxValues }: HttpParts,
  mediaTypes: readonly string[],
): BodyOptions =>
  defined({ mediaTypes, limitBytes: bodyLimitBytes, timeoutMs: bodyTimeoutMs, maxValues })

const A2A_MEDIA_TYPES = ['application/json', 'application/a2a+json']

/** What a method row of A2A is given. The queue's card says which extensions there are. */
const enterA2a =
  ({ services }: HttpParts) =>
  async (
    req: IncomingMessage,
    res: ServerResponse,
    name: string,
    facts: CallFacts,
    { version: dialect }: Version,
  ): Promise<QueueCall> => {
    const access = await services.client.enter(facts.caller, name)
    const { queue } = access
    const setHeader = (header: string, value: string) => res.setHeader(header, value)
    const extensions = negotiate(queue.card, requestedExtensions(req))
    if (extensions.size > 0) {
      // The answer names them as the version that was asked for spells the header.
      const version = askedVersion(...requestedVersion(req)) ?? ''
      setHeader(extensionHeader(version), [...extensions].join(', '))
    }
    return { ...facts, services, access, queue, dialect, extensions, setHeader }
  }

/** POST /a2a/:queue: the version chooses the table. A GET is answered with the card. */
const a2aRoute = (parts: BoundedParts, versions: readonly Version[]): Route => {
  const enter = enterA2a(parts)
  return rpcRoute<QueueCall>({
    ...shared(parts, 'a2a'),
    rpc: createRpc<QueueCall>({
      ...reporting(parts, 'a2a'),
      tables: versions,
      writeError: a2aError,
      batches: false,
    }),
    body: bodyOptions(parts, A2A_MEDIA_TYPES),
    allow: 'GET, HEAD, POST',
    queueOf: requestedQueue,
    open: (req, facts, res) => {
      const serve = () => versionFor(versions, ...requestedVersion(req))
      return { serve, enter: () => enter(req, res, requestedQueue(req), facts, serve()) }
    },
  })
}

/** Everything below a queue's URL: path and version choose the row. */
const a2aRestRoute = (
  parts: BoundedParts,
  versions: readonly Version[],
): express.RequestHandler => {
  return restRoute({
    ...shared(parts, 'a2a'),
    rest: createRest(reporting(parts, 'a2a')),
    body: bodyOptions(parts, A2A_MEDIA_TYPES),
    versions,
    checkVersion: (req, version) => checkVersion(versions, ...requestedVersion(req), version),
    enter: enterA2a(parts),
  })
}

/** Paths below a queue's own URL, which is JSON-RPC's. Without groups, express decodes nothing. */
const REST_PATHS = /^\/a2a\/[^/]+\/.*[^/]/i

/** A queue's own URL, which express would refuse to decode where its name is malformed. */
const QUEUE_PATH = /^\/a2a\/[^/]+\/?$/i

/** POST /agent and POST /operator: one table, batches and notifications as JSON-RPC has them. */
const apiRoute = (parts: BoundedParts, surface: Surface, table: MethodTable): Route => {
  const served = { table, writeError: apiError }
  return rpcRoute<Call>({
    ...shared(parts, surface),
    rpc: createRpc<Call>({
      ...reporting(parts, surface),
      tables: [served],
      writeError: apiError,
      batches: true,
      ...(surface === 'agent' && { turnOf }),
    }),
    body: bodyOptions(parts, ['application/json']),
    open: (_req, facts) => ({
      serve: () => served,
      enter: async () => ({ ...facts, services: parts.services }),
    }),
  })
}

export interface Http {
  /** To be mounted in another app, at its root. */
  router: Express
  /** The same as a request listener. */
  listener: RequestListener
}

export const createHttp = (options: HttpParts): Http => {
  const { bounds = createBounds() } = options
  const parts: BoundedParts = { ...options, bounds }
  const given = parts.publicUrl
  const publicUrl = typeof given === 'string' ? () => given : given
  const {
    readQueue,
    maxWaitMs,
    cardForm: plainForm = 'hybrid',
    cardSigner: signer = createCardSigner([]),
  } = parts
  const versions = createVersions({
    publicUrl,
    signCard: signer.sign,
    ...defined({ maxWaitMs }),
  })
  const a2a = a2aRoute(parts, versions)
  const agent = apiRoute(parts, 'agent', parts.agentTable)
  const fail = answerFailure(parts.log)
  const app = express()
  app.disable('x-powered-by')
  // Tags are set where they mean something, which a hash of every answer does not.
  app.set('etag', false)
  if (parts.trustProxy !== undefined) app.set('trust proxy', parts.trustProxy)
  const prepare = preparing(createCors(parts.corsOrigins ?? []))
  app.use((req, res, next) => {
    if (prepare(req, res)) return
    res.once('prefinish', () => {
      if (res.writableLength > 0) guardUnread(bounds.unread, res)
    })
    next()
  })
  // The busiest come first, since express tries one path after the other.
  app.post(QUEUE_PATH, a2a)
  app.all('/agent', agent)
  app.all('/operator', apiRoute(parts, 'operator', parts.operatorTable))
  app.use(cardRouter({ readQueue, publicUrl, plainForm, signer }))
  app.all('/a2a/:queue', a2a)
  app.use(opsRouter(parts))
  app.all(REST_PATHS, a2aRestRoute(parts, versions))
  if (parts.feeds) app.use(parts.feeds)
  app.use(notFound)
  const failLast: ErrorRequestHandler = (error, _req, res, _next) => fail(error, res)
  app.use(failLast)
  return { router: app, listener: fastPath({ a2a, agent, prepare, fail, viaExpress: app }) }
}
