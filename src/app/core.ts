/**
 * Everything below HTTP, built once: the connections, the services over them, what runs in the
 * background, and the order in which all of it starts and stops.
 */

import type { Stop } from '../background/drain.ts'
import { createSupervisor } from '../background/supervisor.ts'
import { createWorkers, type WorkerParts } from '../background/workers.ts'
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import type { Services } from '../protocol/wire/method.ts'
import { createActivity, type RunningActivity } from '../service/board/activity.ts'
import { createAnswerLinks } from '../service/board/answer-links.ts'
import { createBoardService } from '../service/board/lanes.ts'
import { createBoardSessions } from '../service/board/sessions.ts'
import { createAgentService } from '../service/claims/agent.ts'
import { createClaimCooldown } from '../service/claims/cooldown.ts'
import { createWaiters } from '../service/claims/waiters.ts'
import { createOperatorService } from '../service/operator/operator.ts'
import { createPageTokens } from '../service/page-tokens.ts'
import { createPush } from '../service/push/configs.ts'
import { createSealing } from '../service/push/sealing.ts'
import { createRegistry } from '../service/registry.ts'
import { createTicker } from '../service/schedules/ticks.ts'
import { createAnswerSchemas } from '../service/schemas/answers.ts'
import { createStuckRows } from '../service/stuck-rows.ts'
import { createSweepRunner } from '../service/sweep-runner.ts'
import { createRetention } from '../service/sweeps/retention.ts'
import { createRevocation } from '../service/sweeps/revocation.ts'
import { createSweep } from '../service/sweeps/sweeps.ts'
import { createChildTasks } from '../service/tasks/children.ts'
import { createClientService } from '../service/tasks/client.ts'
import { createConversations } from '../service/tasks/conversations.ts'
import { createKeys } from '../service/tasks/idempotency.ts'
import { createReply } from '../service/tasks/reply.ts'
import { createSendRate } from '../service/tasks/send-rate.ts'
import { createSubmitter } from '../service/tasks/submit.ts'
import { createHooks, type Hooks } from '../service/watch/hooks.ts'
import { createWatch } from '../service/watch/watch.ts'
import { answerDoctor } from '../store/doctor/nodes.ts'
import { topics } from '../store/wake/topics.ts'
import type { Wakes } from '../store/wake/wake.ts'
import { createGuard } from '../webhook/guard.ts'
import { newSecret } from '../webhook/signature.ts'
import { createConnections } from './connections.ts'
import { NODE_DEFAULTS, type NodeOptions } from './options.ts'
import { createWebhooks } from './webhooks.ts'

interface CoreParts {
  log: Log
  metrics: Metrics
  stopping: AbortSignal
  /** Where this node listens, or null before it does. */
  listening: () => { host: string; port: number } | null
  /** Where people reach this server. */
  publicUrl: () => string
}

interface BackgroundParts
  extends Pick<
    WorkerParts,
    'log' | 'metrics' | 'sweep' | 'waiters' | 'watch' | 'conversations' | 'childTasks'
  > {
  wakes: Wakes
  webhooks: ReturnType<typeof createWebhooks>
  hooks: Hooks
  activity: RunningActivity
}

/** What the clock and the commits start, on every node. */
const createBackground = (options: NodeOptions, parts: BackgroundParts) => {
  const { wakes, log, metrics, webhooks, hooks, activity } = parts
  const workers = createWorkers({
    ...parts,
    courier: webhooks.run,
    listen: wakes.run,
    hooks: hooks.run,
    activity: activity.run,
    onLost: wakes.onLost,
    onCommitted: (listener) => wakes.on(topics.feed, listener),
    reapMs: options.reapMs ?? NODE_DEFAULTS.reapMs,
    comeDueMs: options.comeDueMs ?? NODE_DEFAULTS.comeDueMs,
    scheduleMs: options.scheduleMs ?? NODE_DEFAULTS.scheduleMs,
    sequenceMs: options.placeMs ?? NODE_DEFAULTS.placeMs,
    countMs: options.countMs ?? NODE_DEFAULTS.countMs,
    tidyMs: options.tidyMs ?? NODE_DEFAULTS.tidyMs,
  })
  return createSupervisor(workers, { log, metrics })
}

