/**
 * The handler's silence ceiling: fires once when nothing has shown for too long that the work
 * moves. Each sign of progress pushes the moment out, so honest long work never meets it. The
 * heartbeats of the lease are no sign: they say that the process lives, not that the work moves.
 */
export interface Silence {
  /** The work moved. */
  heard(): void
  /** An answer is waited for: that silence is not the handler's. */
  pause(): void
  resume(): void
  end(): void
}

/** What never fires, where there is no ceiling. */
const NONE: Silence = { heard() {}, pause() {}, resume() {}, end() {} }

export const watchSilence = (ms: number | undefined, onSilent: () => void): Silence => {
  if (ms === undefined) return NONE
  let timer: NodeJS.Timeout | null = null
  const stop = (): void => {
    if (timer) clearTimeout(timer)
    timer = null
  }
  const begin = (): void => {
    stop()
    timer = setTimeout(() => {
      timer = null
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
