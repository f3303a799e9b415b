/**
 * createSwitchboard: builds every part once, hands each what it needs, and says in what order they
 * start and stop. Read this to see how the parts meet.
 */
import { setMaxListeners } from 'node:events'
import type { Express } from 'express'
import { drain } from './background/drain.ts'
import { createSupervisor } from './background/supervisor.ts'
import { createWorkers } from './background/workers.ts'
import { createLog, type Log } from './base/log.ts'
import { createMetrics, type Metrics } from './base/metrics.ts'
import { VERSION } from './base/version.ts'
import type { Config } from './config.ts'
import { createAnswerPage } from './http/answer-page.ts'
import { createAuth } from './http/auth.ts'
import { createBoard, createBoardAuth } from './http/board.ts'
import { createSnapshots } from './http/board-cards.ts'
import { createFeeds } from './http/feeds.ts'
import { createListener } from './http/listener.ts'
import { createHttp, type HttpObserver } from './http/server.ts'
import type { StreamOutcome } from './http/sse.ts'
import { AGENT_METHODS } from './protocol/agent/methods.ts'
import { type Ready, readyOf, type Transition, transitionOf } from './protocol/feed.ts'
import type { Services } from './protocol/method.ts'
import { OPERATOR_METHODS } from './protocol/operator/methods.ts'
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
import { createIntake } from './service/intake.ts'
import { createLine } from './service/line.ts'
import { createLines } from './service/lines.ts'
import { createOperatorService } from './service/operator.ts'
import { createPulse } from './service/pulse.ts'
import { createRate } from './service/rate.ts'
import { createReadiness } from './service/readiness.ts'
import { createRevocation } from './service/revocation.ts'
import { createSweep, type Sweep } from './service/sweep.ts'
import { createWatch } from './service/watch.ts'
import { type Database, openDatabase } from './store/database.ts'
import { createWake } from './store/wake.ts'

export interface SwitchboardOptions {
  config: Config
  /** The database to use; the config's may be null, for an embedded one. */
  databaseUrl: string
  log?: Log
  /** How often what wakes and commits announce is looked at unasked. For tests that lose wakes. */
  pollMs?: number
  reapMs?: number
  comeDueMs?: number
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
const DRAIN_MS = 13_000
const SSE_RETRY_MS = 2000

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

/** Everything below HTTP. */
const createCore = (
  options: SwitchboardOptions,
  log: Log,
  metrics: Metrics,
  publicUrl: () => string,
) => {
  const { databaseUrl: connectionString, poolSize, acquireMs, statementMs, lockMs } = options
  const { keepAliveMs, answerMs } = options
  const pollMs = options.pollMs ?? POLL_MS
  const database: Database = openDatabase({
    connectionString,
    ...(poolSize !== undefined && { poolSize }),
    ...(acquireMs !== undefined && { acquireMs }),
    ...(statementMs !== undefined && { statementMs }),
    ...(lockMs !== undefined && { lockMs }),
  })
  const wake = createWake({
    connectionString,
    log,
    onReconnect: () => metrics.listenerReconnects.inc(),
    ...(keepAliveMs !== undefined && { keepAliveMs }),
    ...(answerMs !== undefined && { answerMs }),
  })
  database.onRing(wake.ring)
  const directory = createDirectory({ database, wake })
  const line = createLine({ database, wake, pollMs })
  const watch = createWatch({ database, wake, pollMs })
  const lines = createLines({ database, wake, metrics, log })
  const deliver = createDeliver({ database, lines, metrics })
  const intake = createIntake({ database, deliver, lines, rate: createRate(), metrics })
  const family = createFamily({ database, directory, wake, metrics, log })
  const batches = createBatches({ database, log })
  const revocation = createRevocation({ database, batches, metrics })
  const services: Services = {
    client: createClientService({ database, directory, deliver, intake, metrics }),
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
    watch,
  }
  const sweep = createSweep({
    database,
    directory,
    batches,
    lines,
    family,
    revocation,
    metrics,
    log,
  })
  const workers = createWorkers({
    sweep,
    listen: wake.run,
    log,
    metrics,
    onCommitted: (listener) => wake.on('feed', listener),
    reapMs: options.reapMs ?? REAP_MS,
    comeDueMs: options.comeDueMs ?? COME_DUE_MS,
    placeMs: options.placeMs ?? PLACE_MS,
  })
  const supervisor = createSupervisor(workers, { log, metrics })
  const board = createBoardService({ database, directory })
  const pulse = createPulse({ database, watch, log })
  const hooks = createHooks({ watch, log })
  const looking = { watch, board, pulse, hooks }
  return { database, wake, directory, line, lines, family, ...looking, services, sweep, supervisor }
}

export const createSwitchboard = (options: SwitchboardOptions): Switchboard => {
  const { config } = options
  const log = options.log ?? createLog(config.logLevel)
  const metrics = createMetrics()
  metrics.buildInfo.set({ version: VERSION }, 1)
  const listener = createListener({ host: config.host, port: config.port })
  const publicUrl = (): string => config.publicUrl ?? listener.url()
  const core = createCore(options, log, metrics, publicUrl)
  const { database, wake, directory, line, lines, family, watch, services, supervisor } = core
  const { pulse, hooks } = core

  const stopping = new AbortController()
  // Each request under way listens: many at once are no leak.
  setMaxListeners(0, stopping.signal)
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
