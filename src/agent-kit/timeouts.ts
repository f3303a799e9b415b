/**
 * The limits on a handler's time: how long it may show no progress (`silenceMs`), and how long one
 * call of a tool may take.
 */
import { sleep, TimedOut, withTimeout } from '../base/time.ts'
import { EffectDenied } from './errors.ts'
import { BLOCKED_MS } from './lease/blocked.ts'

export interface Silence {
  /** The work moved. */
  heard(): void
  /** An answer is waited for: that silence is not the handler's. */
  pause(): void
  resume(): void
  end(): void
}

/** What never fires, for a handler without a limit. */
const NONE: Silence = { heard() {}, pause() {}, resume() {}, end() {} }

/**
 * Fires once when nothing has shown for `ms` that the work moves. Each sign of progress starts the
 * time again, so honest long work never meets the limit. The heartbeats of the lease are no sign:
 * they say that the process lives, not that the work moves.
 */
export const watchSilence = (ms: number | undefined, onSilent: () => void): Silence => {
  if (ms === undefined) return NONE
  let timer: NodeJS.Timeout | null = null
  const stop = (): void => {
    if (timer) clearTimeout(timer)
    timer = null
  }
  const begin = (): void => {
    stop()
    const dueAt = performance.now() + ms
    timer = setTimeout(() => {
      timer = null
      // Late, the event loop was blocked: perhaps by another handler, so this one gets the time anew.
      if (performance.now() - dueAt > BLOCKED_MS) return begin()
      onSilent()
    }, ms)
  }
  begin()
  return {
    // Not while it is paused, and not once it has fired or ended.
    heard: () => void (timer && begin()),
    pause: stop,
    resume: begin,
    end: stop,
  }
}

export interface ToolOptions {
  /** The call rejects with TimedOut after this long. */
  timeoutMs: number
  /** How often progress is stamped while the call runs. Default: at both ends only. */
  heartbeatMs?: number
  /** The effect that the call needs among those of the todo. Default: the tool's name. */
  effect?: string
}

interface ToolParts {
  progress: (note: string) => Promise<void>
  signal: AbortSignal
  /** What the todo may do; null is everything. */
  effects: readonly string[] | null
}

/** The code of the error with which a call of a tool ends that took too long. */
const TOOL_TIMEOUT = 'tool_timeout'

/**
 * Runs a tool under a limit of its own, whatever the tool does. Progress is stamped at both ends,
 * so a handler that calls many tools need not think of silence. With `heartbeatMs` it is stamped in
 * between, too, and then only the tool's own limit tells whether it hangs.
 */
export const runTool = async <Result>(
  { progress, signal, effects }: ToolParts,
  name: string,
  { timeoutMs, heartbeatMs, effect = name }: ToolOptions,
  run: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> => {
  // Before anything is told of it: a call that is refused has not begun.
  if (effects && !effects.includes(effect)) throw new EffectDenied(effect, effects)
  const note = `tool: ${name}`
  await progress(note)
  const over = new AbortController()
  /** A stamp that fails spoils nothing: what the tool has done is done. */
  const stamp = (): Promise<void> => progress(note).catch(() => {})
  const beat = async (everyMs: number): Promise<void> => {
    for (;;) {
      await sleep(everyMs, over.signal).catch(() => {})
      if (over.signal.aborted) return
      await stamp()
    }
  }
  const beats = heartbeatMs === undefined ? undefined : beat(heartbeatMs)
  try {
    return await withTimeout(timeoutMs, name, run, signal)
  } catch (error) {
    // A todo that fails with it then says so, and the server counts it.
    throw error instanceof TimedOut ? Object.assign(error, { code: TOOL_TIMEOUT }) : error
  } finally {
    over.abort()
    await beats
    await stamp()
    // Also after a result: nobody can use it any more.
    signal.throwIfAborted()
  }
}
