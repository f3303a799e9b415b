/**
 * Whether the event loop comes round. A handler that computes without a pause keeps every other of the
 * process from running; it is told how long, and which todo was at it as far as that can be known.
 */

/** How often it is looked. */
const TURN_MS = 250
/** A turn that comes later than this by so much was blocked. */
export const BLOCKED_MS = 1000

export interface LoopWatcher {
  onTurn?: () => void
  /** Called after a block of so many milliseconds, with what had last been given the word before it. */
  onBlocked?: (ms: number, suspect: string | null) => void
}

const watchers = new Set<LoopWatcher>()
let timer: NodeJS.Timeout | null = null
let turnAt = 0
/** Who was last given the word by the kit, since the last turn. */
let entered: { name: string; at: number } | null = null
let suspect: string | null = null

const turn = (): void => {
  const now = performance.now()
  const ms = now - turnAt - TURN_MS
  const before = entered
  const named = suspect ?? before?.name ?? null
  turnAt = now
  entered = null
  suspect = null
  for (const watcher of [...watchers]) {
    watcher.onTurn?.()
    if (ms > BLOCKED_MS) watcher.onBlocked?.(Math.round(ms), named)
  }
}

/** A handler has been given the word. */
export const enter = (name: string): void => {
  const at = performance.now()
  // No turn came in between: whoever had the word until now has kept it for so long.
  if (entered && at - entered.at > BLOCKED_MS + TURN_MS) suspect ??= entered.name
  entered = { name, at }
}

/** Begins to watch; the function that it returns ends it. */
export const watchLoop = (watcher: LoopWatcher): (() => void) => {
  watchers.add(watcher)
  if (timer === null) {
    turnAt = performance.now()
    timer = setInterval(turn, TURN_MS)
    timer.unref()
  }
  return () => {
    watchers.delete(watcher)
    if (watchers.size > 0 || timer === null) return
    clearInterval(timer)
    timer = null
  }
}
