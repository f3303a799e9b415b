/**
 * Every metric's name, labels and help, in one list. A label takes its values from a fixed set
 * (queues an operator made, states, outcomes, the names of our own parts and methods) and never
 * from an id, a context or anything a caller makes up: each new value is a series that Prometheus
 * keeps.
 *
 * Each registry stands alone, so two switchboards in one process do not count for each other.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { ENDED_STATES, OUTCOMES } from '../domain/lifecycle.ts'
import { TIMEOUT_ERRORS } from '../domain/policy.ts'

type Type = 'counter' | 'gauge' | 'histogram'

/** The labels of `name{one,two}`. */
type LabelsIn<S extends string> = S extends `${string}{${infer List}}` ? Each<List> : never
type Each<List extends string> = List extends `${infer First},${infer Rest}`
  ? First | Each<Rest>
  : List

const metricOf =
  <T extends Type>(type: T) =>
  <const S extends `switchboard_${string}`>(series: S) =>
  (help: string, buckets: number[] = []) => {
    const [name = '', ...labels] = series.split(/[{},]/).filter(Boolean)
    return { type, name, labels: labels as LabelsIn<S>[], help, buckets }
  }

const counter = metricOf('counter')
const gauge = metricOf('gauge')
const histogram = metricOf('histogram')

