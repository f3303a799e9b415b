/** Checks of the PostgreSQL server: its version and settings, our rights, its disk, what vacuum leaves. */
import { statfs } from 'node:fs/promises'
import { CLAIMABLE_COUNTS } from '../move/pick.ts'
import { pendingMigrations, SchemaTooNew } from '../postgres/migrate.ts'
import { plannedEachTime } from '../postgres/statement.ts'
import { type Fault, type Finding, judged, ok, someOf, unknown } from './finding.ts'
import type { Reader } from './reader.ts'

const OLDEST_VERSION = 150_000
/** The share of the connections that may be in use. */
const MOST_CONNECTIONS = 0.9

const SETTINGS: Readonly<Record<string, { wanted: string; because: string }>> = {
  fsync: { wanted: 'on', because: 'a crash of the machine can destroy the database' },
  full_page_writes: { wanted: 'on', because: 'a crash of the machine can destroy pages' },
  synchronous_commit: { wanted: 'on', because: 'what was answered can be lost in a crash' },
  autovacuum: { wanted: 'on', because: 'dead rows pile up, and claims get slower and slower' },
  track_counts: { wanted: 'on', because: 'autovacuum does not know what to clean' },
  server_encoding: { wanted: 'UTF8', because: 'it cannot hold every text' },
  transaction_read_only: { wanted: 'off', because: 'nothing can be written' },
}

/** Commits wait for more than the local disk. */
const AS_GOOD: Readonly<Record<string, readonly string[]>> = {
  synchronous_commit: ['local', 'remote_write', 'remote_apply'],
}

export const checkDatabase = async ({ read }: Reader): Promise<Finding> => {
  const faults: Fault[] = []
  const [server] = await read<{ number: string; version: string; used: number; most: number }>(
    `select current_setting('server_version_num') as number,
      current_setting('server_version') as version,
      (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used,
      current_setting('max_connections')::int as most`,
  )
  const { number, version, used, most } = server!
  if (Number(number) < OLDEST_VERSION) {
    const advice = 'upgrade the server to PostgreSQL 15 or later'
    faults.push({ found: `PostgreSQL ${version} is too old`, advice })
  }
  if (used > most * MOST_CONNECTIONS) {
    const found = `${used} of ${most} connections are in use`
    const advice = 'raise max_connections, run fewer nodes, or put a pooler before the server'
    faults.push({ found, advice })
  }
  // Every question here is asked in a read-only transaction, so the default is what tells.
  const set = await read<{ name: string; value: string }>(
    `select name, case name when 'transaction_read_only' then
        case when pg_is_in_recovery() then 'on' else current_setting('default_transaction_read_only') end
      else setting end as value
    from pg_settings where name = any($1)`,
    [Object.keys(SETTINGS)],
  )
  for (const { name, value } of set) {
    const { wanted, because } = SETTINGS[name]!
    if (value === wanted || AS_GOOD[name]?.includes(value)) continue
    const setting = name === 'transaction_read_only' ? 'default_transaction_read_only' : name
    const advice =
      name === 'server_encoding'
        ? "move to a database made with encoding 'UTF8' template template0"
        : `set ${setting} to ${wanted} where it was changed: in postgresql.conf, or for the database or the role`
    faults.push({ found: `${setting} is ${value}: ${because}`, advice })
  }
  return judged('database', faults, `PostgreSQL ${version}, ${used} of ${most} connections in use`)
}

const TABLES = [
  'answer_links artifacts attempts board_codes board_sessions deliveries details endpoints events',
  'feed_horizons idempotency_keys installation_keys messages push_configs queues remains schedules settings',
  'todo_counted todo_counts todos',
].flatMap((line) => line.split(' '))

export const checkRights = async ({ read }: Reader): Promise<Finding> => {
  const missing = await read<{ name: string; right: string }>(
    `select c.relname as name, r.right from pg_class c
      cross join unnest(case c.relkind when 'S' then array['USAGE']
        else array['SELECT', 'INSERT', 'UPDATE', 'DELETE'] end) as r("right")
    where c.oid = any(select to_regclass(quote_ident(name)) from unnest($1::text[]) as name)
      and not case c.relkind when 'S' then has_sequence_privilege(c.oid, r.right)
        else has_table_privilege(c.oid, r.right) end
    order by c.relname, r.right`,
    [[...TABLES, 'feed_position']],
  )
  const [{ role } = { role: '' }] = await read<{ role: string }>('select current_user as role')
  const named = missing.map(({ name, right }) => `${right.toLowerCase()} on ${name}`)
  const faults: Fault[] =
    named.length === 0
      ? []
      : [
          {
            found: `the role ${role} lacks ${someOf(named)}`,
            advice: `grant select, insert, update, delete on the tables, and usage on the sequences, to ${role}; or use the role that owns them`,
          },
        ]
  return judged('rights', faults, `the role ${role} may use every table`)
}

