/**
 * What `postmaster.pid` says about a server that runs on a cluster, or once did. PostgreSQL judges
 * this file itself, but gives up on a zombie and on a pid that another process has by now; these
 * two cases are settled here.
 */
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { commandOf, EmbeddedUnavailable, isFree, isGone, readOrNull, unless } from './process.ts'

export interface Postmaster {
  pid: number
  port: number
  socketFolder: string
  sharedMemory: string
  ready: boolean
}

const pidFile = (cluster: string): string => path.join(cluster, 'postmaster.pid')

export const readPostmaster = (cluster: string): Postmaster | null => {
  const text = readOrNull(pidFile(cluster))
  if (text === null) return null
  const [pid, , , port, socketFolder, , sharedMemory, status] = text
    .split('\n')
    .map((line) => line.trim())
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
  const segments = readOrNull('/proc/sysvipc/shm')?.split('\n') ?? []
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
    // Where its process is really gone, PostgreSQL's own checks decide.
    if (!left || isFree(left.pid)) return
    if (!isGone(left.pid) && servesCluster(left.pid, cluster)) {
      if (interrupted !== left.pid) unless('ESRCH', () => process.kill(left.pid, 'SIGINT'))
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
