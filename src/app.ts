/**
 * createSwitchboard: builds every part once, hands each what it needs, and says in what order they
 * start and stop. Read this to see how the parts meet.
 */
import { setMaxListeners } from 'node:events'
import type { Express } from 'express'
import { createCourier } from './background/courier.ts'
import { drain } from './background/drain.ts'
import { createSupervisor } from './background/supervisor.ts'
import { createWorkers } from './background/workers.ts'
import { createLog, type Log } from './base/log.ts'
import { createMetrics, type Metrics } from './base/metrics.ts'
import { VERSION } from './base/version.ts'
import type { Config } from './config.ts'
import { PUSH_LIMITS, type PushLimits } from './domain/push.ts'
import { createAnswerPage } from './http/answer-page.ts'
import { createAuth } from './http/auth.ts'
import { createBoard, createBoardAuth } from './http/board.ts'
import { createSnapshots } from './http/board-cards.ts'
import { createFeeds } from './http/feeds.ts'
import { createListener } from './http/listener.ts'
import { createHttp, type HttpObserver } from './http/server.ts'
import type { StreamOutcome } from './http/sse.ts'
import { AGENT_METHODS } from './protocol/agent/methods.ts'
import { createCardSigner } from './protocol/card-signature.ts'
import { type Ready, readyOf, type Transition, transitionOf } from './protocol/feed.ts'
import type { Services } from './protocol/method.ts'
import { OPERATOR_METHODS } from './protocol/operator/methods.ts'
import { fromOwed as fromOwedV1 } from './protocol/v1/translate.ts'
import { fromOwed as fromOwedV03 } from './protocol/v03/push.ts'
import { createAgentService } from './service/agent.ts'
import { createAnswerLinks } from './service/answer-links.ts'
import { createBatches } from './service/batches.ts'
import { createBoardService } from './service/board.ts'
import { createBoardSessions } from './service/board-sessions.ts'
import { createClientService } from './service/client.ts'
import { createDeliver } from './service/deliver.ts'
import { createDirectory, type Directory } from './service/directory.ts'
import { createFamily } from './service/family.ts'
import { createGauges } from './service/gauges.ts'
import { createHooks, type Hook } from './service/hooks.ts'
import { createKeys } from './service/idempotency.ts'
import { createIntake } from './service/intake.ts'
import { createLine } from './service/line.ts'
import { createLines } from './service/lines.ts'
import { createOperatorService } from './service/operator.ts'
import { createOutbox } from './service/outbox.ts'
import { createPulse } from './service/pulse.ts'
import { createPush } from './service/push.ts'
import { createRate } from './service/rate.ts'
import { createReadiness } from './service/readiness.ts'
import { createRetention } from './service/retention.ts'
import { createRevocation } from './service/revocation.ts'
import { createSweep, type Sweep } from './service/sweep.ts'
import { createWatch } from './service/watch.ts'
import { type Database, openDatabase } from './store/database.ts'
import { createWake } from './store/wake.ts'
import { silentBus, type WakeBus } from './store/wake-bus.ts'
import { natsBus } from './store/wake-nats.ts'
import { postgresBus } from './store/wake-postgres.ts'
import { createGuard } from './webhook/guard.ts'
import { createPoster, type PostOptions } from './webhook/post.ts'
import { newSecret, signatureOf } from './webhook/signature.ts'

export interface SwitchboardOptions {
  config: Config
  /** The database to use; the config's may be null, for an embedded one. */
  databaseUrl: string
  /** The same database past a pooler; what `pooled` says is about `databaseUrl`. */
  directUrl?: string | null
  /** A pooler that lends a connection for each transaction stands before `databaseUrl`. */
  pooled?: boolean
  log?: Log
  /** How often what wakes and commits announce is looked at unasked. For tests that lose wakes. */
  pollMs?: number
  reapMs?: number
  comeDueMs?: number
  tidyMs?: number
  placeMs?: number
  poolSize?: number
  /** How long a call may wait for a database connection, in ms. */
  acquireMs?: number
  /** How long a statement may run, and how long it may wait for a lock, in ms. */
  statementMs?: number
  lockMs?: number
  /** How often a silent LISTEN connection is asked whether it lives, and what it has to answer. */
  keepAliveMs?: number
  answerMs?: number
  /** Milliseconds between the comments of an idle stream. */
  pingMs?: number
  /** The longest a blocking send waits, in ms; then it is answered as things are. */
  maxWaitMs?: number
  bodyLimitBytes?: number
  /** What stopping may take in all, in ms; most of it is for calls under way. */
  drainMs?: number
  push?: PushOptions
}

