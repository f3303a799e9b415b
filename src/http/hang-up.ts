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

export interface Attention {
  /**
   * Fires with reason `hung_up` when the response closes unfinished, with `stopping` when
   * `stopping` fires, with `withdrawn` when told to.
   */
  signal: AbortSignal
  withdraw(): void
}

export const attentionOf = (res: ServerResponse, stopping?: AbortSignal): Attention => {
  const controller = new AbortController()
  const stop = (): void => controller.abort('stopping' satisfies Gone)
  if (stopping?.aborted) stop()
  stopping?.addEventListener('abort', stop, { once: true })
  const close = (): void => {
    stopping?.removeEventListener('abort', stop)
    if (!res.writableFinished) controller.abort('hung_up' satisfies Gone)
  }
  if (res.closed) close()
  // It comes once; `once` would cost three objects more on each of thousands of streams.
  else res.on('close', close)
  return {
    signal: controller.signal,
    withdraw: () => controller.abort('withdrawn' satisfies Gone),
  }
}
