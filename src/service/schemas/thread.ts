/**
 * The one thread that compiles and checks, made when there is work and ended when there has been none
 * for a while. Work that takes longer or needs more memory than it may is ended with its thread.
 */
import type { Worker } from 'node:worker_threads'
import { startThread } from '../../base/threads.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Report, Work } from './worker.ts'

export interface ThreadLimits {
  compileMs: number
  checkMs: number
  /** Of its heap. Where Node was started with --max-old-space-size, Node takes that instead. */
  memoryMb: number
  /** It ends when it had nothing to do for so long. */
  idleMs: number
}

export type Result =
  | Exclude<Report, { kind: 'ready' | 'checking' }>
  | { kind: 'out of time'; limitMs: number; doing: 'compile' | 'check' }
  | { kind: 'out of memory' }

interface Done {
  result: Result
  /** How long the thread worked on it. */
  ms: number
}

export interface Thread {
  /** One after the other; the caller waits for each. Rejects where the thread cannot be had. */
  run(work: Work): Promise<Done>
  stop(): Promise<void>
}

/**
 * A machine that is starved gets so many times the limit to do what the limit allows: more, and what is
 * costly would hold up the checks of others for longer than these wait.
 */
const STARVED_FACTOR = 2

/** Starting takes a fraction of a second; this is for a machine that is starved. */
const START_MS = 30_000

interface Life {
  worker: Worker
  ready: Promise<void>
}

const start = (memoryMb: number): Life => {
  const worker = startThread('./worker', import.meta.url, {
    resourceLimits: { maxOldGenerationSizeMb: memoryMb, maxYoungGenerationSizeMb: 16 },
  })
  const ready = new Promise<void>((done, failed) => {
    const late = setTimeout(() => failed(new Error('a thread did not start in time')), START_MS)
    late.unref()
    worker.once('message', () => done())
    worker.once('error', failed)
    worker.once('exit', () => failed(new Refusal('unavailable', { retryAfterSeconds: 1 })))
  })
  return { worker, ready }
}

const isOutOfMemory = (error: unknown): boolean =>
  (error as { code?: unknown }).code === 'ERR_WORKER_OUT_OF_MEMORY'

/** What becomes of one piece of work. The thread is over where `ends` is called. */
const working = (worker: Worker, work: Work, limits: ThreadLimits, ends: () => void) =>
  new Promise<Result>((done, failed) => {
    let doing: 'compile' | 'check' = 'compile'
    let timer: NodeJS.Timeout
    let began = { at: performance.now(), cpu: process.cpuUsage() }
    const settle = (finish: () => void): void => {
      clearTimeout(timer)
      worker.off('message', onReport).off('error', onError).off('exit', onExit)
      finish()
    }
    const limitMs = (): number => (doing === 'check' ? limits.checkMs : limits.compileMs)
    const overTime = (): void => {
      // A timer may fire late, with the answer already there: it is looked at first.
      setImmediate(() => {
        if (settled()) return
        const leftMs = starvedMs()
        if (leftMs > 0) {
          timer = setTimeout(overTime, leftMs)
          return
        }
        const over: Result = { kind: 'out of time', limitMs: limitMs(), doing }
        settle(() => done(over))
        ends()
      })
    }
    // Where other processes take the processors, the work has had less of them than time went by.
    const starvedMs = (): number => {
      if (performance.now() - began.at >= limitMs() * STARVED_FACTOR) return 0
      const { user, system } = process.cpuUsage(began.cpu)
      return Math.ceil(limitMs() - (user + system) / 1000)
    }
    const settled = (): boolean => !worker.listeners('message').includes(onReport)
    const arm = (): void => {
      clearTimeout(timer)
      began = { at: performance.now(), cpu: process.cpuUsage() }
      timer = setTimeout(overTime, limitMs())
    }
    function onReport(report: Report): void {
      if (report.kind === 'ready') return
      if (report.kind === 'checking') {
        doing = 'check'
        arm()
      } else settle(() => done(report))
    }
    function onError(error: unknown): void {
      settle(() => (isOutOfMemory(error) ? done({ kind: 'out of memory' }) : failed(error)))
      ends()
    }
    function onExit(): void {
      settle(() => failed(new Refusal('unavailable', { retryAfterSeconds: 1 })))
      ends()
    }
    worker.on('message', onReport).on('error', onError).on('exit', onExit)
    arm()
    worker.postMessage(work)
  })

export const createThread = (limits: ThreadLimits): Thread => {
  let life: Life | null = null
  let idle: NodeJS.Timeout | undefined

  const end = async (): Promise<void> => {
    const ended = life
    life = null
    clearTimeout(idle)
    // An error of its last moments has nobody left to hear it, and must not end the process.
    ended?.worker.on('error', () => {})
    await ended?.worker.terminate()
  }

  const begin = (): Life => {
    const begun = start(limits.memoryMb)
    begun.worker.once('exit', () => {
      if (life === begun) life = null
    })
    return begun
  }

  return {
    run: async (work) => {
      clearTimeout(idle)
      life ??= begin()
      const { worker, ready } = life
      // What waits for an answer keeps the process alive; an idle thread does not.
      worker.ref()
      try {
        await ready
        const startedAt = performance.now()
        const result = await working(worker, work, limits, () => void end())
        return { result, ms: performance.now() - startedAt }
      } catch (error) {
        await end()
        throw error
      } finally {
        worker.unref()
        if (life) idle = setTimeout(() => void end(), limits.idleMs).unref()
      }
    },
    stop: end,
  }
}
