/**
 * What `postmaster.pid` says about a server that runs on a cluster, or once did. PostgreSQL judges
 * this file itself, but gives up on a zombie and on a pid that another process has by now; these
 * two cases are settled here.
 */
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { commandOf, errorCode, isGone } from './process.ts'
import { EmbeddedUnavailable } from './unavailable.ts'

export interface Postmaster {
  pid: number
  port: number
  socketFolder: string
  sharedMemory: string
  ready: boolean
}

const pidFile = (cluster: string): string => path.join(cluster, 'postmaster.pid')

export const readPostmaster = (cluster: string): Postmaster | null => {
  let lines: string[]
  try {
    lines = fs.readFileSync(pidFile(cluster), 'utf8').split('\n')
  } catch {
    return null
  }
  const [pid, , , port, socketFolder, , sharedMemory, status] = lines.map((line) => line.trim())
  return {
    pid: Number(pid),
    port: Number(port),
    socketFolder: socketFolder ?? '',
    sharedMemory: sharedMemory?.split(/\s+/)[1] ?? '',
    ready: status === 'ready',
  }
}

/** Whether a server process still has the cluster's memory attached, though the postmaster died. */
const hasLivingChildren = ({ sharedMemory }: Postmaster): boolean => {
  let segments: string[]
  try {
    segments = fs.readFileSync('/proc/sysvipc/shm', 'utf8').split('\n')
  } catch {
    return false
  }
  return segments.some((line) => {
    const [, id, , , , , attached] = line.trim().split(/\s+/)
    return id === sharedMemory && Number(attached) > 0
  })
}

/** Unknown counts as yes, since the file may be removed only when certainly nobody needs it. */
const servesCluster = (pid: number, cluster: string): boolean =>
  commandOf(pid)?.includes(cluster) ?? true

/**
 * Ends the server of an owner that died without stopping it, and waits until the last of its
 * processes is gone, because two servers on one cluster would destroy it.
 */
export const clearCluster = async (cluster: string, deadline: number): Promise<void> => {
  let interrupted = 0
  for (;;) {
    const left = readPostmaster(cluster)
    if (!left || hasNoProcess(left.pid)) return
    if (!isGone(left.pid) && servesCluster(left.pid, cluster)) {
      if (interrupted !== left.pid) interrupt(left.pid)
      interrupted = left.pid
    } else if (!hasLivingChildren(left)) {
      fs.rmSync(path.join(left.socketFolder, `.s.PGSQL.${left.port}.lock`), { force: true })
      fs.rmSync(pidFile(cluster), { force: true })
      return
    }
    if (Date.now() > deadline) {
      throw new EmbeddedUnavailable(
        `A PostgreSQL that nobody owns any more (pid ${left.pid}) does not leave ${cluster}.`,
      )
    }
    await pause(20)
  }
}

const interrupt = (pid: number): void => {
  try {
    process.kill(pid, 'SIGINT')
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error
  }
}

/** Whether the process is really gone, not a zombie. PostgreSQL's own checks decide then. */
const hasNoProcess = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return errorCode(error) === 'ESRCH'
  }
}
