/**
 * Every metric's name, labels and help, in one list. A label takes its values from a fixed set
 * (queues an operator made, states, outcomes, the names of our own parts and methods), never an id,
 * a context or anything a caller makes up: each new value is a series that Prometheus keeps.
 *
 * Each registry stands alone, so two switchboards in one process do not count for each other.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { ENDED_STATES, OUTCOMES } from '../domain/lifecycle.ts'
import { TIMEOUT_ERRORS } from '../domain/policy.ts'

interface Metric {
  type: 'counter' | 'gauge' | 'histogram'
  name: `switchboard_${string}`
  help: string
  labels: readonly string[]
  buckets?: readonly number[]
}

export const METRICS = {
  todosSent: {
    type: 'counter',
    name: 'switchboard_todos_sent_total',
    help: 'Todos created',
    labels: ['queue'],
  },
  todosClaimed: {
    type: 'counter',
    name: 'switchboard_todos_claimed_total',
    help: 'Claims committed, takeovers and retries among them',
    labels: ['queue'],
  },
  todosFinished: {
    type: 'counter',
    name: 'switchboard_todos_finished_total',
    help: 'Todos that ended, by the state they ended in; failed counts dead letters only',
    labels: ['queue', 'state'],
  },
  todosDeleted: {
    type: 'counter',
    name: 'switchboard_todos_deleted_total',
    help: 'Ended todos deleted past the retention of their queue',
    labels: ['queue'],
  },
  attemptsEnded: {
    type: 'counter',
    name: 'switchboard_attempts_ended_total',
    help: 'Attempts that ended, by outcome',
    labels: ['queue', 'outcome'],
  },
  todoLeasesExpired: {
    type: 'counter',
    name: 'switchboard_todo_leases_expired_total',
    help: 'Todos taken back by the reaper, from a lapsed lease or an interrupt past its deadline',
    labels: ['queue'],
  },
  interruptLeasesReclaimed: {
    type: 'counter',
    name: 'switchboard_interrupt_leases_reclaimed_total',
    help: 'Todos taken back by the reaper because nobody answered their interrupt in time',
    labels: ['queue'],
  },
  timeouts: {
    type: 'counter',
    name: 'switchboard_timeouts_total',
    help: 'Todos that passed a limit on their time, by the limit',
    labels: ['queue', 'timeout'],
  },
  authFailures: {
    type: 'counter',
    name: 'switchboard_auth_failures_total',
    help: 'Requests with a token that is missing, unknown, expired or revoked',
    labels: [],
  },
  listenerReconnects: {
    type: 'counter',
    name: 'switchboard_listener_reconnects_total',
    help: 'Times the LISTEN connection was lost and made anew',
    labels: [],
  },
  sweepFailures: {
    type: 'counter',
    name: 'switchboard_sweep_failures_total',
    help: 'Sweeps of the background that threw',
    labels: ['sweep'],
  },
  sweepRows: {
    type: 'counter',
    name: 'switchboard_sweep_rows_total',
    help: 'Todos moved by the sweeps of the background',
    labels: ['sweep'],
  },
  workerRestarts: {
    type: 'counter',
    name: 'switchboard_worker_restarts_total',
    help: 'Times the supervisor started a crashed worker again',
    labels: ['worker'],
  },
  streamsDropped: {
    type: 'counter',
    name: 'switchboard_streams_dropped_total',
    help: 'Event streams closed because their reader was too slow',
    labels: ['kind'],
  },
  requests: {
    type: 'counter',
    name: 'switchboard_requests_total',
    help: 'Requests answered; code is the error code, or ok',
    labels: ['surface', 'method', 'code'],
  },
  requestSeconds: {
    type: 'histogram',
    name: 'switchboard_request_seconds',
    help: 'Time until a request is answered, waits that the caller asked for included',
    labels: ['surface', 'method'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  pushAttempts: {
    type: 'counter',
    name: 'switchboard_push_attempts_total',
    help: 'Tries to tell a webhook, by what came of them; fenced: the lease had been lost meanwhile',
    labels: ['outcome'],
  },
  pushAttemptSeconds: {
    type: 'histogram',
    name: 'switchboard_push_attempt_seconds',
    help: 'Duration of one try to tell a webhook',
    labels: [],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  },
  pushDeliveries: {
    type: 'gauge',
    name: 'switchboard_push_deliveries',
    help: 'Deliveries to webhooks that are pending, or were given up and are still in the log',
    labels: ['state'],
  },
  pushOldestPendingSeconds: {
    type: 'gauge',
    name: 'switchboard_push_oldest_pending_seconds',
    help: 'How long the oldest pending delivery has been owed',
    labels: [],
  },
  sweepSeconds: {
    type: 'histogram',
    name: 'switchboard_sweep_seconds',
    help: 'Duration of one sweep of the background',
    labels: ['sweep'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  },
  queueTodos: {
    type: 'gauge',
    name: 'switchboard_queue_todos',
    help: 'Todos in a queue, by state',
    labels: ['queue', 'state'],
  },
  queueOldestPendingSeconds: {
    type: 'gauge',
    name: 'switchboard_queue_oldest_pending_seconds',
    help: 'How long the oldest claimable todo has been waiting',
    labels: ['queue'],
  },
  queueOldestIdleSeconds: {
    type: 'gauge',
    name: 'switchboard_queue_oldest_idle_seconds',
    help: 'The longest that a claimed todo has now gone without a sign of progress',
    labels: ['queue'],
  },
  interruptOldestSeconds: {
    type: 'gauge',
    name: 'switchboard_interrupt_oldest_seconds',
    help: 'How long the oldest interrupt has been waiting for its answer',
    labels: ['queue'],
  },
  workerUp: {
    type: 'gauge',
    name: 'switchboard_worker_up',
    help: 'Whether a worker of the background runs and is not failing',
    labels: ['worker'],
  },
  streamsOpen: {
    type: 'gauge',
    name: 'switchboard_streams_open',
    help: 'Event streams open on this node',
    labels: ['kind'],
  },
  waitingClaims: {
    type: 'gauge',
    name: 'switchboard_waiting_claims',
    help: 'Claims on this node that wait for a todo',
    labels: [],
  },
  poolConnections: {
    type: 'gauge',
    name: 'switchboard_pool_connections',
    help: 'Database connections of this node, by state',
    labels: ['state'],
  },
  poolWaiting: {
    type: 'gauge',
    name: 'switchboard_pool_waiting',
    help: 'Requests of this node that wait for a database connection',
    labels: [],
  },
  buildInfo: {
    type: 'gauge',
    name: 'switchboard_build_info',
    help: 'Always 1; the version is the label',
    labels: ['version'],
  },
} as const satisfies Record<string, Metric>

const PUSH_OUTCOMES = ['delivered', 'later', 'dead', 'fenced'] as const

type Named = typeof METRICS
type LabelOf<M extends Metric> = M['labels'][number]
type Instrument<M extends Metric> = M['type'] extends 'counter'
  ? Counter<LabelOf<M>>
  : M['type'] extends 'gauge'
    ? Gauge<LabelOf<M>>
    : Histogram<LabelOf<M>>

export type Metrics = { readonly [K in keyof Named]: Instrument<Named[K]> } & {
  registry: Registry
  /** Creates a queue's counters at zero: a rate needs the scrape before the first increase. */
  seedQueue(queue: string): void
}

