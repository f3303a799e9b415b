/**
 * The only writer of event streams (text/event-stream). It pulls: the next frame is asked for only
 * after the last one has drained, so a slow reader costs one frame of memory. Where a source has
 * many readers, those that keep up are pushed to instead, and pull when they fall behind. A reader
 * that does not drain in time is cut off, and comment lines keep a silent connection alive or find
 * it dead. A server that stops gives every reader its own delay before it reconnects and resumes
 * after its last frame. What the frames say is the caller's business.
 */

import type { ServerResponse } from 'node:http'
import { exactText } from '../../base/exact-json.ts'
import { TooSlow } from '../../domain/errors.ts'
import { contentOf, type Unread, type UnreadAnswers } from '../bounds/unread.ts'
import { isStopping } from '../request/call-signal.ts'

/** One event. `data` is written as JSON on one line; a frame without it carries only its id. */
export interface Frame {
  id?: string
  event?: string
  retry?: number
  data?: unknown
}

/** Frames that belong together come as a list and leave in one write. */
export interface Source extends AsyncIterable<Frame | readonly Frame[]> {
  /**
   * Calls `push` with what comes from now on, for a reader that has taken everything so far. Null
   * where there is something to be pulled first. The function it returns ends this. So does a push
   * that is not taken, which leaves those frames to be pulled; `end` is called then.
   */
  live?(push: (frames: readonly Frame[]) => boolean, end: () => void): (() => void) | null
}

/**
 * How a stream ended. `ended`: the frames ended, or the server stops. `hung_up`: the client went
 * away. `stalled`: it did not drain in time. `too_slow`: the source would no longer buffer for it.
 * `failed`: the source threw.
 */
export type StreamOutcome = 'ended' | 'hung_up' | 'stalled' | 'too_slow' | 'failed'

/** Counts streams: `opened` once, then `closed` once with how it ended. */
export interface StreamObserver {
  opened(): void
  closed(outcome: StreamOutcome): void
}

export interface StreamOptions {
  /** The call's signal. What the frames throw after it has fired is the end, not a failure. */
  signal: AbortSignal
  /** Milliseconds between comment lines. */
  pingMs?: number
  /** Milliseconds a write may stay undrained before the connection is destroyed. */
  drainMs?: number
  /** Where what the reader has not taken is counted, and whose it is. */
  unread?: UnreadAnswers
  owner?: string
  /** Sent first, as the client's reconnection delay in milliseconds. */
  retryMs?: number
  /** Logs what the source threw, and makes the last frame; null for none. */
  onError?: (error: unknown) => Frame | null
}

export const PING_MS = 15_000
export const DRAIN_MS = 30_000
/**
 * One line without a blank one behind it. Readers that ship with A2A clients (Python's httpx-sse)
 * make an event of every blank line once they have seen an id, and then fail to parse its empty data.
 */
const PING = ': ping\n'
/** About how long a reader waits after a server stopped, where its stream names no delay. */
const PARTING_RETRY_MS = 1000

const HEADERS = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
}

const oneLine = (field: string, value: string): string => {
  if (/[\r\n\0]/.test(value)) throw new TypeError(`${field} of a frame must be one line`)
  return `${field}: ${value}\n`
}

/**
 * What some readers take for the end of a line besides those of the standard: httpx, for one, splits
 * where Python's `splitlines` does. JSON escapes the others by itself.
 */
const LINE_ENDS = /[\u0085\u2028\u2029]/g

const escaped = (end: string): string => `\\u${end.charCodeAt(0).toString(16).padStart(4, '0')}`

/** JSON as one line, whoever reads it. */
const jsonLine = (data: unknown): string => {
  const json = exactText(data)
  return json.search(LINE_ENDS) < 0 ? json : json.replace(LINE_ENDS, escaped)
}

/**
 * A frame as it goes over the wire, its blank line included. A delay alone is no event and has none:
 * it counts as soon as its line is read, and for a blank line see {@link PING}.
 */
export const encodeFrame = (frame: Frame): string => {
  let text = ''
  if (frame.retry !== undefined) text += oneLine('retry', String(frame.retry))
  if (frame.event !== undefined) text += oneLine('event', frame.event)
  if (frame.id !== undefined) text += oneLine('id', frame.id)
  if (frame.data !== undefined) text += `data: ${jsonLine(frame.data)}\n`
  const isDelay = frame.id === undefined && frame.event === undefined && frame.data === undefined
  return isDelay ? text : `${text}\n`
}

