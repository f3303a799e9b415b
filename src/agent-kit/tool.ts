/**
 * One call of a tool, under a ceiling of its own, whatever the tool does. Progress is stamped at
 * both ends, so that a handler with many tools needs no thought of silence; one long call may have
 * it stamped in between, too, and then only its ceiling tells whether it hangs.
 */
import { sleep, withTimeout } from '../base/time.ts'

export interface ToolOptions {
  /** The call rejects with TimedOut after so long. */
  timeoutMs: number
  /** Progress is stamped so often while the call runs. Default: at both ends only. */
  heartbeatMs?: number
}

export interface ToolParts {
  progress: (note: string) => Promise<void>
  signal: AbortSignal
}

export const runTool = async <Result>(
  { progress, signal }: ToolParts,
  name: string,
  { timeoutMs, heartbeatMs }: ToolOptions,
  run: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> => {
  const note = `tool: ${name}`
  await progress(note)
  const over = new AbortController()
  /** A stamp that could not be made spoils nothing: what the tool did, it did. */
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
  } finally {
    over.abort()
    await beats
    await stamp()
    // Also after a result: it is for nobody any more.
    signal.throwIfAborted()
  }
}
