/**
 * Reads server-sent events and stays connected: after a break it reconnects with the id of the
 * last event it handed out, so that a resumable feed continues without a gap. A stream that has
 * been silent for three of the server's 15-second comments is taken for dead.
 */

import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { defined } from '../../base/defined.ts'
import { parseExact } from '../../base/exact-json.ts'
import { backoffMs, sleep } from '../../base/time.ts'
import { AgentApiError, type ConnectionError } from '../errors.ts'
import { asConnectionError } from './batched-calls.ts'
import { parsed, refusalOf, single } from './rpc-response.ts'

const SILENCE_MS = 45_000
/** More than any event a server sends; a stream beyond it is not one. */
const MAX_EVENT_CHARACTERS = 1_000_000

export interface StreamedEvent {
  name: string
  id: string | undefined
  /** The parsed JSON of the event's data; the bare text where it is none. */
  data: unknown
}

export interface StreamOptions {
  /** The address, with its query. */
  url: string
  token: string
  /** Ends the stream; the iteration then simply ends. */
  signal: AbortSignal
  lastEventId?: string
  /** Whether to give up when the very first connection fails. Default: keep trying. */
  firstMustSucceed?: boolean
  onOpen?: () => void
  /** Called with what broke the stream, before it is opened again after `waitMs`. */
  onBreak?: (error: Error, waitMs: number) => void
}

/**
 * The events, one after the other. Throws AgentApiError where the server refuses for good (a bad
 * token, an unknown address), ConnectionError only with `firstMustSucceed`.
 */
export async function* readEvents(options: StreamOptions): AsyncGenerator<StreamedEvent> {
  const { signal, url } = options
  const position: Position = { id: options.lastEventId, retryMs: undefined }
  let opened = false
  for (let failures = 1; !signal.aborted; failures++) {
    let broken: Error
    try {
      for await (const event of readOnce(options, position, () => {
        opened = true
        failures = 0
        options.onOpen?.()
      })) {
        yield event
      }
      broken = new Error(`${url} ended`)
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof AgentApiError && !passing(error)) throw error
      broken = error instanceof Error ? error : new Error(String(error))
      if (!opened && options.firstMustSucceed === true) throw broken
    }
    if (signal.aborted) return
    const waitMs = Math.max(backoffMs(Math.max(1, failures)), position.retryMs ?? 0)
    options.onBreak?.(broken, waitMs)
    await sleep(waitMs, signal).catch(() => {})
  }
}

interface Position {
  id: string | undefined
  /** What the server asked for in `retry:`. */
  retryMs: number | undefined
}

const passing = (error: AgentApiError): boolean =>
  error.status === 429 || error.status >= 500 || error.reason === 'not_an_answer'

async function* readOnce(
  { url, token, signal }: StreamOptions,
  position: Position,
  onOpen: () => void,
): AsyncGenerator<StreamedEvent> {
  const controller = new AbortController()
  let cancel = () => {}
  const abort = () => {
    controller.abort()
    cancel()
  }
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  const silence = setTimeout(abort, SILENCE_MS)
  try {
    const response = await open(url, token, position.id, controller.signal)
    onOpen()
    const arrived: EventSourceMessage[] = []
    const parser = createParser({
      onEvent: (event) => arrived.push(event),
      onRetry: (ms) => {
        position.retryMs = ms
      },
      onError: (error) => {
        if (error.type === 'max-buffer-size-exceeded') abort()
      },
      maxBufferSize: MAX_EVENT_CHARACTERS,
    })
    const complete = createFrameCompleter()
    const reader = response.body.getReader()
    // Once Node's fetch has answered, its signal is lost to the garbage collector (seen in 20.20):
    // the connection then stayed open forever. Canceling the reader always ends it.
    cancel = () => void reader.cancel().catch(() => {})
    const decoder = new TextDecoder()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      silence.refresh()
      parser.feed(complete(decoder.decode(value, { stream: true })))
      for (const event of arrived.splice(0)) {
        if (event.data !== '') yield toStreamed(event)
        if (event.id !== undefined) position.id = event.id
      }
    }
  } catch (error) {
    if (error instanceof AgentApiError) throw error
    throw asConnectionError(url, error) satisfies ConnectionError
  } finally {
    clearTimeout(silence)
    signal.removeEventListener('abort', abort)
    abort()
  }
}

/**
 * Gives frames that have an id and no data an empty one. To the standard such a frame is a position to
 * resume from, and a stream begins with it; the parser would drop it, id and all. The board has the same.
 */
export const createFrameCompleter = (): ((text: string) => string) => {
  let begun = ''
  let hasId = false
  let hasData = false
  const endLine = (): string => {
    const isBare = begun === '' && hasId && !hasData
    hasId = begun !== '' && (hasId || begun.startsWith('id:'))
    hasData = begun !== '' && (hasData || begun === FIELD_DATA)
    begun = ''
    return isBare ? 'data:\n\n' : '\n'
  }
  const add = (piece: string): string => {
    begun = (begun + piece).slice(0, FIELD_DATA.length)
    return piece
  }
  return (text) => {
    const [first = '', ...lines] = text.split('\n')
    return add(first) + lines.map((line) => endLine() + add(line)).join('')
  }
}

const FIELD_DATA = 'data:'

const open = async (
  url: string,
  token: string,
  lastEventId: string | undefined,
  signal: AbortSignal,
): Promise<Response & { body: ReadableStream<Uint8Array> }> => {
  const response = await fetch(url, {
    headers: defined<Record<string, string>>({
      accept: 'text/event-stream',
      authorization: `Bearer ${token}`,
      'last-event-id': lastEventId,
    }),
    signal,
    redirect: 'error',
  })
  const type = response.headers.get('content-type') ?? ''
  if (response.ok && type.startsWith('text/event-stream') && response.body !== null) {
    return response as Response & { body: ReadableStream<Uint8Array> }
  }
  throw refusalOf(response, single(parsed(await response.text())))
}

const toStreamed = (event: EventSourceMessage): StreamedEvent => {
  let data: unknown = event.data
  try {
    data = parseExact(event.data)
  } catch {
    // Text that is not JSON is handed on as it came.
  }
  return { name: event.event ?? 'message', id: event.id, data }
}