export const createCore = (options: NodeOptions, parts: CoreParts) => {
  const { log, metrics, listening, publicUrl } = parts
  const { adminToken, webhookAllowHttp: allowHttp, webhookAllow: allow } = options.config
  const { database, wakes } = createConnections(options, { log, metrics })
  const registry = createRegistry({ database, wakes })
  const pollMs = options.pollMs ?? NODE_DEFAULTS.pollMs
  const pages = createPageTokens(database)
  const stuckRows = createStuckRows({ log, metrics })
  const shared = { database, registry, wakes, metrics, pages, log, stuckRows, pollMs }

  const waiters = createWaiters(shared)
  const cooldown = createClaimCooldown(shared)
  const watch = createWatch(shared)
  const conversations = createConversations(shared)
  const childTasks = createChildTasks(shared)
  const guard = createGuard({ allowHttp, allow, own: listening })
  const sealing = createSealing(options.config.secretKeys ?? [])
  const push = createPush({ database, pages, urlProblem: guard.urlProblem, newSecret, sealing })
  const schemas = createAnswerSchemas({ log })
  const reply = createReply({ ...shared, conversations, push, schemas })
  const keys = createKeys(shared)
  const sendRate = createSendRate(shared)
  const submitter = createSubmitter({ ...shared, reply, conversations, sendRate, keys })
  const sweepRunner = createSweepRunner(shared)
  const revocation = createRevocation({ ...shared, sweepRunner })
  const { authenticate } = registry

  const services: Services = {
    client: createClientService({ ...shared, reply, submitter, keys, sendRate, push }),
    agent: createAgentService({ ...shared, waiters, cooldown, childTasks, conversations, schemas }),
    operator: createOperatorService({
      ...shared,
      reply,
      sendRate,
      submitter,
      childTasks,
      revocation,
      databaseUrl: options.directUrl ?? options.databaseUrl,
    }),
    answerLinks: createAnswerLinks({ ...shared, reply, publicUrl }),
    boardSessions: createBoardSessions({ database, authenticate, adminToken }),
    push,
    watch,
  }
  const board = createBoardService(shared)
  const activity = createActivity({ ...shared, watch })
  const hooks = createHooks({ ...shared, watch })
  const sweep = createSweep({
    ...shared,
    sweepRunner,
    conversations,
    childTasks,
    revocation,
    retention: createRetention(shared),
    ticker: createTicker({ ...shared, submitter }),
    onSequenced: watch.sequenced,
  })
  const webhooks = createWebhooks(options.push, {
    ...shared,
    log,
    guard,
    sealing,
    stopping: parts.stopping,
  })
  const supervisor = createBackground(options, {
    ...{ wakes, log, metrics, sweep, webhooks, hooks, activity },
    ...{ waiters, watch, conversations, childTasks },
  })
  const waits = [watch, waiters, cooldown, conversations, childTasks]

  const start = async (): Promise<void> => {
    await wakes.start()
    answerDoctor(database, wakes)
    for (const wait of waits) wait.start()
    for (const name of (await registry.queues()).keys()) metrics.seedQueue(name)
    supervisor.start()
    await hooks.opened()
  }

  const stopWaits = (): void => {
    for (const wait of waits) wait.stop()
  }

  /** In this order, once nobody is served any more. */
  const stops: readonly Stop[] = [
    { part: 'webhooks', owedMs: 1000, run: webhooks.stop },
    { part: 'workers', owedMs: 2000, run: (ms) => supervisor.stop(ms) },
    { part: 'waits', owedMs: 0, run: stopWaits },
    { part: 'schemas', owedMs: 200, run: () => schemas.stop() },
    { part: 'wakes', owedMs: 500, run: () => wakes.stop() },
    { part: 'database', owedMs: 500, run: () => database.close() },
  ]

  const running = { services, sweep, board, activity, hooks, supervisor }
  return { ...running, database, wakes, registry, waiters, start, stops }
}
