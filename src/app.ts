/**
 * createSwitchboard makes a whole node. It builds what HTTP serves on top of what is below
 * (app/core.ts), and says in what order everything starts and stops. Read these two files to see how
 * the parts meet.
 */
import { setMaxListeners } from 'node:events'
import type { Express } from 'express'
import { addressOf } from './app/address.ts'
import { createCore } from './app/core.ts'
import { httpLimits } from './app/http-limits.ts'
import { httpObserver, streamObserver } from './app/observe.ts'
import { NODE_DEFAULTS, type NodeOptions, type SwitchboardOptions } from './app/options.ts'
import { drain, type Stop } from './background/drain.ts'
import { defined } from './base/defined.ts'
import { createLog, type Log } from './base/log.ts'
import { createMetrics, type Metrics } from './base/metrics.ts'
import { VERSION } from './base/version.ts'
import { type Config, KEEP_ALIVE_SECONDS } from './config.ts'
import { createAnswerPage } from './http/board/answer-page.ts'
import { createSnapshots } from './http/board/cards.ts'
import { createBoard, createBoardAuth } from './http/board/routes.ts'
import { createListener } from './http/listener.ts'
import { type AuthParts, createAuth } from './http/request/auth.ts'
import { createHttp } from './http/server.ts'
import { createFeeds } from './http/stream/feeds.ts'
import { createReauthorizer } from './http/stream/reauthorize.ts'
import { createCardSigner } from './protocol/a2a/card-signature.ts'
import { AGENT_METHODS } from './protocol/agent/methods.ts'
import { type Ready, readyOf, type Transition, transitionOf } from './protocol/json/feed.ts'
import { OPERATOR_METHODS } from './protocol/operator/methods.ts'
import type { Services } from './protocol/wire/method.ts'
import { createGauges } from './service/operator/gauges.ts'
import { createReadiness } from './service/operator/readiness.ts'
import { SSE_RETRY_MS } from './service/operator/settings.ts'
import type { Registry } from './service/registry.ts'
import type { Sweep } from './service/sweeps/sweeps.ts'
import type { Hook } from './service/watch/hooks.ts'
import { migrate, requireMigrated } from './store/postgres/migrate.ts'
import { topics } from './store/wake/topics.ts'
import type { Wakes } from './store/wake/wake.ts'

export interface Switchboard {
  start(): Promise<{ url: string }>
  /**
   * From now on the node is not ready. Ends streams and waits, lets calls finish, then closes
   * everything. Takes at most `drainMs`; never rejects.
   */
  stop(): Promise<void>
  /** A code that opens the board once, within ten minutes, on any node. */
  issueBoardCode(): Promise<string>
  /**
   * Calls `handler` with every transition (or ready event) that is committed on any node: after the
   * commit, in order, at least once. What it throws is logged and has no other effect. `after` is the
   * position of the last event that was handled; without it, the calls begin with the next event.
   */
  on<Kind extends keyof Facts>(
    kind: Kind,
    handler: (fact: Facts[Kind]) => unknown,
    options?: { after?: number },
  ): Hook
  services: Services
  sweep: Sweep
  metrics: Metrics
  /** The express app, for mounting in another one. It works once started. */
  router: Express
}

/** What a handler is called with, in the form of the board's feed. */
export interface Facts {
  transition: Transition
  ready: Ready
}

const FACTS = { transition: transitionOf, ready: readyOf }

const BOARD_CODE_SECONDS = 600

const sseRetryMs = async (registry: Registry): Promise<number> => {
  const value = (await registry.settings()).get('sse_retry_ms')
  return value !== undefined && /^\d{1,7}$/.test(value) ? Number(value) : SSE_RETRY_MS
}

interface RightsParts extends Pick<AuthParts, 'onFailure'> {
  registry: Pick<Registry, 'authenticate' | 'onExpired'>
  sessions: Parameters<typeof createBoardAuth>[1]
  wakes: Pick<Wakes, 'on'>
  log: Pick<Log, 'warn'>
}

/** Who a caller is, and what ends when that changes. */
const createRights = ({ config, recheckMs }: NodeOptions, parts: RightsParts) => {
  const { registry, onFailure, sessions, wakes, log } = parts
  const { authenticate } = registry
  const auth = createAuth({
    authenticate,
    adminToken: config.adminToken,
    ...defined({ onFailure }),
  })
  const reauthorizer = createReauthorizer({
    onChange: (listener) => {
      wakes.on(topics.endpoints, () => listener())
      registry.onExpired(listener)
    },
    onError: (error) => log.warn({ err: error }, 'a right could not be looked at again'),
    ...defined({ everyMs: recheckMs }),
  })
  return { auth, boardAuth: createBoardAuth(auth, sessions), reauthorizer }
}

/** What a node believes of where a request comes from. */
const browsersOf = ({ trustProxy, corsOrigins }: Config) =>
  defined({ trustProxy: trustProxy ?? undefined, corsOrigins })

