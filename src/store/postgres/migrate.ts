/**
 * Runs the migrations through knex. They are imported, not read from a folder, and recorded
 * without a file ending, so that TypeScript sources and the built package name them alike.
 * Processes that start at the same time wait for one another on an advisory lock, which dies with
 * its holder.
 */
import knexFactory, { type Knex } from 'knex'
import pg from 'pg'
import * as schema from '../../../migrations/0001_schema.ts'
import * as interruptDeadline from '../../../migrations/0002_interrupt_deadline.ts'
import * as timeouts from '../../../migrations/0003_timeouts.ts'
import * as lines from '../../../migrations/0004_lines.ts'
import * as families from '../../../migrations/0005_families.ts'
import * as liveChildren from '../../../migrations/0006_live_children.ts'
import * as idempotency from '../../../migrations/0007_idempotency.ts'
import * as push from '../../../migrations/0008_push.ts'
import * as answerLinks from '../../../migrations/0009_answer_links.ts'
import * as retention from '../../../migrations/0010_retention.ts'
import * as leaseProbe from '../../../migrations/0011_lease_probe.ts'
import * as todoCounts from '../../../migrations/0012_todo_counts.ts'
import * as installationKeys from '../../../migrations/0013_installation_keys.ts'
import * as messageRequests from '../../../migrations/0014_message_requests.ts'
import * as chunkKeys from '../../../migrations/0015_chunk_keys.ts'
import * as todoDocuments from '../../../migrations/0016_todo_documents.ts'
import * as neverStarted from '../../../migrations/0017_never_started.ts'
import * as authors from '../../../migrations/0018_authors.ts'
import * as budgets from '../../../migrations/0019_budgets.ts'
import * as parkedHolders from '../../../migrations/0020_parked_holders.ts'
import * as schedules from '../../../migrations/0021_schedules.ts'
import { sleep } from '../../base/time.ts'

interface Migration {
  name: string
  /** One without a transaction consists of statements that can be run again after a kill. */
  config?: { transaction: boolean }
  up: (knex: Knex) => Promise<void>
  down: () => Promise<void>
}

const down = async (): Promise<void> => {
  throw new Error('migrations go forward only')
}

const MIGRATIONS: readonly Migration[] = [
  { name: '0001_schema', ...schema, down },
  { name: '0002_interrupt_deadline', ...interruptDeadline, down },
  { name: '0003_timeouts', ...timeouts, down },
  { name: '0004_lines', ...lines, down },
  { name: '0005_families', ...families, down },
  { name: '0006_live_children', ...liveChildren, down },
  { name: '0007_idempotency', ...idempotency, down },
  { name: '0008_push', ...push, down },
  { name: '0009_answer_links', ...answerLinks, down },
  { name: '0010_retention', ...retention, down },
  { name: '0011_lease_probe', ...leaseProbe, down },
  { name: '0012_todo_counts', ...todoCounts, down },
  { name: '0013_installation_keys', ...installationKeys, down },
  { name: '0014_message_requests', ...messageRequests, down },
  { name: '0015_chunk_keys', ...chunkKeys, down },
  { name: '0016_todo_documents', ...todoDocuments, down },
  { name: '0017_never_started', ...neverStarted, down },
  { name: '0018_authors', ...authors, down },
  { name: '0019_budgets', ...budgets, down },
  { name: '0020_parked_holders', ...parkedHolders, down },
  { name: '0021_schedules', ...schedules, down },
]

/** The database was migrated by a newer switchboard than this one. */
export class SchemaTooNew extends Error {
  constructor(unknown: string[]) {
    super(`the database is newer than this version of switchboard: it has ${unknown.join(', ')}`)
    this.name = 'SchemaTooNew'
  }
}

/** The database lacks migrations that this version of switchboard needs. */
export class MigrationsMissing extends Error {
  /** Their names, in order. */
  readonly missing: readonly string[]

  constructor(missing: readonly string[]) {
    const remedy = 'run `switchboard migrate`, call migrate(), or create it with `migrate: true`'
    super(`the database lacks migrations (${missing.join(', ')}): ${remedy}`)
    this.name = 'MigrationsMissing'
    this.missing = missing
  }
}

const migrationSource: Knex.MigrationSource<Migration> = {
  getMigrations: async () => [...MIGRATIONS],
  getMigrationName: (migration) => migration.name,
  getMigration: async (migration) => migration,
}

const TABLE = 'migrations'
/** Any fixed number that nobody else uses: this is "switchb" in ASCII. */
const ADVISORY_LOCK = '32494411868627042'

