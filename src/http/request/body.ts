/**
 * Request bodies, bounded in size and in time. What is not JSON text in UTF-8 is refused before it
 * is parsed. A body over the limit is read and dropped for a little longer, so that a client which
 * still sends gets to see the refusal; memory does not grow meanwhile.
 */
import type { IncomingMessage } from 'node:http'
import { WireRefusal } from '../../protocol/wire/errors.ts'
import { SMALL_BYTES } from '../bounds/body-room.ts'
import type { Admission } from '../bounds/callers.ts'
import { admitValues, MAX_VALUES, mayHoldMany } from '../bounds/values.ts'

export interface BodyOptions {
  /** Media types accepted, without parameters. */
  mediaTypes: readonly string[]
  /** Whether a body may come without a Content-Type. */
  untyped?: boolean
  limitBytes?: number
  /** Milliseconds within which the whole body must have arrived. */
  timeoutMs?: number
  /** How many JSON values it may hold. */
  maxValues?: number
}

export const LIMIT_BYTES = 4 * 1024 * 1024
export const TIMEOUT_MS = 30_000
/** A body of which nothing arrives for so long has stalled. */
const STALL_MS = 10_000
/** How much longer, and at most how many more bytes, a body over the limit is read. */
const OVERRUN_MS = 1_000
const OVERRUN_BYTES = 8 * 1024 * 1024

/** Whether anything follows the headers, according to them. */
export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Refuses: media_type. */
const checkHeaders = (
  req: IncomingMessage,
  { mediaTypes, untyped = false }: Pick<BodyOptions, 'mediaTypes' | 'untyped'>,
): void => {
  const [type = '', ...parameters] = (req.headers['content-type'] ?? '')
    .split(';')
    .map((text) => text.trim().toLowerCase())
  if (!mediaTypes.includes(type) && !(untyped && type === '')) {
    throw new WireRefusal('media_type', `Content-Type must be ${mediaTypes.join(' or ')}`)
  }
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))
  if (charset && !['utf-8', 'utf8'].includes(charset.slice(8).replaceAll('"', ''))) {
    throw new WireRefusal('media_type', 'The charset of JSON is UTF-8')
  }
  const encoding = (req.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (encoding !== 'identity') {
    throw new WireRefusal('media_type', 'Content-Encoding must be identity')
  }
}

/** What a body may take. */
interface Allowance {
  limitBytes: number
  timeoutMs: number
  /** Where its bytes are counted. */
  admission: Admission | undefined
}

/**
 * The bytes of a body. Refuses: too_large, too_late (also for a body that was broken off), and
 * where there is no room for more of it, what the admission refuses.
 */
const collect = (req: IncomingMessage, allowance: Allowance): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const { limitBytes, timeoutMs, admission } = allowance
    const undeclared = req.headers['content-length'] === undefined
    const chunks: Buffer[] = []
    let bytes = 0
    let over = false
    let overrun: NodeJS.Timeout | undefined

    const done = (): void => {
      clearTimeout(timer)
      clearTimeout(overrun)
      req.off('data', add).off('end', end).off('close', broken).off('error', broken)
    }
    const fail = (error: unknown): void => {
      done()
      reject(error)
    }
    const refuse = (kind: 'too_large' | 'too_late'): void => fail(new WireRefusal(kind))
    const exceed = (): void => {
      over = true
      chunks.length = 0
      overrun ??= setTimeout(() => refuse('too_large'), OVERRUN_MS)
    }
    const add = (chunk: Buffer): void => {
      bytes += chunk.length
      if (!over && bytes > limitBytes) exceed()
      if (!over) chunks.push(chunk)
      else if (bytes > limitBytes + OVERRUN_BYTES) refuse('too_large')
      // A body that did not say its length turns out to be a large one.
      if (bytes > SMALL_BYTES && undeclared && !over) makeRoom()
    }
    const makeRoom = (): void => {
      const waiting = admission?.room(limitBytes)
      if (waiting === undefined) return
      req.pause()
      waiting.then(() => req.resume(), fail)
    }
    const end = (): void => {
      if (over) refuse('too_large')
      else {
        done()
        resolve(Buffer.concat(chunks))
      }
    }
    const broken = (): void => refuse(over ? 'too_large' : 'too_late')

    const endsAt = performance.now() + timeoutMs
    let seen = 0
    const look = (): void => {
      const left = endsAt - performance.now()
      const stalled = bytes === seen && !req.isPaused()
      seen = bytes
      if (left <= 1 || stalled) broken()
      else timer = setTimeout(look, Math.min(left, STALL_MS))
    }
    let timer = setTimeout(look, Math.min(timeoutMs, STALL_MS))

    if (Number(req.headers['content-length'] ?? 0) > limitBytes) exceed()
    req.on('data', add).on('end', end).on('close', broken).on('error', broken)
  })

/**
 * Reads what is left of a body and drops it, within limits: a connection that is closed behind the
 * answer while bytes are still to be read is reset, and the answer may be lost with it.
 */
export const discardBody = (req: IncomingMessage): Promise<void> =>
  new Promise((resolve) => {
    if (req.readableEnded || req.destroyed || !hasBody(req)) return resolve()
    let bytes = 0
    const done = (): void => {
      clearTimeout(timer)
      req.off('data', drop).off('end', done).off('close', done).off('error', done)
      resolve()
    }
    const drop = (chunk: Buffer): void => {
      bytes += chunk.length
      if (bytes > OVERRUN_BYTES) done()
    }
    const timer = setTimeout(done, OVERRUN_MS)
    req.on('data', drop).on('end', done).on('close', done).on('error', done)
  })

/** Room for what a body says that it holds; what is too large is read and dropped. */
const roomFor = (
  req: IncomingMessage,
  { admission, limitBytes }: Allowance,
): Promise<void> | undefined => {
  const declared = Number(req.headers['content-length'] ?? SMALL_BYTES)
  return declared > limitBytes ? undefined : admission?.room(declared)
}

/** Shared, since it keeps nothing from one whole text to the next. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * The text of a JSON body. Refuses: media_type, too_large, too_late, limit, parse (not UTF-8), and
 * what the admission refuses.
 */
export const readText = async (
  req: IncomingMessage,
  options: BodyOptions,
  admission?: Admission,
): Promise<string> => {
  checkHeaders(req, options)
  const { limitBytes = LIMIT_BYTES, timeoutMs = TIMEOUT_MS, maxValues = MAX_VALUES } = options
  const allowance = { limitBytes, timeoutMs, admission }
  const waiting = roomFor(req, allowance)
  if (waiting !== undefined) {
    await waiting
    if (req.destroyed) throw new WireRefusal('too_late')
  }
  const bytes = await collect(req, allowance)
  // The call may wait for long, and a body that did not say its length took room for the longest.
  admission?.settle(bytes.length)
  if (mayHoldMany(bytes, maxValues)) await admitValues(bytes, maxValues)
  try {
    return utf8.decode(bytes)
  } catch {
    throw new WireRefusal('parse', 'The body is not UTF-8')
  }
}