const listenerOf = ({ config, lingerMs }: NodeOptions) =>
  createListener({
    host: config.host,
    port: config.port,
    keepAliveSeconds: config.keepAliveSeconds ?? KEEP_ALIVE_SECONDS,
    lingerMs,
  })

const observabilityOf = ({ config, log }: NodeOptions) => {
  const metrics = createMetrics()
  metrics.buildInfo.set({ version: VERSION }, 1)
  return { log: log ?? createLog(config.logLevel), metrics }
}

/** A node with everything that can be set, for tests and benchmarks. */
export const createNode = (options: NodeOptions): Switchboard => {
  const { config } = options
  const { log, metrics } = observabilityOf(options)
  const stopping = new AbortController()
  // Each request under way adds a listener, so many at once are no leak.
  setMaxListeners(0, stopping.signal)
  const listener = listenerOf(options)
  const publicUrl = addressOf(config, listener.url)
  const core = createCore(options, {
    log,
    metrics,
    stopping: stopping.signal,
    listening: listener.address,
    publicUrl,
  })
  const { database, wakes, registry, waiters, services, hooks } = core
  const observe = httpObserver(metrics)
  const { authenticate } = registry
  const { adminToken } = config
  const { boardSessions: sessions } = services
  const onFailure = (): void => observe.unauthenticated?.('operator')
  const rights = createRights(options, { registry, sessions, wakes, log, onFailure })
  const { auth, boardAuth, reauthorizer } = rights
  const { pingMs, maxWaitMs, bodyLimitBytes } = options
  const sse = pingMs === undefined ? undefined : { pingMs }

  const limits = httpLimits(config, log)

  const snapshots = createSnapshots(core.board, services.watch.position)
  const feeds = createFeeds({
    watch: services.watch,
    auth,
    boardAuth,
    snapshots,
    sseRetryMs: () => sseRetryMs(registry),
    reauthorizer,
    log,
    stopping: stopping.signal,
    onStream: (feed) => streamObserver(metrics, feed),
    bounds: limits.bounds,
    ...defined({ sse }),
  })
  const board = createBoard({
    board: core.board,
    activity: core.activity,
    snapshots,
    services,
    operatorTable: OPERATOR_METHODS,
    sessions,
    boardAuth,
    reauthorizer,
    publicUrl,
    log,
    stopping: stopping.signal,
    bounds: limits.bounds,
    maxBodyValues: limits.maxBodyValues,
  })
  const { router, listener: handler } = createHttp({
    services,
    authenticate,
    adminToken,
    ...limits,
    log,
    publicUrl,
    version: VERSION,
    readQueue: registry.queue,
    cardForm: config.card,
    cardSigner: createCardSigner(config.cardKeys),
    ready: createReadiness({
      database,
      wakes,
      databaseUrl: options.databaseUrl,
      stopping: stopping.signal,
      databaseIsFull: options.databaseIsFull ?? (() => false),
      workers: core.supervisor.workers,
    }),
    metrics: createGauges({ database, waiters, metrics, workers: core.supervisor.workers }),
    agentTable: AGENT_METHODS,
    operatorTable: OPERATOR_METHODS,
    reauthorizer,
    feeds: board.use(feeds, createAnswerPage({ links: services.answerLinks, log })),
    stopping: stopping.signal,
    observe,
    ...browsersOf(config),
    ...defined({ sse, maxWaitMs, bodyLimitBytes }),
  })

  /** Calls under way need everything else, so they end first, and get most of the time. */
  const calls: Stop = { part: 'calls', owedMs: 0, run: (ms) => listener.stop(ms) }
  const drained = () => drain([calls, ...core.stops], options.drainMs ?? NODE_DEFAULTS.drainMs, log)
  let stopped: Promise<void> | null = null

  return {
    start: async () => {
      await core.start()
      const url = await listener.start(handler)
      log.info({ url: publicUrl() }, 'switchboard is listening')
      return { url }
    },
    stop: () => {
      stopping.abort('stopping')
      stopped ??= drained()
      return stopped
    },
    issueBoardCode: () => sessions.issueCode(BOARD_CODE_SECONDS),
    on: (kind, handler, { after } = {}) =>
      hooks.add((event) => {
        const fact = FACTS[kind](event)
        if (fact && fact.position > (after ?? 0)) return handler(fact as Facts[typeof kind])
      }, after ?? 'now'),
    services,
    sweep: core.sweep,
    metrics,
    router,
  }
}

/** A node as the package offers it (docs/api.md). */
export const createSwitchboard = ({
  migrate: migrates = false,
  ...options
}: SwitchboardOptions): Switchboard => {
  const node = createNode(options)
  const { databaseUrl, directUrl = null, pooled = false } = options
  return {
    ...node,
    start: async () => {
      if (!migrates) await requireMigrated(directUrl ?? databaseUrl)
      else await migrate(directUrl ?? databaseUrl, { pooled: pooled && directUrl === null })
      return node.start()
    },
  }
}
