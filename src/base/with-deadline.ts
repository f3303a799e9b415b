/**
 * A wait with an end: the call's own signal or a number of milliseconds, whichever comes first.
 * Not AbortSignal.any with AbortSignal.timeout: a wait that is over must leave no timer and no
 * listener behind.
 */

/**
 * What `wait` resolves to, or null when it was ended by the time or by a stopping server. A client
 * that hung up (`signal` fired for another reason than `stopping`) makes it reject, as any error
 * of `wait` does.
 */
export const withDeadline = async <T>(
  signal: AbortSignal,
  limitMs: number,
  wait: (signal: AbortSignal) => Promise<T>,
): Promise<T | null> => {
  const controller = new AbortController()
  const pass = (): void => controller.abort(signal.reason)
  if (signal.aborted) pass()
  signal.addEventListener('abort', pass, { once: true })
  const timer = setTimeout(() => controller.abort('limit'), limitMs)
  try {
    controller.signal.throwIfAborted()
    return await wait(controller.signal)
  } catch (error) {
    const { aborted, reason } = controller.signal
    if (aborted && (reason === 'limit' || reason === 'stopping')) return null
    throw error
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', pass)
  }
}