/** Frames that many streams share are encoded to bytes once. */
const encoded = new WeakMap<readonly Frame[], Buffer>()

const bytesOf = (frames: Frame | readonly Frame[]): Buffer | string => {
  if (!isList(frames)) return contentOf(encodeFrame(frames))
  const bytes = encoded.get(frames) ?? Buffer.from(frames.map(encodeFrame).join(''))
  encoded.set(frames, bytes)
  return bytes
}

/** The same as one chunk of HTTP/1.1 (RFC 9112 7.1), written to many connections as it is. */
const chunks = new WeakMap<readonly Frame[], Buffer>()

const chunkOf = (frames: readonly Frame[]): Buffer => {
  const known = chunks.get(frames)
  if (known) return known
  const bytes = bytesOf(frames)
  const size = Buffer.byteLength(bytes).toString(16)
  const chunk = Buffer.concat([Buffer.from(`${size}\r\n`), Buffer.from(bytes), CRLF])
  chunks.set(frames, chunk)
  return chunk
}

const CRLF = Buffer.from('\r\n')

/** A property of OutgoingMessage that its types leave out. */
interface Chunked {
  chunkedEncoding?: boolean
}

const isList = (frames: Frame | readonly Frame[]): frames is readonly Frame[] =>
  Array.isArray(frames)

/** A stream that waits behind others of its connection has no socket of its own, and would stay in memory. */
const breakOff = (res: ServerResponse): void => void res.req.socket.destroy()

/**
 * Writes, and knows when the reader has taken what was written. A class, like the puller below,
 * because there are thousands of both: an instance owns no functions but its listeners.
 */
class StreamWriter {
  readonly #res: ServerResponse
  readonly #drainMs: number
  readonly #options: StreamOptions
  #stalled = false
  #watchdog: NodeJS.Timeout | undefined
  #unread: Unread | undefined
  #release: (() => void) | undefined