/** How webhooks are told. */
export interface PushOptions extends Partial<PushLimits & Omit<PostOptions, 'guard'>> {
  /** Tries under way on this node, and of those to one host. */
  concurrency?: number
  perHost?: number
}

export interface Switchboard {
  start(): Promise<{ url: string }>
  /**
   * Not ready from now on: ends streams and waits, lets calls finish, then closes everything.
   * Takes at most `drainMs`; never rejects.
   */
  stop(): Promise<void>
  /** A code that opens the board once, within ten minutes, on any node. */
  issueBoardCode(): Promise<string>
  /**
   * Calls `handler` with every transition (or ready) that is committed, on whichever node: after
   * the commit, in order, at least once. What it throws is logged, and harms nobody. `after` is
   * the position of the last one that was dealt with; without it, from now on.
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

/** What a handler may be told of, as the board's feed tells it. */
export interface Facts {
  transition: Transition
  ready: Ready
}

const FACTS = { transition: transitionOf, ready: readyOf }

const POLL_MS = 5000
/** ADR-0046: one tick, every 30 s. */
const REAP_MS = 30_000
const COME_DUE_MS = 1000
const PLACE_MS = 1000
const BOARD_CODE_SECONDS = 600
const TIDY_MS = 60_000
const DRAIN_MS = 13_000
const SSE_RETRY_MS = 2000
const PUSH = { connectMs: 10_000, concurrency: 64, perHost: 8 } as const
/** A webhook that is slow to answer keeps no node from stopping. */
const COURIER_DRAIN_MS = 5000

const streamObserver = (metrics: Metrics, kind: string) => ({
  opened: () => metrics.streamsOpen.inc({ kind }),
  closed: (outcome: StreamOutcome) => {
    metrics.streamsOpen.dec({ kind })
    if (outcome === 'stalled' || outcome === 'too_slow') metrics.streamsDropped.inc({ kind })
  },
})

const observer = (metrics: Metrics): HttpObserver => ({
  answered: (surface, { method, code, seconds }) => {
    metrics.requests.inc({ surface, method, code: String(code ?? 'ok') })
    metrics.requestSeconds.observe({ surface, method }, seconds)
  },
  streamOpened: (surface) => streamObserver(metrics, surface).opened(),
  streamClosed: (surface, outcome) => streamObserver(metrics, surface).closed(outcome),
  unauthenticated: () => metrics.authFailures.inc(),
})

const sseRetryMs = async (directory: Directory): Promise<number> => {
  const value = (await directory.settings()).get('sse_retry_ms')
  return value !== undefined && /^\d{1,7}$/.test(value) ? Number(value) : SSE_RETRY_MS
}

/** How wakes travel: over NATS where there is one, else over a connection that can LISTEN. */
const busOf = (options: SwitchboardOptions, log: Log): WakeBus => {
  const { config, databaseUrl, directUrl = null, pooled = false, answerMs } = options
  const bounded = answerMs === undefined ? {} : { answerMs }
  if (config.natsUrl !== null) return natsBus({ url: config.natsUrl, ...bounded })
  if (!pooled || directUrl !== null) {
    return postgresBus({ connectionString: directUrl ?? databaseUrl, ...bounded })
  }
  log.warn(
    'a pooler stands before the database, and nothing is heard through it: other nodes are found out about by polling. Set DATABASE_DIRECT_URL or SWITCHBOARD_NATS_URL',
  )
  return silentBus
}

interface CoreParts {
  log: Log
  metrics: Metrics
  stopping: AbortSignal
  /** Where this node listens, once it does. */
  listening: () => { host: string; port: number } | null
  /** Where people reach this server. */
  publicUrl: () => string
}

/** Everything below HTTP. */
const createCore = (options: SwitchboardOptions, parts: CoreParts) => {
  const { log, metrics, stopping, listening, publicUrl } = parts
  const { databaseUrl: connectionString, poolSize, acquireMs, statementMs, lockMs } = options
  const { keepAliveMs, pooled } = options
  const pollMs = options.pollMs ?? POLL_MS
  const database: Database = openDatabase({
    connectionString,
    ...(poolSize !== undefined && { poolSize }),
    ...(acquireMs !== undefined && { acquireMs }),
    ...(statementMs !== undefined && { statementMs }),
    ...(lockMs !== undefined && { lockMs }),
    ...(pooled !== undefined && { pooled }),
  })
  const wake = createWake({
    bus: busOf(options, log),
    log,
    onReconnect: () => metrics.listenerReconnects.inc(),
    ...(keepAliveMs !== undefined && { keepAliveMs }),
  })
  database.onRing(wake.ring)
  const directory = createDirectory({ database, wake })
  const line = createLine({ database, wake, pollMs })
  const watch = createWatch({ database, wake, pollMs })
  const lines = createLines({ database, wake, metrics, log })
  const { webhookAllowHttp: allowHttp, webhookAllow: allow } = options.config
  const guard = createGuard({ allowHttp, allow, own: listening })
  const push = createPush({ database, urlProblem: guard.urlProblem, newSecret })
  const deliver = createDeliver({ database, lines, push, metrics })
  const keys = createKeys({ directory })
  const intake = createIntake({ database, deliver, lines, rate: createRate(), keys, metrics })
  const family = createFamily({ database, directory, wake, metrics, log })
  const batches = createBatches({ database, log })
  const revocation = createRevocation({ database, batches, metrics })
  const services: Services = {
    client: createClientService({ database, directory, deliver, intake, keys, push, metrics }),
    agent: createAgentService({ database, directory, line, wake, family, metrics, pollMs }),
    operator: createOperatorService({
      database,
      directory,
      metrics,
      deliver,
      intake,
      family,
      revocation,
    }),
    answerLinks: createAnswerLinks({ database, directory, deliver, publicUrl }),
    boardSessions: createBoardSessions({
      database,
      authenticate: directory.authenticate,
      adminToken: options.config.adminToken,
    }),
    push,
    watch,
  }
  const sweep = createSweep({
    database,
    directory,
    batches,
    lines,
    family,
    revocation,
    retention: createRetention({ database, directory, metrics, log }),
    metrics,
    log,
  })
  const pushing = { ...PUSH, ...PUSH_LIMITS, ...options.push }
  const poster = createPoster({ ...pushing, guard })
  const courier = createCourier({
    ...pushing,
    outbox: createOutbox({ database, directory, limits: pushing, metrics, log }),
    payloads: { '1.0': fromOwedV1, '0.3': fromOwedV03 },
    post: poster.post,
    sign: signatureOf,
    onOwed: (listener) => wake.on('deliveries', listener),
    stopping,
    log,
    pollMs,
  })
  const workers = createWorkers({
    sweep,
    courier: courier.run,
    listen: wake.run,
    log,
    metrics,
    onCommitted: (listener) => wake.on('feed', listener),
    reapMs: options.reapMs ?? REAP_MS,
    comeDueMs: options.comeDueMs ?? COME_DUE_MS,
    placeMs: options.placeMs ?? PLACE_MS,
    tidyMs: options.tidyMs ?? TIDY_MS,
  })
  const supervisor = createSupervisor(workers, { log, metrics })
  const board = createBoardService({ database, directory })
  const pulse = createPulse({ database, watch, log })
  const hooks = createHooks({ watch, log })
  const webhooks = {
    stop: async (ms: number) => {
      await courier.drain(Math.min(ms, COURIER_DRAIN_MS))
      await poster.close()
    },
  }
  const core = { database, wake, directory, line, lines, family, watch, services, sweep }
  return { ...core, board, pulse, hooks, supervisor, webhooks }
}

export const createSwitchboard = (options: SwitchboardOptions): Switchboard => {
  const { config } = options
  const log = options.log ?? createLog(config.logLevel)
  const metrics = createMetrics()
  metrics.buildInfo.set({ version: VERSION }, 1)
  const stopping = new AbortController()
  // Each request under way listens: many at once are no leak.
  setMaxListeners(0, stopping.signal)
  const listener = createListener({ host: config.host, port: config.port })
  const publicUrl = (): string => config.publicUrl ?? listener.url()
  const core = createCore(options, {
    log,
    metrics,
    stopping: stopping.signal,
    listening: listener.address,
    publicUrl,
  })
  const { database, wake, directory, line, lines, family, watch, services, supervisor } = core
  const { pulse, hooks } = core
  const observe = observer(metrics)
  const { authenticate } = directory
  const { adminToken } = config
  const onFailure = (): void => observe.unauthenticated?.('operator')
  const auth = createAuth({ authenticate, adminToken, onFailure })
  const { boardSessions: sessions } = services
  const boardAuth = createBoardAuth(auth, sessions)
  const sse = options.pingMs === undefined ? {} : { sse: { pingMs: options.pingMs } }

  const feeds = createFeeds({
    watch,
    auth,
    boardAuth,
    snapshots: createSnapshots(core.board, watch.position),
    sseRetryMs: () => sseRetryMs(directory),
    log,
    stopping: stopping.signal,
    onStream: (feed) => streamObserver(metrics, feed),
    ...sse,
  })
  const board = createBoard({
    board: core.board,
    pulse,
    services,
    operatorTable: OPERATOR_METHODS,
    sessions,
    boardAuth,
    publicUrl,
    log,
    stopping: stopping.signal,
  })
  const router = createHttp({
    services,
    authenticate,
    adminToken,
    metricsToken: config.metricsToken,
    log,
    publicUrl,
    version: VERSION,
    readQueue: directory.queue,
    cardForm: config.card,
    cardSigner: createCardSigner(config.cardKeys),
    ready: createReadiness({
      database,
      wake,
      databaseUrl: options.databaseUrl,
      stopping: stopping.signal,
      workers: supervisor.workers,
    }),
    metrics: createGauges({ database, line, metrics, workers: supervisor.workers }),
    agentTable: AGENT_METHODS,
    operatorTable: OPERATOR_METHODS,
    feeds: board.use(feeds, createAnswerPage({ links: services.answerLinks, log })),
    stopping: stopping.signal,
    observe,
    ...sse,
    ...(options.maxWaitMs !== undefined && { maxWaitMs: options.maxWaitMs }),
    ...(options.bodyLimitBytes !== undefined && { bodyLimitBytes: options.bodyLimitBytes }),
  })

  /** In this order. Calls under way need the rest, so they get most of the time. */
  const drained = (): Promise<void> =>
    drain(
      [
        { part: 'calls', owedMs: 0, run: (ms) => listener.stop(ms) },
        { part: 'webhooks', owedMs: 1000, run: core.webhooks.stop },
        { part: 'workers', owedMs: 2000, run: (ms) => supervisor.stop(ms) },
        {
          part: 'waits',
          owedMs: 0,
          run: () => {
            watch.stop()
            line.stop()
            lines.stop()
            family.stop()
            pulse.stop()
            hooks.stop()
          },
        },
        { part: 'wakes', owedMs: 500, run: () => wake.stop() },
        { part: 'database', owedMs: 500, run: () => database.close() },
      ],
      options.drainMs ?? DRAIN_MS,
      log,
    )
  let stopped: Promise<void> | null = null

  return {
    start: async () => {
      await wake.start()
      line.start()
      lines.start()
      family.start()
      watch.start()
      for (const name of (await directory.queues()).keys()) metrics.seedQueue(name)
      supervisor.start()
      await hooks.start()
      const url = await listener.start(router)
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
