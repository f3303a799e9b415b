/**
 * Makes a cluster and starts a server on it. Only the owner of the data directory calls this, after
 * clearing away what an earlier owner left.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { readPostmaster } from './pid-file.ts'
import { EmbeddedUnavailable, unless } from './process.ts'
import { command, type Runner, tiedToNode } from './runner.ts'

export const PORT = 5432
const LOG_BYTES = 10_000_000

/**
 * initdb works in a draft folder that is then renamed, because an initdb killed half-way leaves a
 * folder that PostgreSQL starts on but that holds no database.
 */
export const makeCluster = async (
  runner: Runner,
  cluster: string,
  sync: boolean,
): Promise<void> => {
  removeDrafts(cluster)
  if (fs.existsSync(cluster)) return
  const draft = `${cluster}.draft-${process.pid}`
  fs.rmSync(draft, { recursive: true, force: true })
  fs.mkdirSync(draft, { mode: 0o700 })
  give(runner, draft)
  // Without a named encoding, an environment without LANG makes an SQL_ASCII database.
  const locale = process.platform === 'linux' ? 'C.UTF-8' : 'C'
  const words = ['-D', draft, '-U', 'postgres', '-E', 'UTF8', `--locale=${locale}`]
  // Whoever reaches the socket is trusted: its folder is closed to all but us, and TCP is off.
  words.push('--auth=trust', '--no-instructions', ...(sync ? [] : ['--no-sync']))
  const failure = await run(runner, [path.join(runner.bin, 'initdb'), ...words])
  if (failure) {
    fs.rmSync(draft, { recursive: true, force: true })
    throw new EmbeddedUnavailable(`initdb could not make ${cluster}: ${failure}`)
  }
  fs.renameSync(draft, cluster)
}

/** An initdb whose node was killed may still be writing; its draft then goes at the next start. */
const removeDrafts = (cluster: string): void => {
  const folder = path.dirname(cluster)
  for (const name of fs.readdirSync(folder)) {
    if (!name.startsWith(`${path.basename(cluster)}.draft-`)) continue
    unless('ENOTEMPTY', () => fs.rmSync(path.join(folder, name), { recursive: true, force: true }))
  }
}

/** What the command wrote when it failed, else null. */
const run = (runner: Runner, words: string[]): Promise<string | null> =>
  new Promise((resolve) => {
    const [file, args, options] = command(runner, words)
    const child = spawn(file, args, { ...options, stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-2000)
    })
    child.once('error', (error) => resolve(error.message))
    child.once('close', (status) => resolve(status === 0 ? null : said.trim() || `exit ${status}`))
  })

const give = ({ user }: Runner, folder: string): void => {
  if (user) fs.chownSync(folder, user.uid, user.gid)
}

/** The path of a socket may have 103 bytes (macOS), so its folder lies in the temp directory. */
export const socketFolder = (runner: Runner, cluster: string): string => {
  const name = `switchboard-${createHash('sha256').update(cluster).digest('hex').slice(0, 12)}`
  const usual = path.join(os.tmpdir(), name)
  const folder = usual.length > 85 || runner.user ? path.join('/tmp', name) : usual
  unless('EEXIST', () => fs.mkdirSync(folder, { mode: 0o700 }))
  // The temp directory is shared, and the name can be guessed, so never use a folder another made.
  const found = fs.lstatSync(folder)
  const mine = [process.getuid?.(), runner.user?.uid].includes(found.uid)
  if (!found.isDirectory() || !mine) {
    throw new EmbeddedUnavailable(`${folder} should hold the database's socket, but is not ours.`)
  }
  fs.chmodSync(folder, 0o700)
  give(runner, folder)
  return folder
}

const logOf = (cluster: string): string => path.join(path.dirname(cluster), 'postgres.log')

/** The end of what the server has written into its log. */
export const lastWords = (cluster: string): string =>
  fs.readFileSync(logOf(cluster)).subarray(-2000).toString('utf8')

/** Resolves once the server takes connections. */
export const launch = async (
  runner: Runner,
  cluster: string,
  socket: string,
  settings: string[],
  deadline: number,
): Promise<ChildProcess> => {
  const log = logOf(cluster)
  for (;;) {
    const from = fs.statSync(log, { throwIfNoEntry: false })?.size ?? 0
    const began = from > LOG_BYTES ? 0 : from
    const child = spawnServer(runner, cluster, socket, settings, log, began === 0 ? 'w' : 'a')
    const ended = await readyOrEnded(child, cluster, deadline)
    if (ended === null) return child
    const said = fs.readFileSync(log).subarray(began).toString('utf8').slice(-2000)
    // The last processes of a killed server need a moment to end.
    const notYet = /lock file .* already exists|pre-existing shared memory block/.test(said)
    if (!notYet || Date.now() > deadline) {
      throw new EmbeddedUnavailable(`PostgreSQL did not start on ${cluster} (${ended}):\n${said}`)
    }
    await pause(100)
  }
}

const spawnServer = (
  runner: Runner,
  cluster: string,
  socket: string,
  settings: string[],
  log: string,
  flags: 'a' | 'w',
): ChildProcess => {
  const own = ['listen_addresses=', `unix_socket_directories=${socket}`, `port=${PORT}`]
  const [file, args, options] = command(runner, [
    // The kernel ties the server to the thread that spawned it, usually node's main thread.
    ...tiedToNode(runner),
    path.join(runner.bin, 'postgres'),
    '-D',
    cluster,
    ...[...settings, ...own].flatMap((setting) => ['-c', setting]),
  ])
  // The log is a file, since a pipe that nobody reads fills up and stalls the server.
  const out = fs.openSync(log, flags, 0o600)
  try {
    return spawn(file, args, { ...options, stdio: ['ignore', out, out] })
  } finally {
    fs.closeSync(out)
  }
}

/** Null when ready, else how it ended. The log cannot tell, as it is in the locale's language. */
const readyOrEnded = async (
  child: ChildProcess,
  cluster: string,
  deadline: number,
): Promise<string | null> => {
  let ended: string | null = null
  child.once('error', (error) => {
    ended = error.message
  })
  child.once('exit', (status, signal) => {
    ended = signal ?? `exit ${status}`
  })
  while (ended === null) {
    const found = readPostmaster(cluster)
    if (found?.pid === child.pid && found?.ready) return null
    if (Date.now() > deadline) child.kill('SIGQUIT')
    await pause(10)
  }
  return ended
}
