/** The bounds that all of a process share, whichever path a request comes by. */
import { getHeapStatistics } from 'node:v8'
import { Callers } from './callers.ts'
import { UnreadAnswers } from './unread.ts'

export interface HttpBounds {
  callers: Callers
  unread: UnreadAnswers
}

export interface BoundsOptions {
  maxCalls?: number
  maxStreams?: number
  /** What bodies in progress and answers unread may take, half of it each. */
  inFlightBytes?: number
  /** How long a reader may leave an answer unread. */
  drainMs?: number
}

const HEAP_SHARE = 0.1
const LEAST_BYTES = 32 * 1024 * 1024

/** A body takes several times its size while it is served, so a tenth of the heap is much. */
const ofHeap = (): number => Math.max(LEAST_BYTES, getHeapStatistics().heap_size_limit * HEAP_SHARE)

export const createBounds = (options: BoundsOptions = {}): HttpBounds => {
  const { inFlightBytes = ofHeap(), drainMs, ...most } = options
  const half = Math.floor(inFlightBytes / 2)
  return {
    callers: new Callers({ ...most, bodyBytes: half }),
    unread: new UnreadAnswers({ totalBytes: half, ...(drainMs !== undefined && { drainMs }) }),
  }
}
