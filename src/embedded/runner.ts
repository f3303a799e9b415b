/**
 * As which user PostgreSQL runs, and from which folder. It refuses to run as root, so root becomes
 * the owner of the data, else the user `postgres` or `nobody`. Where that user cannot reach the
 * data (because all lies under /root), a user namespace hides from PostgreSQL that it is root.
 *
 * No environment is passed on, since it holds tokens that another user's process would expose.
 */
import { type SpawnOptions, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { type Binaries, clusterFolder, link } from './binaries.ts'
import { EmbeddedUnavailable } from './process.ts'

interface User {
  uid: number
  gid: number
}

export interface Runner {
  bin: string
  /** Null: the user of this process. */
  user: User | null
  /** Put before every command. */
  prefix: readonly string[]
}

const NOBODY = 65_534
const NAMESPACE = ['unshare', '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, '--']
const ENVIRONMENT = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
}

/** A command line and options as spawn takes them. Detached, so that Ctrl-C reaches node alone. */
export const command = (
  runner: Runner,
  words: readonly string[],
): [string, string[], SpawnOptions] => {
  const [file, ...args] = [...runner.prefix, ...words]
  return [file ?? '', args, { ...runner.user, cwd: '/', env: ENVIRONMENT, detached: true }]
}

const succeeds = (runner: Runner, words: readonly string[]): boolean =>
  spawnSync(...command(runner, words)).status === 0

const works = (runner: Runner): boolean =>
  succeeds(runner, [path.join(runner.bin, 'postgres'), '--version'])

/** A prefix that makes PostgreSQL end with node, even by SIGKILL; empty where there is none. */
export const tiedToNode = (runner: Runner): string[] => {
  const tie = ['setpriv', '--pdeathsig', 'INT', '--']
  return succeeds(runner, [...tie, 'true']) ? tie : []
}

/** Null when these binaries do not run here, whoever runs them. */
export const chooseRunner = (binaries: Binaries, dataDir: string): Runner | null => {
  const cluster = clusterFolder(dataDir, binaries.major)
  const owner = fs.statSync(cluster, { throwIfNoEntry: false })
  return process.getuid?.() === 0
    ? forRoot(binaries, dataDir, owner)
    : forOrdinary(binaries, dataDir, owner, cluster)
}

const forOrdinary = (
  binaries: Binaries,
  dataDir: string,
  owner: User | undefined,
  cluster: string,
): Runner | null => {
  const uid = process.getuid?.()
  if (owner && owner.uid !== uid) {
    throw new EmbeddedUnavailable(
      `${cluster} belongs to uid ${owner.uid}, and this process is uid ${uid}. Start it as that ` +
        'user, choose another SWITCHBOARD_DATA_DIR, or set DATABASE_URL.',
    )
  }
  // initdb looks up its user's name, so a uid without one (docker run --user) borrows a name.
  const named = spawnSync('id', ['-un']).status === 0
  const borrowed: Runner = { bin: binaries.bin, user: null, prefix: NAMESPACE }
  const prefix = !named && succeeds(borrowed, ['true']) ? NAMESPACE : []
  return fromReadableFolder(binaries, dataDir, { user: null, prefix })
}

const forRoot = (binaries: Binaries, dataDir: string, owner: User | undefined): Runner | null => {
  const user = owner ? { uid: owner.uid, gid: owner.gid } : unprivilegedUser()
  const asUser: Runner = { bin: binaries.bin, user, prefix: [] }
  if (user.uid !== 0 && succeeds(asUser, ['test', '-x', dataDir])) {
    return fromReadableFolder(binaries, dataDir, asUser)
  }
  const hidden: Runner = { bin: binaries.bin, user: null, prefix: NAMESPACE }
  if ((!owner || owner.uid === 0) && succeeds(hidden, ['true'])) {
    return works(hidden) ? hidden : null
  }
  throw new EmbeddedUnavailable(
    `PostgreSQL does not run as root, and uid ${user.uid || NOBODY} cannot reach ${dataDir}. ` +
      'Choose a SWITCHBOARD_DATA_DIR outside of /root, start as another user, or set DATABASE_URL.',
  )
}

const unprivilegedUser = (): User => {
  const id = (flag: string, name: string) =>
    Number.parseInt(spawnSync('id', [flag, name], { encoding: 'utf8' }).stdout, 10)
  const name = id('-u', 'postgres') > 0 ? 'postgres' : 'nobody'
  return { uid: id('-u', name) || NOBODY, gid: id('-g', name) || NOBODY }
}

/** The binaries where they are, else a copy of npm's package beside the data. */
const fromReadableFolder = (
  { bin, portable }: Binaries,
  dataDir: string,
  as: Omit<Runner, 'bin'>,
): Runner | null => {
  const inPlace = { ...as, bin }
  if (works(inPlace)) return inPlace
  if (!portable) return null
  const copied = { ...as, bin: path.join(copy(portable, dataDir), 'bin') }
  return works(copied) ? copied : null
}

/** Copies 60 MB, once, where that user cannot read the install or it is read-only without links. */
const copy = ({ root, version }: { root: string; version: string }, dataDir: string): string => {
  const name = `postgres-${version}`
  const whole = path.join(dataDir, name)
  if (fs.existsSync(whole)) return whole
  for (const old of fs.readdirSync(dataDir).filter((entry) => /^postgres-\d/.test(entry))) {
    fs.rmSync(path.join(dataDir, old), { recursive: true, force: true })
  }
  const draft = `${whole}.draft`
  fs.cpSync(root, draft, { recursive: true, verbatimSymlinks: true })
  link(draft)
  openToAll(draft)
  fs.renameSync(draft, whole)
  return whole
}

const openToAll = (folder: string): void => {
  fs.chmodSync(folder, 0o755)
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name)
    if (entry.isDirectory()) openToAll(file)
    else if (entry.isFile()) fs.chmodSync(file, folder.endsWith('/bin') ? 0o755 : 0o644)
  }
}
