/** What this machine lets a test do. */
import { spawnSync } from 'node:child_process'

export const NOBODY = 65_534

const succeeds = (file: string, args: string[], as: { uid?: number } = {}): boolean =>
  spawnSync(file, args, { cwd: '/', ...as }).status === 0

export const isRoot = process.getuid?.() === 0

/** Node itself may lie where no other user gets. */
export const canBecomeOrdinary =
  isRoot && succeeds(process.execPath, ['--version'], { uid: NOBODY })

/** User namespaces; many containers forbid them. */
export const canHideRoot =
  isRoot && succeeds('unshare', ['--user', '--map-user=65534', '--map-group=65534', 'true'])

/** Networks of their own for processes, which can be cut. */
export const canCutNetwork =
  isRoot && succeeds('unshare', ['--net', 'ip', 'link', 'set', 'lo', 'up'])

/** A process can be made to end with its parent. */
export const canTie = succeeds('setpriv', ['--pdeathsig', 'INT', 'true'])
