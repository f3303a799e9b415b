/** The ways out of a node that its services share: to the database, and to the other nodes. */
import { defined } from '../base/defined.ts'
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import { type Database, openDatabase } from '../store/postgres/database.ts'
import type { WaitLimit } from '../store/postgres/pg-errors.ts'
import { silentBus, type WakeBus } from '../store/wake/bus.ts'
import { postgresBus } from '../store/wake/listen-notify.ts'
import { natsBus } from '../store/wake/nats.ts'
import { createWakes, type Wakes } from '../store/wake/wake.ts'
import type { NodeOptions } from './options.ts'

/** How wakes travel: over NATS if it is configured, else over a connection that can LISTEN. */
const busOf = (options: NodeOptions, log: Log): WakeBus => {
  const { config, databaseUrl, directUrl = null, pooled = false, answerMs } = options
  if (config.natsUrl !== null) return natsBus(defined({ url: config.natsUrl, answerMs }))
  if (!pooled || directUrl !== null) {
    return postgresBus(defined({ connectionString: directUrl ?? databaseUrl, answerMs }))
  }
  log.warn(
    'a pooler stands before the database, and nothing is heard through it: other nodes are found out about by polling. Set DATABASE_DIRECT_URL or SWITCHBOARD_NATS_URL',
  )
  return silentBus
}

/** Opens nothing yet: the database connects with its first query, the wakes when they are started. */
export const createConnections = (
  options: NodeOptions,
  { log, metrics }: { log: Log; metrics: Metrics },
): { database: Database; wakes: Wakes } => {
  const { databaseUrl: connectionString, poolSize, acquireMs, statementMs, lockMs } = options
  const { keepAliveMs, pooled } = options
  const database = openDatabase(
    defined({
      connectionString,
      poolSize,
      acquireMs,
      statementMs,
      lockMs,
      pooled,
      onTimeout: (limit: WaitLimit) => metrics.limitTimeouts.inc({ limit }),
    }),
  )
  const wakes = createWakes({
    bus: busOf(options, log),
    log,
    onReconnect: () => metrics.listenerReconnects.inc(),
    ...defined({ keepAliveMs }),
  })
  database.onWake(wakes.wake)
  return { database, wakes }
}
