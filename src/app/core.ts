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
import { createAgentService } from '../service/agent.ts'
import { createAnswerLinks } from '../service/answer-links.ts'
import { createBatches } from '../service/batches.ts'
import { createBoardService } from '../service/board.ts'
import { createBoardSessions } from '../service/board-sessions.ts'
import { createClientService } from '../service/client.ts'
import { createDeliver } from '../service/deliver.ts'
import { createDirectory } from '../service/directory.ts'
import { createDry } from '../service/dry.ts'
import { createFamily } from '../service/family.ts'
import { createHooks } from '../service/hooks.ts'
import { createKeys } from '../service/idempotency.ts'
import { createIntake } from '../service/intake.ts'
import { createLine } from '../service/line.ts'
import { createLines } from '../service/lines.ts'
import { createOperatorService } from '../service/operator.ts'
import { createPulse } from '../service/pulse.ts'
import { createPush } from '../service/push.ts'
import { createRate } from '../service/rate.ts'
import { createRetention } from '../service/retention.ts'
import { createRevocation } from '../service/revocation.ts'
import { createSweep } from '../service/sweep.ts'
import { createWatch } from '../service/watch.ts'
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
  const { database, wake } = createConnections(options, { log, metrics })

  const directory = createDirectory({ database, wake })
  const line = createLine({ database, wake, pollMs })
  const dry = createDry({ wake })
  const watch = createWatch({ database, wake, pollMs })
  const lines = createLines({ database, wake, metrics, log })
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
    agent: createAgentService({ database, directory, line, dry, wake, family, metrics, pollMs }),
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
      adminToken,
    }),
    push,
    watch,
  }
  const board = createBoardService({ database, directory })
  const pulse = createPulse({ database, watch, log })
  const hooks = createHooks({ watch, log })

  const sweep = createSweep({
    database,
    directory,
    batches,
    lines,
    family,
    revocation,
    retention: createRetention({ database, directory, metrics, log }),
    onPlaced: watch.placed,
    metrics,
    log,
  })
  const webhooks = createWebhooks(options.push, {
    database,
    wake,
    directory,
    guard,
    metrics,
    log,
    stopping,
    pollMs,
  })
  const workers = createWorkers({
    sweep,
    courier: webhooks.run,
    listen: wake.run,
    log,
    metrics,
    onCommitted: (listener) => wake.on('feed', listener),
    reapMs: options.reapMs ?? REAP_MS,
    comeDueMs: options.comeDueMs ?? COME_DUE_MS,
    placeMs: options.placeMs ?? PLACE_MS,
    countMs: options.countMs ?? COUNT_MS,
    tidyMs: options.tidyMs ?? TIDY_MS,
  })
  const supervisor = createSupervisor(workers, { log, metrics })

  const start = async (): Promise<void> => {
    await wake.start()
    line.start()
    dry.start()
    lines.start()
    family.start()
    watch.start()
    for (const name of (await directory.queues()).keys()) metrics.seedQueue(name)
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
        for (const waits of [watch, line, dry, lines, family, pulse, hooks]) waits.stop()
      },
    },
    { part: 'wakes', owedMs: 500, run: () => wake.stop() },
    { part: 'database', owedMs: 500, run: () => database.close() },
  ]

  const running = { services, sweep, board, pulse, hooks, supervisor }
  return { ...running, database, wake, directory, line, start, stops }
}
