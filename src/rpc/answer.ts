/** The answer to a request over either binding, for HTTP to send and metrics to count. */
import { translated } from '../base/streams.ts'
import type { StreamItem } from '../protocol/wire/method.ts'

/** One answered call. `method` is a known name or `unknown`; `code` 0 is success. */
export interface Answered {
  method: string
  code: number
  seconds: number
}

/** One event of a stream. */
export interface StreamFrame {
  id?: string
  event?: string
  data: unknown
}

/** What HTTP is to send. `retryAfterSeconds`, `allow` and `vary` go into headers. */
export type Answer =
  | {
      kind: 'json'
      status: number
      body: unknown
      mediaType?: string
      retryAfterSeconds?: number
      allow?: string
      vary?: string
    }
  | { kind: 'nothing' }
  | { kind: 'stream'; frames: AsyncIterable<StreamFrame>; onError: (error: unknown) => StreamFrame }

/** A row's items as events; the binding decides what each event says. */
export const framesOf = (
  items: AsyncIterable<StreamItem>,
  dataOf: (result: unknown) => unknown,
): AsyncIterable<StreamFrame> =>
  translated(items, ({ id, result }) => {
    const data = dataOf(result)
    return { made: [id === undefined ? { data } : { id, data }] }
  })