export const METRICS = {
  todosSent: counter('switchboard_todos_sent_total{queue}')('Todos created'),
  todosClaimed: counter('switchboard_todos_claimed_total{queue}')(
    'Claims committed, takeovers and retries among them',
  ),
  todosFinished: counter('switchboard_todos_finished_total{queue,state}')(
    'Todos that ended, by the state they ended in; failed counts dead letters only',
  ),
  todosOwing: counter('switchboard_todos_owing_total{queue,state}')(
    'Todos that failed for good or were rejected with messages that nobody had read',
  ),
  todosDeleted: counter('switchboard_todos_deleted_total{queue}')(
    'Ended todos deleted past the retention of their queue',
  ),
  attemptsEnded: counter('switchboard_attempts_ended_total{queue,outcome}')(
    'Attempts that ended, by outcome',
  ),
  attemptsNeverStarted: counter('switchboard_attempts_never_started_total{queue}')(
    'Attempts whose lease ran out and whose holder was never heard of after its claim',
  ),
  todoLeasesExpired: counter('switchboard_todo_leases_expired_total{queue}')(
    'Todos taken back by the reaper, from a lapsed lease or an interrupt past its deadline',
  ),
  interruptLeasesReclaimed: counter('switchboard_interrupt_leases_reclaimed_total{queue}')(
    'Todos taken back by the reaper because nobody answered their interrupt in time',
  ),
  waitHoldersLost: counter('switchboard_wait_holders_lost_total{queue}')(
    'Questions parked by the reaper because their holder stopped its heartbeats during the wait',
  ),
  answersUnheard: counter('switchboard_answers_unheard_total{queue}')(
    'Attempts whose lease ran out and whose holder was not heard of since its question was answered',
  ),
  joinTimeouts: counter('switchboard_join_timeouts_total{queue}')(
    'Parents that went on because their children had not ended in the time their join gave them',
  ),
  timeouts: counter('switchboard_timeouts_total{queue,timeout}')(
    'Todos that passed a limit on their time, by the limit',
  ),
  limitTimeouts: counter('switchboard_limit_timeouts_total{limit}')(
    'Waits that reached their limit: for a database connection (acquire), for a statement, for a lock; and attempts that failed because a tool took too long (tool)',
  ),
  authFailures: counter('switchboard_auth_failures_total')(
    'Requests with a token that is missing, unknown, expired or revoked',
  ),
  listenerReconnects: counter('switchboard_listener_reconnects_total')(
    'Times the LISTEN connection was lost and made anew',
  ),
  answersFoundByPoll: counter('switchboard_answers_found_by_poll_total')(
    'Blocking sends whose answer no wake announced: it waited for the poll',
  ),
  scheduleTicks: counter('switchboard_schedule_ticks_total{queue,outcome}')(
    'Ticks of schedules: made into a todo, skipped by the policy, or failed and still due',
  ),
  sweepFailures: counter('switchboard_sweep_failures_total{sweep}')(
    'Sweeps of the background that threw, and rows that a sweep could not move',
  ),
  sweepRows: counter('switchboard_sweep_rows_total{sweep}')(
    'Todos moved by the sweeps of the background',
  ),
  workerRestarts: counter('switchboard_worker_restarts_total{worker}')(
    'Times the supervisor started a crashed worker again',
  ),
  streamsDropped: counter('switchboard_streams_dropped_total{kind}')(
    'Event streams closed because their reader was too slow',
  ),
  requests: counter('switchboard_requests_total{surface,method,code}')(
    'Requests answered; code is the error code, or ok',
  ),
  requestSeconds: histogram('switchboard_request_seconds{surface,method}')(
    'Time until a request is answered, waits that the caller asked for included',
    [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  ),
  pushAttempts: counter('switchboard_push_attempts_total{outcome}')(
    'Tries to tell a webhook, by what came of them; fenced: the lease had been lost meanwhile',
  ),
  pushAttemptSeconds: histogram('switchboard_push_attempt_seconds')(
    'Duration of one try to tell a webhook',
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  ),
  pushDeliveries: gauge('switchboard_push_deliveries{state}')(
    'Deliveries to webhooks that are pending, or were given up and are still in the log',
  ),
  pushOldestPendingSeconds: gauge('switchboard_push_oldest_pending_seconds')(
    'How long the oldest pending delivery has been owed',
  ),
  sweepSeconds: histogram('switchboard_sweep_seconds{sweep}')(
    'Duration of one sweep of the background',
    [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  ),
  schedules: gauge('switchboard_schedules{state}')(
    'Schedules that are active, are paused, or fail at the tick that is due',
  ),
  scheduleOverdueSeconds: gauge('switchboard_schedule_overdue_seconds')(
    'How long the tick of a schedule that is due longest has waited to be made',
  ),
  queueTodos: gauge('switchboard_queue_todos{queue,state}')('Todos in a queue, by state'),
  queueUnserved: gauge('switchboard_queue_unserved_todos{queue}')(
    'Todos that wait for an agent in a queue from which no live endpoint may claim',
  ),
  queueOldestPendingSeconds: gauge('switchboard_queue_oldest_pending_seconds{queue}')(
    'How long the oldest claimable todo has been waiting',
  ),
  queueOldestIdleSeconds: gauge('switchboard_queue_oldest_idle_seconds{queue}')(
    'The longest that a claimed todo has now gone without a sign of progress',
  ),
  interruptOldestSeconds: gauge('switchboard_interrupt_oldest_seconds{queue}')(
    'How long the oldest interrupt has been waiting for its answer',
  ),
  workerUp: gauge('switchboard_worker_up{worker}')(
    'Whether a worker of the background runs and is not failing',
  ),
  streamsOpen: gauge('switchboard_streams_open{kind}')('Event streams open on this node'),
  waitingClaims: gauge('switchboard_waiting_claims')('Claims on this node that wait for a todo'),
  poolConnections: gauge('switchboard_pool_connections{state}')(
    'Database connections of this node, by state',
  ),
  poolWaiting: gauge('switchboard_pool_waiting')(
    'Requests of this node that wait for a database connection',
  ),
  buildInfo: gauge('switchboard_build_info{version}')('Always 1; the version is the label'),
}

/** What is counted when its limit on time is reached. */
const TIMED_LIMITS = ['acquire', 'statement', 'lock', 'tool'] as const

const PUSH_OUTCOMES = ['delivered', 'later', 'dead', 'fenced'] as const

type Named = typeof METRICS
type LabelOf<K extends keyof Named> = Named[K]['labels'][number]
type Instrument<K extends keyof Named> = {
  counter: Counter<LabelOf<K>>
  gauge: Gauge<LabelOf<K>>
  histogram: Histogram<LabelOf<K>>
}[Named[K]['type']]

export type Metrics = { readonly [K in keyof Named]: Instrument<K> } & {
  registry: Registry
  /** Creates a queue's counters at zero: a rate needs the scrape before the first increase. */
  seedQueue(queue: string): void
}

const make = (metric: Named[keyof Named], registry: Registry) => {
  const { type, name, help, buckets } = metric
  const common = { name, help, labelNames: [...metric.labels], registers: [registry] }
  if (type === 'counter') return new Counter(common)
  return type === 'gauge' ? new Gauge(common) : new Histogram({ ...common, buckets })
}

export const createMetrics = (): Metrics => {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const named = Object.fromEntries(
    Object.entries(METRICS).map(([key, metric]) => [key, make(metric, registry)]),
  ) as unknown as { [K in keyof Named]: Instrument<K> }

  const seedQueue = (queue: string): void => {
    const { todosSent, todosClaimed, todosDeleted } = named
    for (const counts of [todosSent, todosClaimed, todosDeleted]) counts.inc({ queue }, 0)
    named.attemptsNeverStarted.inc({ queue }, 0)
    named.todoLeasesExpired.inc({ queue }, 0)
    named.interruptLeasesReclaimed.inc({ queue }, 0)
    const { waitHoldersLost, answersUnheard, joinTimeouts } = named
    for (const counts of [waitHoldersLost, answersUnheard, joinTimeouts]) counts.inc({ queue }, 0)
    for (const timeout of TIMEOUT_ERRORS) named.timeouts.inc({ queue, timeout }, 0)
    for (const state of ENDED_STATES) named.todosFinished.inc({ queue, state }, 0)
    for (const outcome of OUTCOMES) named.attemptsEnded.inc({ queue, outcome }, 0)
  }
  for (const outcome of PUSH_OUTCOMES) named.pushAttempts.inc({ outcome }, 0)
  for (const limit of TIMED_LIMITS) named.limitTimeouts.inc({ limit }, 0)
  return { registry, seedQueue, ...named }
}