const make = ({ type, buckets, labels, ...metric }: Metric, registry: Registry) => {
  const common = { ...metric, labelNames: [...labels], registers: [registry] }
  if (type === 'counter') return new Counter(common)
  if (type === 'gauge') return new Gauge(common)
  return new Histogram({ ...common, ...(buckets && { buckets: [...buckets] }) })
}

export const createMetrics = (): Metrics => {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const named = Object.fromEntries(
    Object.entries(METRICS).map(([key, metric]) => [key, make(metric, registry)]),
  ) as unknown as { [K in keyof Named]: Instrument<Named[K]> }

  const seedQueue = (queue: string): void => {
    named.todosSent.inc({ queue }, 0)
    named.todosClaimed.inc({ queue }, 0)
    named.todosDeleted.inc({ queue }, 0)
    named.todoLeasesExpired.inc({ queue }, 0)
    named.interruptLeasesReclaimed.inc({ queue }, 0)
    for (const timeout of TIMEOUT_ERRORS) named.timeouts.inc({ queue, timeout }, 0)
    for (const state of ENDED_STATES) named.todosFinished.inc({ queue, state }, 0)
    for (const outcome of OUTCOMES) named.attemptsEnded.inc({ queue, outcome }, 0)
  }
  for (const outcome of PUSH_OUTCOMES) named.pushAttempts.inc({ outcome }, 0)
  return { registry, seedQueue, ...named }
}