export const checkSchema = async ({ read }: Reader, databaseUrl: string): Promise<Finding> => {
  const faults: Fault[] = []
  const migrate = 'run `switchboard migrate`'
  try {
    const missing = await pendingMigrations(databaseUrl)
    if (missing.length > 0) faults.push({ found: `it lacks ${someOf(missing)}`, advice: migrate })
  } catch (error) {
    if (!(error instanceof SchemaTooNew)) throw error
    const advice = 'use the version of switchboard that migrated it, or a later one'
    faults.push({ found: error.message, advice })
  }
  const invalid = await read<{ name: string }>(
    `select c.relname as name from pg_index i join pg_class c on c.oid = i.indexrelid
    where not i.indisvalid and i.indrelid = any(
      select to_regclass(quote_ident(name)) from unnest($1::text[]) as name)`,
    [TABLES],
  )
  if (invalid.length > 0) {
    const found = `the index ${someOf(invalid.map(({ name }) => name))} is not valid`
    faults.push({ found, advice: 'build it anew: reindex index concurrently …' })
  }
  return judged('schema', faults, 'it is that of this version')
}

const GIB = 1024 ** 3
/** What must be free: 1 GiB, and 5 % where these are less than 20 GiB. */
const isShort = (free: number, size: number): boolean =>
  free < GIB || (free < size * 0.05 && free < 20 * GIB)

const isHere = (host: string): boolean =>
  host.startsWith('/') || ['localhost', '127.0.0.1', '::1'].includes(host)

/** Where the data directory lies is told to few roles, and its disk can be seen only on its machine. */
export const checkDisk = async ({ read }: Reader, host: string): Promise<Finding> => {
  const [row] = await read<{ may: boolean; bytes: string }>(
    `select pg_has_role(current_user, 'pg_read_all_settings', 'member') as may,
      pg_database_size(current_database())::text as bytes`,
  )
  const size = `the database takes ${(Number(row!.bytes) / GIB).toFixed(2)} GiB`
  const ask = 'look at the disk where the server runs'
  if (!isHere(host)) return unknown('disk', `${size}; its server runs elsewhere`, ask)
  if (!row!.may) {
    const advice = 'grant pg_read_all_settings to its role, or look at the disk yourself'
    return unknown('disk', `${size}; its role may not know where the data lies`, advice)
  }
  const [{ folder }] = (await read<{ folder: string }>(
    `select current_setting('data_directory') as folder`,
  )) as [{ folder: string }]
  const disk = await statfs(folder).catch(() => null)
  if (disk === null) return unknown('disk', `${size}; ${folder} cannot be seen from here`, ask)
  const free = disk.bavail * disk.bsize
  const found = `${(free / GIB).toFixed(1)} GiB are free where the data lies (${folder})`
  const advice =
    'make room or move the data; a retention for the queues keeps them small (`retentionDays`)'
  const short = isShort(free, disk.blocks * disk.bsize)
  return judged('disk', short ? [{ found, advice }] : [], `${found}; ${size}`)
}

const head = plannedEachTime<unknown>('doctor_claim_head', CLAIMABLE_COUNTS)
/** A claim that meets nothing dead touches some ten; these are 8 MB. */
const MOST_BLOCKS = 1000
/** How many queues are looked at. */
const MOST_QUEUES = 200

interface OldSnapshot {
  pid: number
  application: string
  state: string | null
  seconds: number
}

/** What a claim has to step over before it comes to the first todo: measured by looking, as one does. */
export const checkClaimHead = async (reader: Reader): Promise<Finding> => {
  const { read, buffersOf } = reader
  const queues = await read<{ name: string }>(
    `select name from queues order by created_at, name limit ${MOST_QUEUES}`,
  )
  const crowded: string[] = []
  let most = 0
  for (const { name } of queues) {
    const blocks = await buffersOf(head, { queues: [name], limit: 1 })
    most = Math.max(most, blocks)
    if (blocks > MOST_BLOCKS) crowded.push(`${blocks} blocks in ${name}`)
  }
  if (crowded.length === 0) return ok('claims', `a claim looks at ${most} blocks at most`)
  const [oldest] = await read<OldSnapshot>(
    `select pid, application_name as application, state,
      extract(epoch from now() - coalesce(xact_start, query_start))::int as seconds
    from pg_stat_activity where backend_xmin is not null and datname = current_database() and pid <> pg_backend_pid()
    order by xact_start limit 1`,
  )
  const advice: string[] = ['vacuum (analyze) todos']
  if (oldest) {
    const { pid, application, state, seconds } = oldest
    advice.unshift(
      `end the transaction that keeps dead rows: process ${pid} (${application || 'no name'}, ${state ?? 'unknown'}) since ${seconds} s; select pg_terminate_backend(${pid})`,
    )
  }
  const found = `a claim steps over dead rows: ${someOf(crowded)}`
  return judged('claims', [{ found, advice: advice.join('; then ') }], '')
}
