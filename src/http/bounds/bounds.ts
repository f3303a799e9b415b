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
  maxReads?: number
  /** What bodies in progress and answers unread may take, half of it each. */
  inFlightBytes?: number
  /** How long a reader may leave an answer unread. */
  drainMs?: number
}

const HEAP_SHARE = 0.1
const LEAST_BYTES = 32 * 1024 * 1024
/** What a read of a large task takes of the heap until it is written out. */
const READ_BYTES = 40 * 1024 * 1024

const heapBytes = getHeapStatistics().heap_size_limit
/** A body takes several times its size while it is served, so a tenth of the heap is much. */
const IN_FLIGHT_BYTES = Math.max(LEAST_BYTES, heapBytes * HEAP_SHARE)
/** No more than there are database connections. */
const MOST_READS = 16
const MAX_READS = Math.min(MOST_READS, Math.max(2, Math.floor(heapBytes / READ_BYTES)))

export const createBounds = (options: BoundsOptions = {}): HttpBounds => {
  const { inFlightBytes = IN_FLIGHT_BYTES, drainMs, ...most } = options
  const half = Math.floor(inFlightBytes / 2)
  return {
    callers: new Callers({ maxReads: MAX_READS, ...most, bodyBytes: half }),
    unread: new UnreadAnswers({ totalBytes: half, ...(drainMs !== undefined && { drainMs }) }),
  }
}
