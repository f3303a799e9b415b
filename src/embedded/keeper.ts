/**
 * Keeps an owned server going while its disk is full. PostgreSQL ends where it cannot write its log of
 * changes, and cannot start again before there is room: then it is started here, and nothing that was
 * committed is lost. Any other end is somebody's doing, and is left as it is.
 */
import type { ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

/** Two segments of the log of changes: to recover it needs one, and with no more it ends soon. */
const ROOM_BYTES = 32 * 1024 * 1024
const LOOK_MS = 500

const NO_ROOM = /No space left on device|Disk quota exceeded/

const isFull = (dir: string): boolean => {
  const { bavail, bsize } = fs.statfsSync(dir)
  return bavail * bsize < ROOM_BYTES
}

export interface KeeperParts {
  dir: string
  /** Starts it again; rejects with what it said where it ended at once. */
  launch: () => Promise<ChildProcess>
  /** What the server has said last, in its own log. */
  lastWords: () => string
  /** Told that it has ended because its disk is full, and that it runs again. */
  onFull: (full: boolean) => void
}

export interface Keeper {
  child(): ChildProcess
  isFull(): boolean
  /** Resolves if it ends for another reason without being stopped. */
  lost: Promise<void>
  /** It is started no more; resolves once nothing is being started. */
  stop(): Promise<void>
}

export const keepRunning = (first: ChildProcess, parts: KeeperParts): Keeper => {
  let child = first
  const stopping = new AbortController()
  const { signal } = stopping
  let full = false
  let reviving: Promise<void> = Promise.resolve()
  let lose = (): void => {}
  const lost = new Promise<void>((resolve) => {
    lose = resolve
  })

  const launched = async (): Promise<ChildProcess | null> => {
    try {
      return await parts.launch()
    } catch (error) {
      if (isFull(parts.dir) || NO_ROOM.test(String(error))) return null
      throw error
    }
  }

  const revive = async (): Promise<void> => {
    if (!isFull(parts.dir) && !NO_ROOM.test(parts.lastWords())) return lose()
    full = true
    parts.onFull(true)
    while (!signal.aborted) {
      await pause(LOOK_MS, undefined, { ref: false, signal }).catch(() => {})
      if (signal.aborted || isFull(parts.dir)) continue
      const again = await launched()
      if (again === null) continue
      child = again
      full = false
      parts.onFull(false)
      return watch()
    }
  }

  const watch = (): void => {
    child.unref()
    const ended = (): void => {
      if (!signal.aborted) reviving = revive().catch(lose)
    }
    if (child.exitCode !== null || child.signalCode !== null) ended()
    else child.once('exit', ended)
  }
  watch()

  return {
    child: () => child,
    isFull: () => full,
    lost,
    stop: () => {
      stopping.abort()
      return reviving
    },
  }
}
