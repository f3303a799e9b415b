/**
 * One call of a client over a network that loses things: an answer, or nothing. What no server may
 * answer, whatever was killed, is written down as a violation.
 */
import {
  type Answer,
  openStream,
  post,
  resumeAfter,
  type Stream,
} from '../support/clients/actors.ts'
import type { Violations } from './violations.ts'

export interface ReachOptions {
  /** Of the queue. */
  endpoint: string
  version: string
  token: string
  violations: Violations
  /** Fires when the run gives up waiting. */
  over: AbortSignal
}

interface Wish {
  key?: string | undefined
  lastEventId?: string | undefined
  timeoutMs?: number
}

/** `lost`: nobody knows what became of it. `away`: the server said it cannot be served now. */
export type Lost = 'lost' | 'away'

export interface Reach {
  /** Result or error of the answer; a word where there is none. */
  call(method: string, params: object, wish?: Wish): Promise<Answer | Lost>
  /** The same, until there is an answer. Rejects when the run is over. */
  persistently(method: string, params: object, wish?: Wish): Promise<Answer>
  /** A stream, or an answer that is none. */
  stream(method: string, params: object, wish?: Wish): Promise<Stream | Answer | Lost>
  pause(ms?: number): Promise<void>
}

const CALL_MS = 8000

export const isLost = (answer: unknown): answer is Lost => typeof answer === 'string'
export const isStream = (answer: Stream | Answer): answer is Stream => 'next' in answer

/** Codes of a refusal; a fault of the server is none. */
const FAULT = -32603

export const openReach = ({ endpoint, version, token, violations, over }: ReachOptions): Reach => {
  const headersOf = ({ key, lastEventId }: Wish): Record<string, string> => ({
    'A2A-Version': version,
    ...(key !== undefined && { 'Idempotency-Key': key }),
    ...(lastEventId !== undefined && resumeAfter(lastEventId)),
  })
  const bodyOf = (method: string, params: object): string =>
    JSON.stringify({ jsonrpc: '2.0', id: 'q', method, params })

  const judged = (method: string, status: number, body: Answer): Answer | Lost => {
    if (status === 503) return 'away'
    if (status === 200 && body !== null && body.error?.code !== FAULT) return body
    violations.add('unexpected answer', `${method}: ${status} ${JSON.stringify(body)}`)
    return 'away'
  }

  const pause = (ms = 100): Promise<void> =>
    new Promise((resolve, reject) => {
      if (over.aborted) return reject(over.reason)
      setTimeout(resolve, ms)
    })

  const call: Reach['call'] = async (method, params, wish = {}) => {
    over.throwIfAborted()
    const signal = AbortSignal.timeout(wish.timeoutMs ?? CALL_MS)
    const headers = headersOf(wish)
    const answered = await post(endpoint, bodyOf(method, params), { token, headers, signal }).catch(
      () => null,
    )
    if (answered === null) return 'lost'
    return judged(method, answered.status, answered.body)
  }

  return {
    call,
    pause,
    persistently: async (method, params, wish) => {
      for (;;) {
        const answer = await call(method, params, wish)
        if (!isLost(answer)) return answer
        await pause()
      }
    },
    stream: async (method, params, wish = {}) => {
      over.throwIfAborted()
      const headers = headersOf(wish)
      const options = { method: 'POST', body: bodyOf(method, params), token, headers }
      const stream = await openStream(endpoint, options).catch(() => null)
      if (stream === null) return 'lost'
      if (stream.body === null && stream.status === 200) return stream
      return judged(method, stream.status, stream.body)
    },
  }
}
