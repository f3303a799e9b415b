/**
 * Runs a command that serves: what it has started, step by step, is stopped in reverse once a step
 * fails or a signal comes, also in the middle of starting. A second signal ends it at once.
 */
import { note } from './output.ts'

/** Thrown by `step` once a signal has come. */
class Interrupted extends Error {}

export interface Life {
  /** Runs the next step of the start; `stop` undoes it at the end. */
  step<Part>(start: () => Promise<Part> | Part, stop: (part: Part) => unknown): Promise<Part>
  /** Something that was started has ended by itself, so everything else is stopped, too. */
  fail(error: Error): void
}

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const
/** How long a part that does not end by itself gets after everything was stopped. */
export const LAST_MS = 2000

/** Resolves after a signal, with everything stopped. Rejects with a step's error or a failure. */
export const runUntilSignal = async (start: (life: Life) => Promise<void>): Promise<void> => {
  const stops: (() => unknown)[] = []
  let interrupted = false
  let interrupt = () => {}
  let fail = (_error: Error) => {}
  const ended = new Promise<void>((resolve, reject) => {
    interrupt = resolve
    fail = reject
  })
  // If a step throws first, nobody waits for it any more.
  ended.catch(() => {})
  for (const [signal, code] of Object.entries(SIGNALS)) {
    process.on(signal, () => {
      if (interrupted) process.exit(code)
      interrupted = true
      interrupt()
    })
  }
  // A promise alone keeps no process alive while everything that was started is idle.
  const alive = setInterval(() => {}, 60_000)
  try {
    await start({
      async step(begin, stop) {
        if (interrupted) throw new Interrupted()
        const part = await begin()
        stops.push(() => stop(part))
        return part
      },
      fail,
    })
    await ended
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error
  } finally {
    clearInterval(alive)
    for (const stop of stops.reverse()) {
      try {
        await stop()
      } catch (error) {
        note(`switchboard: while stopping: ${error instanceof Error ? error.message : error}`)
      }
    }
    setTimeout(() => process.exit(), LAST_MS).unref()
  }
}
