/**
 * JSON-RPC over fetch: one call, its errors, and when to try it again. A call that was certainly
 * not carried out (connection refused, 503, 429) is always tried again; one whose answer was lost,
 * here, at a balancer (502, 504) or between the server and its database, only if it is `repeatable`,
 * that is, harmless when made twice. Retries end after `retryForMs`; a long outage is for the caller to sit out.
 */
import { backoffMs, sleep } from '../../base/time.ts'
import { AgentApiError, ConnectionError } from '../errors.ts'
import { createSend } from './batched-calls.ts'

export interface CallOptions {
  /** Ends the call; it then rejects with the signal's reason. */
  signal?: AbortSignal
  /** Doing it twice does no harm, so a lost answer may be asked for again. Default: false. */
  repeatable?: boolean
  /** How long to go on trying, in milliseconds. Default: 30 000. */
  retryForMs?: number
  /** How long one try may take, in milliseconds. Default: 30 000. */
  timeoutMs?: number
}

export interface Connection {
  /**
   * The method's result. Rejects with AgentApiError (the server refused), ConnectionError (no
   * answer) or the reason of `signal`.
   */
  call<Result>(method: string, params: object, options?: CallOptions): Promise<Result>
}

/** `url` is that of the JSON-RPC endpoint itself, such as `http://127.0.0.1:4100/agent`. */
export const connect = (address: { url: string; token: string }): Connection => {
  const send = createSend(address)
  return {
    async call<Result>(method: string, params: object, options: CallOptions = {}) {
      const { signal, repeatable = false, retryForMs = 30_000, timeoutMs = 30_000 } = options
      const started = performance.now()
      for (let failures = 1; ; failures++) {
        try {
          signal?.throwIfAborted()
          return (await send({ method, params, timeoutMs }, signal)) as Result
        } catch (error) {
          const waitMs = retryDelayMs(error, failures, repeatable)
          if (waitMs === null || performance.now() - started + waitMs > retryForMs) throw error
          await sleep(waitMs, signal)
        }
      }
    },
  }
}

/** True where nobody knows whether the call was carried out: its answer was lost. */
export const mayBeDone = (error: unknown): boolean => {
  if (error instanceof ConnectionError) return error.sent
  if (!(error instanceof AgentApiError)) return false
  return error.data.outcome === 'unknown' || BROKEN_OFF.includes(error.status)
}

/** What a balancer answers whose connection to the server broke, or stayed silent. */
const BROKEN_OFF: readonly number[] = [502, 504]

/** Milliseconds until the next try, or null where there must be none. `failures` is 1-based. */
export const retryDelayMs = (
  error: unknown,
  failures: number,
  repeatable: boolean,
): number | null => {
  const own = backoffMs(failures)
  if (mayBeDone(error) && !repeatable) return null
  if (error instanceof ConnectionError) return own
  if (error instanceof AgentApiError && [429, 503, ...BROKEN_OFF].includes(error.status)) {
    return Math.max((error.retryAfterSeconds ?? 0) * 1000, own)
  }
  return null
}
