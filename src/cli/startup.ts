/**
 * What `dev` and `serve` start: the database and the server, with each failure as one clear line
 * and an exit code of its own.
 */
import { createNode, type Switchboard } from '../app.ts'
import { createLog } from '../base/log.ts'
import { type Config, isEveryAddress, kubernetesVariables } from '../config.ts'
import { DataDirInUse, lockDataDir, startEmbedded } from '../embedded.ts'
import { migrate } from '../store/postgres/migrate.ts'
import { CliError, EXIT } from './exit.ts'
import { note } from './output.ts'
import { reachConfigured } from './probe.ts'
import type { DrainOption, LingerOption } from './program.ts'
import { LAST_MS, type Life } from './run-until-signal.ts'

/** Keeps the data directory for this process alone, until it ends. Throws CliError (in use). */
export const holdDataDir = async (life: Life, { dataDir }: Config): Promise<void> => {
  await life.step(
    () => {
      try {
        return lockDataDir(dataDir)
      } catch (error) {
        if (!(error instanceof DataDirInUse)) throw error
        throw new CliError(EXIT.dataDirInUse, error.message)
      }
    },
    (lock) => lock.release(),
  )
}

/** Where the database is, and how it is reached. */
export interface Opened {
  databaseUrl: string
  /** Without the pooler, if there is one. */
  directUrl: string | null
  pooled: boolean
  /** One of our own is away because its disk is full. */
  databaseIsFull?: () => boolean
}

/**
 * Opens the configured database, else one of our own, and brings its schema up to date. Throws
 * CliError (the configured one cannot be used).
 */
export const openDatabase = async (
  life: Life,
  config: Config,
  { migrates = true }: { migrates?: boolean } = {},
): Promise<Opened> => {
  const opened = await findDatabase(life, config)
  const { databaseUrl, directUrl, pooled } = opened
  if (migrates) await migrate(directUrl ?? databaseUrl, { pooled: pooled && directUrl === null })
  return opened
}

const findDatabase = async (life: Life, config: Config): Promise<Opened> => {
  const { databaseUrl, directUrl } = config
  if (databaseUrl === null) {
    return { ...(await startOwn(life, config)), directUrl: null, pooled: false }
  }
  const { pooled } = await reachConfigured(databaseUrl)
  if (directUrl !== null) await reachConfigured(directUrl, 'DATABASE_DIRECT_URL')
  return { databaseUrl, directUrl, pooled }
}

const startOwn = async (
  life: Life,
  { dataDir }: Config,
): Promise<Pick<Opened, 'databaseUrl' | 'databaseIsFull'>> => {
  const onFull = (full: boolean): void =>
    note(
      full
        ? `switchboard: the disk of the PostgreSQL in ${dataDir} is full, and it has ended. Make room: it comes back by itself, with all that was committed`
        : `switchboard: there is room again, and the PostgreSQL in ${dataDir} is back`,
    )
  const embedded = await life.step(
    () => startEmbedded(dataDir, { onFull }),
    (database) => database.stop(),
  )
  void embedded.lost.then(() => {
    const message = `The PostgreSQL in ${dataDir} was killed: start again, and all that was committed is there`
    life.fail(new CliError(EXIT.failed, message))
  })
  return { databaseUrl: embedded.url, databaseIsFull: embedded.isFull }
}

/**
 * Starts a server that listens. `drainSeconds` is how long stopping may take until the process is
 * gone, `lingerSeconds` how long its idle connections are kept meanwhile (none where it is left out).
 * Throws CliError (port in use).
 */
export const startServer = async (
  life: Life,
  config: Config,
  opened: Opened,
  { drainSeconds, lingerSeconds = 0 }: DrainOption & Partial<LingerOption>,
): Promise<{ server: Switchboard; url: string }> => {
  const log = createLog(config.logLevel)
  const ignored = kubernetesVariables(process.env)
  if (ignored.length > 0) {
    log.info({ ignored }, 'variables that Kubernetes sets for its service are ignored')
  }
  if (config.publicUrl === null && isEveryAddress(config.host)) {
    log.warn(
      { host: config.host },
      'SWITCHBOARD_PUBLIC_URL is not set: cards name the host that each request asks for',
    )
  }
  const server = createNode({
    config,
    ...opened,
    log,
    drainMs: drainSeconds * 1000 - LAST_MS,
    lingerMs: lingerSeconds * 1000,
  })
  const { url } = await life.step(
    () => listen(server, config),
    () => server.stop(),
  )
  return { server, url }
}

const listen = async (server: Switchboard, { host, port }: Config): Promise<{ url: string }> => {
  try {
    return await server.start()
  } catch (error) {
    // A server that has half started may hold connections that keep the database from stopping.
    await server.stop().catch(() => {})
    if ((error as { code?: unknown } | null)?.code !== 'EADDRINUSE') throw error
    const message = `Port ${port} of ${host} is in use: set PORT to another one`
    throw new CliError(EXIT.portInUse, message)
  }
}
