/**
 * A PostgreSQL of our own, used where DATABASE_URL is absent. It lives in a data directory and is
 * reached by a unix socket only. One process owns the server: it starts it, and takes it along when
 * it ends, however that happens. Other processes on the same directory share it.
 *
 * It is not for production: one machine, no backups. What the binaries and the operating systems
 * need is decided in embedded/.
 */
import type { ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { type Binaries, clusterFolder, clusterMajors, findBinaries } from './embedded/binaries.ts'
import { lastWords, launch, makeCluster, PORT, socketFolder } from './embedded/cluster.ts'
import { keepRunning } from './embedded/keeper.ts'
import { tryLock } from './embedded/lock.ts'
import { foreignOwner, ownedByAnother } from './embedded/owner.ts'
import { clearCluster, readPostmaster } from './embedded/pid-file.ts'
import { EmbeddedUnavailable, errorCode } from './embedded/process.ts'
import { chooseRunner, type Runner } from './embedded/runner.ts'

export interface EmbeddedPostgres {
  url: string
  connection: { host: string; port: number; user: string; database: string }
  /** The pid of the server's first process; another once it was started again. */
  readonly pid: number
  /** False: another process started it, and it ends when that one does. */
  owned: boolean
  /** An owned server has ended because its disk is full, and is started again once there is room. */
  isFull(): boolean
  /** Resolves if an owned server ends otherwise without being stopped. */
  lost: Promise<void>
  /** Stops an owned server and cuts off its remaining clients. Does nothing to a shared one. */
  stop(): Promise<void>
}

/** Another process works on the data directory. */
export class DataDirInUse extends Error {
  override name = 'DataDirInUse'
  readonly pid: number

  constructor(dataDir: string, pid: number) {
    super(`${dataDir} is in use by another process (pid ${pid})`)
    this.pid = pid
  }
}

const START_MS = 60_000
const STOP_MS = 20_000
/** Enough connections for every pool of a developer's machine, and no process that nobody needs. */
const SETTINGS = ['max_connections=100', 'max_logical_replication_workers=0']

/** Locks the directory, for a program that may run on it only once. Throws DataDirInUse. */
export const lockDataDir = (dataDir: string): { release(): void } => {
  const dir = openDataDir(dataDir)
  const lock = tryLock(path.join(dir, 'switchboard.lock'))
  if (!lock.acquired) throw new DataDirInUse(dir, lock.pid)
  return { release: lock.release }
}

export interface EmbeddedOptions {
  settings?: string[]
  /** Told that an owned server has ended because its disk is full, and that it runs again. */
  onFull?: (full: boolean) => void
}

/** Throws EmbeddedUnavailable, whose message says what to do instead. */
export const startEmbedded = async (
  dataDir: string,
  options: EmbeddedOptions = {},
): Promise<EmbeddedPostgres> => {
  const dir = openDataDir(dataDir)
  const deadline = Date.now() + START_MS
  for (;;) {
    const lock = tryLock(path.join(dir, 'postgres.lock'))
    if (lock.acquired) return own(dir, lock.release, options, deadline)
    const shared = await share(dir)
    if (shared) return shared
    if (Date.now() > deadline) {
      throw new EmbeddedUnavailable(
        `The PostgreSQL that process ${lock.pid} started in ${dir} does not answer.`,
      )
    }
    await pause(50)
  }
}

/** The directory's real path, by which servers are told apart. */
const openDataDir = (dataDir: string): string => {
  const dir = makeDataDir(path.resolve(dataDir))
  const owner = foreignOwner(dir)
  if (owner === null) return dir
  throw new EmbeddedUnavailable(`${ownedByAnother(dir, owner)}.`)
}

const makeDataDir = (wanted: string): string => {
  try {
    const first = fs.mkdirSync(wanted, { recursive: true })
    // PostgreSQL's user could not pass through a folder that root made under a strict umask.
    if (first && process.getuid?.() === 0) letPass(first, wanted)
    const dir = fs.realpathSync(wanted)
    fs.accessSync(dir, fs.constants.W_OK)
    return dir
  } catch (error) {
    throw new EmbeddedUnavailable(
      `The data directory ${wanted} cannot be used (${errorCode(error)}). Choose another ` +
        'SWITCHBOARD_DATA_DIR, or set DATABASE_URL.',
    )
  }
}

const letPass = (first: string, last: string): void => {
  for (let folder = last; folder.length >= first.length; folder = path.dirname(folder)) {
    fs.chmodSync(folder, fs.statSync(folder).mode | 0o711)
  }
}

const own = async (
  dir: string,
  release: () => void,
  { settings = [], onFull = () => {} }: EmbeddedOptions,
  deadline: number,
): Promise<EmbeddedPostgres> => {
  let socket = ''
  const giveBack = () => {
    if (socket) fs.rmSync(socket, { recursive: true, force: true })
    release()
  }
  try {
    for (const major of clusterMajors(dir)) await clearCluster(clusterFolder(dir, major), deadline)
    const { runner, major } = choose(findBinaries(dir), dir)
    const cluster = clusterFolder(dir, major)
    await makeCluster(runner, cluster, !settings.includes('fsync=off'))
    socket = socketFolder(runner, cluster)
    const start = (until: number): Promise<ChildProcess> =>
      launch(runner, cluster, socket, [...SETTINGS, ...settings], until)
    // The server does not keep node alive. The kernel, or the next owner, ends it after node.
    const keeper = keepRunning(await start(deadline), {
      dir,
      launch: () => start(Date.now() + START_MS),
      lastWords: () => lastWords(cluster),
      onFull,
    })
    let stopping: Promise<void> | undefined
    const stop = () => {
      stopping ??= keeper
        .stop()
        .then(() => end(keeper.child()))
        .finally(giveBack)
      return stopping
    }
    const { isFull, lost } = keeper
    return {
      ...reachedBy(socket, PORT),
      get pid() {
        return keeper.child().pid ?? 0
      },
      owned: true,
      isFull,
      lost,
      stop,
    }
  } catch (error) {
    giveBack()
    throw error
  }
}

const choose = (candidates: Binaries[], dir: string): { runner: Runner; major: number } => {
  for (const binaries of candidates) {
    const runner = chooseRunner(binaries, dir)
    if (runner) return { runner, major: binaries.major }
  }
  throw new EmbeddedUnavailable(
    `PostgreSQL does not run on this system (tried ${candidates.map(({ bin }) => bin).join(', ')})` +
      '. Set DATABASE_URL to the PostgreSQL to use.',
  )
}

/** Ends the server by SIGINT, which ends the sessions and shuts down cleanly. */
const end = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve()
    child.ref()
    const harder = setTimeout(() => child.kill('SIGQUIT'), STOP_MS)
    child.once('exit', () => {
      clearTimeout(harder)
      resolve()
    })
    child.kill('SIGINT')
  })

const reachedBy = (host: string, port: number): Pick<EmbeddedPostgres, 'url' | 'connection'> => ({
  // pg also reads the form with ?host=, but knex does not.
  url: `postgresql://postgres@${encodeURIComponent(host)}:${port}/postgres`,
  connection: { host, port, user: 'postgres', database: 'postgres' },
})

/** The server that another process owns; null while that one starts or stops it. */
const share = async (dir: string): Promise<EmbeddedPostgres | null> => {
  for (const major of clusterMajors(dir)) {
    const found = readPostmaster(clusterFolder(dir, major))
    if (!found?.ready) continue
    const reached = reachedBy(found.socketFolder, found.port)
    if (await answers(reached.connection)) {
      const lost = new Promise<void>(() => {})
      const shared = { owned: false, isFull: () => false, lost, stop: async () => {} }
      return { ...reached, pid: found.pid, ...shared }
    }
  }
  return null
}

const answers = async (connection: EmbeddedPostgres['connection']): Promise<boolean> => {
  const client = new pg.Client({ ...connection, connectionTimeoutMillis: 2000 })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('select 1')
    return true
  } catch {
    return false
  } finally {
    await client.end()
  }
}
