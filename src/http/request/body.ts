/**
 * Request bodies, bounded in size and in time. What is not JSON text in UTF-8 is refused before it
 * is parsed. A body over the limit is read and dropped for a little longer, so that a client which
 * still sends gets to see the refusal; memory does not grow meanwhile.
 */
import type { IncomingMessage } from 'node:http'
import { WireRefusal } from '../../protocol/wire/errors.ts'
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
/** How much longer, and at most how many more bytes, a body over the limit is read. */
const LINGER_MS = 1_000
const LINGER_BYTES = 8 * 1024 * 1024

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

/** The bytes of a body. Refuses: too_large, too_late (also for a body that was broken off). */
const collect = (req: IncomingMessage, limitBytes: number, timeoutMs: number): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    let over = false
    let linger: NodeJS.Timeout | undefined

    const done = (): void => {
      clearTimeout(timer)
      clearTimeout(linger)
      req.off('data', add).off('end', end).off('close', broken).off('error', broken)
    }
    const refuse = (kind: 'too_large' | 'too_late'): void => {
      done()
      reject(new WireRefusal(kind))
    }
    const exceed = (): void => {
      over = true
      chunks.length = 0
      linger ??= setTimeout(() => refuse('too_large'), LINGER_MS)
    }
    const add = (chunk: Buffer): void => {
      bytes += chunk.length
      if (!over && bytes > limitBytes) exceed()
      if (!over) chunks.push(chunk)
      else if (bytes > limitBytes + LINGER_BYTES) refuse('too_large')
    }
    const end = (): void => {
      if (over) refuse('too_large')
      else {
        done()
        resolve(Buffer.concat(chunks))
      }
    }
    const broken = (): void => refuse(over ? 'too_large' : 'too_late')
    const timer = setTimeout(broken, timeoutMs)

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
      if (bytes > LINGER_BYTES) done()
    }
    const timer = setTimeout(done, LINGER_MS)
    req.on('data', drop).on('end', done).on('close', done).on('error', done)
  })

/** Shared, since it keeps nothing from one whole text to the next. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The text of a JSON body. Refuses: media_type, too_large, too_late, limit, parse (not UTF-8). */
export const readText = async (req: IncomingMessage, options: BodyOptions): Promise<string> => {
  checkHeaders(req, options)
  const { limitBytes = LIMIT_BYTES, timeoutMs = TIMEOUT_MS, maxValues = MAX_VALUES } = options
  const bytes = await collect(req, limitBytes, timeoutMs)
  if (mayHoldMany(bytes, maxValues)) await admitValues(bytes, maxValues)
  try {
    return utf8.decode(bytes)
  } catch {
    throw new WireRefusal('parse', 'The body is not UTF-8')
  }
}
