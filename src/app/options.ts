/**
 * What a node can be told when it is made: what the package's users may set, and what only tests
 * and benchmarks do.
 */
import type { Log } from '../base/log.ts'
import type { Config } from '../config.ts'
import type { PushLimits } from '../domain/push.ts'
import type { PostOptions } from '../webhook/post.ts'

/** What a program that runs a node in its own process may set (docs/api.md). */
export interface SwitchboardOptions {
  config: Config
  /** The database to use; the config's may be null, for an embedded one. */
  databaseUrl: string
  /** The same database without the pooler, where one stands before `databaseUrl`. */
  directUrl?: string | null
  /** Whether a pooler that lends a connection for each transaction stands before `databaseUrl`. */
  pooled?: boolean
  /**
   * Brings the schema up to date when it starts. Default: false, and `start` then rejects with
   * MigrationsMissing where it is not.
   */
  migrate?: boolean
  /** Default: one that writes JSON lines to stderr, from `config.logLevel` on. */
  log?: Log
  /** How many connections this node may open at most, beside the one that listens. */
  poolSize?: number
  /** How long stopping may take in all, in ms; most of it is left to the calls in progress. */
  drainMs?: number
  /**
   * How long `stop` keeps idle connections open, in ms, so that a request which is on its way over
   * one is answered with `Connection: close` and does not fail. Default: 0.
   */
  lingerMs?: number
}

/** What this package's commands, tests and benchmarks may set as well: it does not promise these. */
export interface NodeOptions extends Omit<SwitchboardOptions, 'migrate'> {
  /** Whoever runs the database knows that it is away because its disk is full. */
  databaseIsFull?: () => boolean
  /**
   * How often a node checks for itself what wakes and commits announce. For tests that lose wakes.
   */
  pollMs?: number
  reapMs?: number
  comeDueMs?: number
  scheduleMs?: number
  tidyMs?: number
  countMs?: number
  placeMs?: number
  /** How long a call may wait for a database connection, in ms. */
  acquireMs?: number
  /** How long a statement may run, and how long it may wait for a lock, in ms. */
  statementMs?: number
  lockMs?: number
  /** How often a silent LISTEN connection is probed, and how long it has to answer, in ms. */
  keepAliveMs?: number
  answerMs?: number
  /** How often the rights of all who wait are checked without a wake, in ms. */
  recheckMs?: number
  /** Milliseconds between the comments of an idle stream. */
  pingMs?: number
  /** The longest a blocking send waits, in ms; it is then answered with the task as it stands. */
  maxWaitMs?: number
  bodyLimitBytes?: number
  push?: PushOptions
}

/** How webhooks are called. */
export interface PushOptions extends Partial<PushLimits & Omit<PostOptions, 'guard'>> {
  /** How many tries may be in progress on this node, and how many of them to one host. */
  concurrency?: number
  perHost?: number
}

/** How often a node does what nobody asks it for, and how long its stopping may take, in ms. */
export const NODE_DEFAULTS = {
  pollMs: 5000,
  /** Lapsed leases and overdue interrupts share this tick (docs/design/interrupt-deadline.md). */
  reapMs: 30_000,
  comeDueMs: 1000,
  scheduleMs: 1000,
  tidyMs: 60_000,
  countMs: 1000,
  placeMs: 1000,
  drainMs: 13_000,
} as const satisfies Partial<NodeOptions>