export const knexConfig = (connectionString: string): Knex.Config => ({
  client: 'pg',
  connection: { connectionString },
  pool: { min: 0, max: 1 },
  migrations: {
    migrationSource,
    tableName: TABLE,
    // The advisory lock replaces knex's lock row, which a killed process would leave behind.
    disableMigrationsListValidation: true,
  },
})

const recorded = async (client: pg.Client): Promise<string[]> => {
  const { rows: found } = await client.query(`select to_regclass($1) is not null as recorded`, [
    TABLE,
  ])
  if (!found[0].recorded) return []
  const { rows } = await client.query<{ name: string }>(`select name from ${TABLE} order by id`)
  return rows.map((row) => row.name)
}

/** The names of the migrations applied, and of those missing. Throws SchemaTooNew. */
const compare = async (client: pg.Client): Promise<{ applied: string[]; missing: string[] }> => {
  const applied = await recorded(client)
  const known = MIGRATIONS.map((migration) => migration.name)
  const unknown = applied.filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new SchemaTooNew(unknown)
  return { applied, missing: known.filter((name) => !applied.includes(name)) }
}

/** Reading which migrations there are takes no longer, in ms; applying one may. */
const ANSWER_MS = 5000

const withClient = async <T>(
  connectionString: string,
  use: (client: pg.Client) => Promise<T>,
  limits: Pick<pg.ClientConfig, 'connectionTimeoutMillis' | 'query_timeout'> = {},
): Promise<T> => {
  const client = new pg.Client({
    connectionString,
    application_name: 'switchboard migrate',
    ...limits,
  })
  client.on('error', () => {})
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

/** How often, in ms, a start that waits for the migrations of another one looks again. */
const LOCK_POLL_MS = 100

/**
 * The lock is tried again and again, not waited for: an index that is built concurrently waits for every
 * statement that began before it, and so would wait for ever for one that waits for its builder's lock.
 */
const takesLock = async (client: pg.Client, pooled: boolean): Promise<boolean> => {
  if (pooled) await client.query('begin')
  const lock = pooled ? 'pg_try_advisory_xact_lock' : 'pg_try_advisory_lock'
  const { rows } = await client.query<{ mine: boolean }>(`select ${lock}($1) as mine`, [
    ADVISORY_LOCK,
  ])
  const mine = rows[0]?.mine === true
  if (pooled && !mine) await client.query('rollback')
  return mine
}

/**
 * Brings the schema up to date; waits for another process that is doing so. Through a pooler
 * (`pooled`) the lock's connection is ours only as long as its transaction is.
 */
export const migrate = async (
  connectionString: string,
  { pooled = false } = {},
): Promise<{ applied: string[] }> =>
  withClient(connectionString, async (client) => {
    while (!(await takesLock(client, pooled))) await sleep(LOCK_POLL_MS)
    const { missing } = await compare(client)
    if (missing.length === 0) {
      // One that was killed right after the last migration has left knex's own lock behind. It is looked
      // at first, since a database that is read-only takes no update, not even of no row.
      const { rowCount } = await client.query(`select from ${TABLE}_lock where is_locked <> 0`)
      if (rowCount) await client.query(`update ${TABLE}_lock set is_locked = 0`)
      return { applied: [] }
    }
    // The snapshot of the last query stays open as long as its transaction, and an index that is built
    // concurrently waits for whoever may still use one. A query without parameters closes it.
    if (pooled) await client.query('select')
    // We hold the lock on a connection of our own, so nobody else can be using knex's lock row.
    const knex = knexFactory(knexConfig(connectionString))
    try {
      await knex.migrate.forceFreeMigrationsLock()
      const applied: string[] = []
      // One at a time: of several at once, some of which build indexes outside a transaction, knex records
      // each only after its commit, and one that was killed in between could never be finished.
      for (const _ of missing) {
        const [, names] = (await knex.migrate.up()) as [number, string[]]
        applied.push(...names)
      }
      return { applied }
    } finally {
      await knex.destroy()
    }
  })

/** The names of the migrations that this code has and the database has not. Throws SchemaTooNew. */
export const pendingMigrations = async (connectionString: string): Promise<string[]> =>
  withClient(connectionString, async (client) => (await compare(client)).missing, {
    connectionTimeoutMillis: ANSWER_MS,
    query_timeout: ANSWER_MS,
  })

/** Throws MigrationsMissing. A database that is newer than this code passes: readiness tells of it. */
export const requireMigrated = async (connectionString: string): Promise<void> => {
  const missing = await pendingMigrations(connectionString).catch((error: unknown) => {
    if (error instanceof SchemaTooNew) return []
    throw error
  })
  if (missing.length > 0) throw new MigrationsMissing(missing)
}
