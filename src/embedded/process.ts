/**
 * What can be known of another process by its pid. A pid alone says little: it is given out again
 * after its process died, and a zombie that nobody has reaped keeps it. So a process is identified
 * by its pid and the moment it was born.
 */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'

/** No PostgreSQL of our own can be had here. The message tells a person why, and the way out. */
export class EmbeddedUnavailable extends Error {
  override name = 'EmbeddedUnavailable'
}

export const errorCode = (error: unknown): string | undefined =>
  (error as NodeJS.ErrnoException).code

/** Whether `act` succeeded; false where it failed with this error code. Other errors are thrown. */
export const unless = (code: string, act: () => unknown): boolean => {
  try {
    act()
    return true
  } catch (error) {
    if (errorCode(error) === code) return false
    throw error
  }
}

export const readOrNull = (file: string): string | null => {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

/** The fields of /proc/<pid>/stat from the third on; the second may itself hold spaces and ')'. */
const statFields = (pid: number): string[] | null => {
  const stat = readOrNull(`/proc/${pid}/stat`)
  return stat === null ? null : stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

const ps = (pid: number, column: string): string | null => {
  const { status, stdout } = spawnSync('ps', ['-o', `${column}=`, '-p', String(pid)], {
    encoding: 'utf8',
  })
  return status === 0 ? stdout.trim() : null
}

/** Whether nothing has that pid, not even a zombie. */
export const isFree = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return errorCode(error) === 'ESRCH'
  }
}

/** Whether nothing runs under that pid any more. */
export const isGone = (pid: number): boolean => isFree(pid) || statFields(pid)?.[0] === 'Z'

/** When the process was born, as a text that no other process has; null where we may not see it. */
export const bornAt = (pid: number): string | null => {
  if (process.platform !== 'linux') return ps(pid, 'lstart')
  // The ticks count from the boot, so the boot's id is part of the text.
  const ticks = statFields(pid)?.[19]
  const boot = readOrNull('/proc/sys/kernel/random/boot_id')?.trim() ?? ''
  return ticks === undefined ? null : `${ticks}@${boot}`
}

export const commandOf = (pid: number): string | null =>
  process.platform === 'linux'
    ? (readOrNull(`/proc/${pid}/cmdline`)?.replaceAll('\0', ' ') ?? null)
    : ps(pid, 'command')