  constructor(res: ServerResponse, drainMs: number, options: StreamOptions) {
    this.#res = res
    this.#drainMs = drainMs
    this.#options = options
    res.on('drain', this.#settle)
    res.on('close', this.#settle)
  }

  readonly #settle = (): void => {
    clearTimeout(this.#watchdog)
    this.#watchdog = undefined
    if (this.#unread !== undefined) this.#options.unread?.remove(this.#unread)
    this.#unread = undefined
    this.#release?.()
    this.#release = undefined
  }

  #watch(): void {
    if (this.#watchdog !== undefined) return
    const cut = (): void => {
      this.#stalled = true
      breakOff(this.#res)
    }
    this.#watchdog = setTimeout(cut, this.#drainMs)
    const { unread, owner = '' } = this.#options
    if (!unread) return
    this.#unread = { owner, bytes: this.#res.writableLength, cut }
    unread.add(this.#unread)
  }

  write(text: Buffer | string): void {
    if (!this.#res.write(text) && !this.#res.destroyed) this.#watch()
  }

  /**
   * Writes a chunk that many readers share past the response, which would take it apart and put it
   * together again for each of them. False where the reader has not drained what it has.
   */
  push(frames: readonly Frame[]): boolean {
    const res = this.#res
    const { socket } = res
    if (this.#watchdog !== undefined || !socket?.writable) return false
    if (!res.headersSent || !(res as Chunked).chunkedEncoding) this.write(bytesOf(frames))
    else if (!socket.write(chunkOf(frames))) {
      socket.once('drain', this.#settle)
      this.#watch()
    }
    return true
  }

  /** Resolves when all that was written has drained, or the reader is gone. */
  drained(): Promise<void> | undefined {
    if (this.#watchdog === undefined) return
    return new Promise((resolve) => {
      this.#release = resolve
    })
  }

  get isStalled(): boolean {
    return this.#stalled
  }
}

/**
 * The frames of `source`, given up as soon as the response closes or the signal fires, even while
 * the source is busy with the next one. A Promise.race with one long-lived promise would keep every
 * frame alive until the stream ends.
 */
class FramePuller {
  readonly #res: ServerResponse
  readonly #source: Source
  readonly #signal: AbortSignal
  readonly #iterator: AsyncIterator<Frame | readonly Frame[]>
  #onGone: (() => void) | undefined

  constructor(res: ServerResponse, source: Source, signal: AbortSignal) {
    this.#res = res
    this.#source = source
    this.#signal = signal
    this.#iterator = source[Symbol.asyncIterator]()
    res.on('close', this.#gone)
    signal.addEventListener('abort', this.#gone, { once: true })
  }

  readonly #gone = (): void => this.#onGone?.()

  /**
   * Writes the next frames; false where there are none any more, or nobody waits for them. It is
   * done here since a loop that awaits the frames would keep them until the next ones come.
   */
  writeNext(writer: StreamWriter): Promise<boolean> {
    return new Promise((resolve, reject) => {
      if (this.#res.closed || this.#signal.aborted) return resolve(false)
      let isGone = false
      this.#onGone = () => {
        isGone = true
        resolve(false)
      }
      const write = (item: IteratorResult<Frame | readonly Frame[]>): void => {
        if (isGone) return
        if (!item.done) writer.write(bytesOf(item.value))
        resolve(!item.done)
      }
      this.#iterator.next().then(write).catch(reject)
    })
  }

  /** Lasts while the source has nothing to be pulled and the reader keeps up. */
  live(writer: StreamWriter): Promise<void> | undefined {
    if (!this.#source.live || this.#res.closed || this.#signal.aborted) return
    const off = this.#source.live((frames) => writer.push(frames), this.#gone)
    if (!off) return
    return new Promise((resolve) => {
      this.#onGone = () => {
        off()
        resolve()
      }
    })
  }

  /** Tells the source that nobody reads on. It may take its time, and its failure goes unheard. */
  giveUp(): void {
    this.#signal.removeEventListener('abort', this.#gone)
    this.#iterator.return?.().then(undefined, () => undefined)
  }
}

/** Ends the response; a reader that does not take the rest in time is cut off. */
const finish = (res: ServerResponse, drainMs: number): void => {
  if (res.closed) return
  const guard = setTimeout(() => breakOff(res), drainMs)
  res.once('close', () => clearTimeout(guard))
  res.end()
}

/**
 * Answers `res` with `source` as an event stream, and resolves when the stream is over. Headers
 * leave with the first frame where there is one at once, else before it. Never rejects.
 */
export const writeStream = async (
  res: ServerResponse,
  source: Source,
  options: StreamOptions,
): Promise<StreamOutcome> => {
  const drainMs = options.drainMs ?? DRAIN_MS
  for (const [name, value] of Object.entries(HEADERS)) res.setHeader(name, value)
  res.statusCode = 200
  setImmediate(() => {
    if (!res.headersSent && !res.destroyed) res.flushHeaders()
  })
  // A connection that breaks while we write counts as a hang-up, which the 'close' that follows
  // says.
  res.on('error', () => undefined)

  const writer = new StreamWriter(res, drainMs, options)
  const puller = new FramePuller(res, source, options.signal)
  const ping = setInterval(() => {
    if (!res.writableNeedDrain) writer.write(PING)
  }, options.pingMs ?? PING_MS)

  const run = async (): Promise<StreamOutcome> => {
    if (options.retryMs !== undefined) writer.write(encodeFrame({ retry: options.retryMs }))
    for (;;) {
      await puller.live(writer)
      await writer.drained()
      if (!(await puller.writeNext(writer))) return 'ended'
      await writer.drained()
    }
  }
  const failure = (error: unknown): StreamOutcome => {
    if (options.signal.aborted) return 'ended'
    if (error instanceof TooSlow) return 'too_slow'
    const last = options.onError?.(error)
    if (last) writer.write(encodeFrame(last))
    return 'failed'
  }

  const outcome = await run().catch(failure)
  clearInterval(ping)
  puller.giveUp()
  if (isStopping(options.signal) && !res.closed) {
    // The delays are spread out, since all readers are told at the same moment.
    const retry = Math.round((options.retryMs ?? PARTING_RETRY_MS) * (0.5 + Math.random()))
    writer.write(encodeFrame({ retry }))
  }
  if (writer.isStalled) return 'stalled'
  if (res.closed) return 'hung_up'
  finish(res, drainMs)
  return outcome
}
