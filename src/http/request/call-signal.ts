/**
 * A signal for the moment when nobody waits for an answer any more: the client closed the
 * connection, the server is stopping, or the right to the answer was withdrawn. Listeners go with
 * their response, so that many streams over a long life leave nothing on the server's own signal.
 */
import type { ServerResponse } from 'node:http'
import type { Withdrawn } from '../../domain/endpoint.ts'

/** Why the signal of a call fired, unless its right was withdrawn. */
type Gone = 'hung_up' | 'stopping'

/** Whether the server is stopping, so that the client is still there and can be told to return. */
export const isStopping = (signal: AbortSignal): boolean =>
  signal.aborted && signal.reason === ('stopping' satisfies Gone)

export interface CallSignal {
  /**
   * Fires with reason `hung_up` when the response closes unfinished, with `stopping` when the
   * server's own signal fires, and with the reason given at `revoke`.
   */
  signal: AbortSignal
  revoke(reason: Withdrawn): void
}

/** The listeners of a signal, in sets of our own: a signal searches its list for each new one. */
const listeners = new WeakMap<AbortSignal, { all: Set<() => void>; end(): void }>()

const listenTo = (signal: AbortSignal) => {
  const all = new Set<() => void>()
  const callAll = (): void => {
    for (const listener of all) listener()
  }
  const end = (): void => {
    signal.removeEventListener('abort', callAll)
    listeners.delete(signal)
  }
  const entry = { all, end }
  listeners.set(signal, entry)
  signal.addEventListener('abort', callAll)
  return entry
}

const listen = (signal: AbortSignal, listener: () => void): void => {
  const { all } = listeners.get(signal) ?? listenTo(signal)
  all.add(listener)
}

const leave = (signal: AbortSignal, listener: () => void): void => {
  const entry = listeners.get(signal)
  entry?.all.delete(listener)
  if (entry?.all.size === 0) entry.end()
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
  // The event comes only once, and `once` would cost three more objects for each of thousands of
  // streams.
  else res.on('close', close)
  return {
    signal: controller.signal,
    revoke: (reason) => controller.abort(reason),
  }
}
