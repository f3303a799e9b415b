/**
 * When nobody waits for an answer any more: the client closed the connection, the server is
 * stopping, or the right to it was withdrawn. Listeners are taken off again with the response, so
 * that a long life with many streams leaves nothing on the server's own signal.
 */
import type { ServerResponse } from 'node:http'

/** Why the signal of a call fired. */
type Gone = 'hung_up' | 'stopping' | 'withdrawn'

/** True once the server stops: the client is still there, and may be told to come again. */
export const isStopping = (signal: AbortSignal): boolean =>
  signal.aborted && signal.reason === ('stopping' satisfies Gone)

export interface CallSignal {
  /**
   * Fires with reason `hung_up` when the response closes unfinished, with `stopping` when
   * `stopping` fires, with `withdrawn` when told to.
   */
  signal: AbortSignal
  revoke(): void
}

/** Who listens to a signal: its own list is searched at every new one. */
const heard = new WeakMap<AbortSignal, { all: Set<() => void>; end(): void }>()

const listenTo = (signal: AbortSignal) => {
  const all = new Set<() => void>()
  const callAll = (): void => {
    for (const listener of all) listener()
  }
  const end = (): void => {
    signal.removeEventListener('abort', callAll)
    heard.delete(signal)
  }
  const listeners = { all, end }
  heard.set(signal, listeners)
  signal.addEventListener('abort', callAll)
  return listeners
}

const listen = (signal: AbortSignal, listener: () => void): void => {
  const { all } = heard.get(signal) ?? listenTo(signal)
  all.add(listener)
}

const leave = (signal: AbortSignal, listener: () => void): void => {
  const listeners = heard.get(signal)
  listeners?.all.delete(listener)
  if (listeners?.all.size === 0) listeners.end()
}

export const callSignalOf = (res: ServerResponse, stopping?: AbortSignal): CallSignal => {
  const controller = new AbortController()
  const stop = (): void => controller.abort('stopping' satisfies Gone)
  if (stopping?.aborted) stop()
  if (stopping) listen(stopping, stop)
  const close = (): void => {
    if (stopping) leave(stopping, stop)
    if (!res.writableFinished) controller.abort('hung_up' satisfies Gone)
  }
  if (res.closed) close()
  // It comes once; `once` would cost three objects more on each of thousands of streams.
  else res.on('close', close)
  return {
    signal: controller.signal,
    revoke: () => controller.abort('withdrawn' satisfies Gone),
  }
}
