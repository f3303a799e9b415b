/** What a node can be told when it is made; most of it only tests and benchmarks tell. */
import type { Log } from '../base/log.ts'
import type { Config } from '../config.ts'
import type { PushLimits } from '../domain/push.ts'
import type { PostOptions } from '../webhook/post.ts'

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
  countMs?: number
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
