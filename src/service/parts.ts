/** What the services of a node share. Each maker picks the parts it needs. */
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import type { Database } from '../store/postgres/database.ts'
import type { Wakes } from '../store/wake/wake.ts'
import type { PageTokens } from './page-tokens.ts'
import type { Registry } from './registry.ts'
import type { StuckRows } from './stuck-rows.ts'

export interface Parts {
  database: Database
  registry: Registry
  wakes: Wakes
  metrics: Metrics
  pages: PageTokens
  log: Pick<Log, 'debug' | 'info' | 'warn' | 'error'>
  /** Told of each row that a sweep could not move. */
  stuckRows: StuckRows
  /** How long a lost wake can delay whoever waits for it, in ms. */
  pollMs: number
}
