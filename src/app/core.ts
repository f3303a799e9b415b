/**
 * Everything below HTTP, built once: the connections, the services over them, and what runs in the
 * background; and the order in which all of it starts and stops.
 */
import type { Stop } from '../background/drain.ts'
import { createSupervisor } from '../background/supervisor.ts'
import { createWorkers } from '../background/workers.ts'
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import type { Services } from '../protocol/method.ts'
import { createActivity } from '../service/board/activity.ts'
import { createAnswerLinks } from '../service/board/answer-links.ts'
import { createBoardService } from '../service/board/lanes.ts'
import { createBoardSessions } from '../service/board/sessions.ts'
import { createAgentService } from '../service/claims/agent.ts'
import { createClaimCooldown } from '../service/claims/cooldown.ts'
import { createWaiters } from '../service/claims/waiters.ts'
import { createOperatorService } from '../service/operator/operator.ts'
import { createPush } from '../service/push/configs.ts'
import { createRegistry } from '../service/registry.ts'
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
import { createHooks } from '../service/watch/hooks.ts'
import { createWatch } from '../service/watch/watch.ts'
import { createGuard } from '../webhook/guard.ts'
import { newSecret } from '../webhook/signature.ts'
import { createConnections } from './connections.ts'
import type { SwitchboardOptions } from './options.ts'
import { createWebhooks } from './webhooks.ts'

const POLL_MS = 5000
/** Lapsed leases and overdue interrupts share this tick (docs/design/interrupt-deadline.md). */
const REAP_MS = 30_000
const COME_DUE_MS = 1000
const PLACE_MS = 1000
const COUNT_MS = 1000
const TIDY_MS = 60_000

interface CoreParts {
  log: Log
  metrics: Metrics
  stopping: AbortSignal
  /** Where this node listens, once it does. */
  listening: () => { host: string; port: number } | null
  /** Where people reach this server. */
  publicUrl: () => string
}

export const createCore = (options: SwitchboardOptions, parts: CoreParts) => {
  const { log, metrics, stopping, listening, publicUrl } = parts
  const { adminToken, webhookAllowHttp: allowHttp, webhookAllow: allow } = options.config
  const pollMs = options.pollMs ?? POLL_MS
  const { database, wakes } = createConnections(options, { log, metrics })

  const registry = createRegistry({ database, wakes })
  const waiters = createWaiters({ database, wakes, pollMs })
  const cooldown = createClaimCooldown({ wakes })
  const watch = createWatch({ database, wakes, pollMs })
  const conversations = createConversations({ database, wakes, metrics, log })
  const guard = createGuard({ allowHttp, allow, own: listening })
  const push = createPush({ database, urlProblem: guard.urlProblem, newSecret })
  const reply = createReply({ database, conversations, push, metrics })
  const keys = createKeys({ registry })
  const submitter = createSubmitter({
    database,
    reply,
    conversations,
    sendRate: createSendRate(),
    keys,
    metrics,
  })
  const childTasks = createChildTasks({ database, registry, wakes, metrics, log })
  const sweepRunner = createSweepRunner({ database, log })
  const revocation = createRevocation({ database, sweepRunner, metrics })
  const services: Services = {
    client: createClientService({ database, registry, reply, submitter, keys, push, metrics }),
    agent: createAgentService({
      database,
      registry,
      waiters,
      cooldown,
      wakes,
      childTasks,
      metrics,
      pollMs,
    }),
    operator: createOperatorService({
      database,
      registry,
      metrics,
      reply,
      submitter,
      childTasks,
      revocation,
    }),
    answerLinks: createAnswerLinks({ database, registry, reply, publicUrl }),
    boardSessions: createBoardSessions({
      database,
      authenticate: registry.authenticate,
      adminToken,
    }),
    push,
    watch,
  }
  const board = createBoardService({ database, registry })
  const pulse = createActivity({ database, watch, log })
  const hooks = createHooks({ watch, log })

  const sweep = createSweep({
    database,
    registry,
    sweepRunner,
    conversations,
    childTasks,
    revocation,
    retention: createRetention({ database, registry, metrics, log }),
    onPlaced: watch.sequenced,
    metrics,
    log,
  })
  const webhooks = createWebhooks(options.push, {
    database,
    wakes,
    registry,
    guard,
    metrics,
    log,
    stopping,
    pollMs,
  })
  const workers = createWorkers({
    sweep,
    courier: webhooks.run,
    listen: wakes.run,
    log,
    metrics,
    onCommitted: (listener) => wakes.on('feed', listener),
    reapMs: options.reapMs ?? REAP_MS,
    comeDueMs: options.comeDueMs ?? COME_DUE_MS,
    sequenceMs: options.placeMs ?? PLACE_MS,
    countMs: options.countMs ?? COUNT_MS,
    tidyMs: options.tidyMs ?? TIDY_MS,
  })
  const supervisor = createSupervisor(workers, { log, metrics })

  const start = async (): Promise<void> => {
    await wakes.start()
    waiters.start()
    cooldown.start()
    conversations.start()
    childTasks.start()
    watch.start()
    for (const name of (await registry.queues()).keys()) metrics.seedQueue(name)
    supervisor.start()
    await hooks.start()
  }

  /** In this order, once nobody is served any more. */
  const stops: readonly Stop[] = [
    { part: 'webhooks', owedMs: 1000, run: webhooks.stop },
    { part: 'workers', owedMs: 2000, run: (ms) => supervisor.stop(ms) },
    {
      part: 'waits',
      owedMs: 0,
      run: () => {
        for (const waits of [watch, waiters, cooldown, conversations, childTasks, pulse, hooks])
          waits.stop()
      },
    },
    { part: 'wakes', owedMs: 500, run: () => wakes.stop() },
    { part: 'database', owedMs: 500, run: () => database.close() },
  ]

  const running = { services, sweep, board, pulse, hooks, supervisor }
  return { ...running, database, wakes, registry, waiters, start, stops }
}
