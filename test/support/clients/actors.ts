/** Those who talk to switchboard, by hand and over the wire, with nothing of the server's code. */
import { randomUUID } from 'node:crypto'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { scaled } from '../timeouts.ts'

/** The server takes a minute at most. */
const CLAIM_WAIT_MS = Math.min(scaled(25_000), 60_000)

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into member by member
export type Answer = any

export interface Answered {
  status: number
  headers: Headers
  body: Answer
}

export interface RequestOptions {
  token?: string | null
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** The headers of a subscription that goes on after this event, and begins with what was missed. */
export const resumeAfter = (id: string) => ({
  'Last-Event-ID': id,
  'A2A-Extensions': 'urn:switchboard:ext:resumable-streams/v1',
})

/** The number of an event by its id: in the stream of a send that names its task before it. */
export const seqOf = (id: string | undefined): number => Number(id?.split(':').at(-1))

/** POSTs a body as it is. */
export const post = async (
  url: string,
  body: string | Uint8Array,
  { token, headers = {}, signal }: RequestOptions = {},
): Promise<Answered> => {
  const response = await fetch(url, {
    method: 'POST',
    body: typeof body === 'string' ? body : Buffer.from(body),
    headers: {
      'Content-Type': 'application/json',
      ...(token && { Authorization: `Bearer ${token}` }),
      ...headers,
    },
    ...(signal && { signal }),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    body: text === '' ? null : JSON.parse(text),
  }
}

/** One JSON-RPC call; answers with the body, result or error. */
export const rpc = async (
  url: string,
  method: string,
  params: unknown,
  options: RequestOptions = {},
): Promise<Answer> =>
  (await post(url, JSON.stringify({ jsonrpc: '2.0', id: 'q', method, params }), options)).body

export const textMessage = (text: string, more: Record<string, unknown> = {}) => ({
  messageId: randomUUID(),
  role: 'ROLE_USER',
  parts: [{ text }],
  ...more,
})

/** A 1.0 client of one queue. */
export const a2aClient = (url: string, queue: string, token: string) => {
  const endpoint = `${url}/a2a/${queue}/`
  const headers = { 'A2A-Version': '1.0' }
  const call = (method: string, params: unknown, options: RequestOptions = {}) =>
    rpc(endpoint, method, params, {
      token,
      ...options,
      headers: { ...headers, ...options.headers },
    })
  return {
    endpoint,
    call,
    send: (text: string, more: Record<string, unknown> = {}, configuration = {}) =>
      call('SendMessage', { message: textMessage(text, more), configuration }),
    /** Returns at once, with the new task. */
    submit: async (text: string, more: Record<string, unknown> = {}) => {
      const answer = await call('SendMessage', {
        message: textMessage(text, more),
        configuration: { returnImmediately: true },
      })
      if (answer.error) throw new Error(JSON.stringify(answer.error))
      return answer.result.task
    },
    get: async (id: string) => (await call('GetTask', { id })).result,
    stream: (method: string, params: unknown, options: RequestOptions = {}) =>
      openStream(endpoint, {
        method: 'POST',
        body: JSON.stringify({ jsonrpc: '2.0', id: 's', method, params }),
        token,
        ...options,
        headers: { ...headers, ...options.headers },
      }),
  }
}

/** An agent that does what its test tells it to. */
export const agentClient = (url: string, token: string) => {
  const call = async (method: string, params: unknown, options: RequestOptions = {}) => {
    const { result, error } = await rpc(`${url}/agent`, method, params, { token, ...options })
    if (error) throw Object.assign(new Error(error.message), { error })
    return result
  }
  return {
    call,
    /** Claims one todo, waiting for it. */
    claim: async (params: Record<string, unknown> = {}) => {
      const { todos } = await call('todos.claim', { waitMs: CLAIM_WAIT_MS, ...params })
      if (!todos[0]) throw new Error('nothing came to claim')
      return { ...todos[0], held: { id: todos[0].id, fence: todos[0].fence } }
    },
  }
}

export interface Frame extends EventSourceMessage {
  json: Answer
}

export interface Stream {
  status: number
  headers: Headers
  /** For answers that are no stream. */
  body: Answer
  /** The next frame; null once the stream has ended. */
  next(): Promise<Frame | null>
  /** Every frame until the end. */
  rest(): Promise<Frame[]>
  /** Frames until one fits, that one included. Throws where the stream ends before. */
  until(fits: (frame: Frame) => boolean): Promise<Frame[]>
  comments: string[]
  /** The reconnection delays that were told, in ms. */
  retries: number[]
  close(): void
}

/** Opens an event stream and reads it frame by frame. */
export const openStream = async (
  url: string,
  {
    method = 'GET',
    body,
    token,
    headers = {},
  }: RequestOptions & { method?: string; body?: string } = {},
): Promise<Stream> => {
  const abort = new AbortController()
  const response = await fetch(url, {
    method,
    signal: abort.signal,
    headers: {
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...(token && { Authorization: `Bearer ${token}` }),
      ...headers,
    },
    ...(body !== undefined && { body }),
  })
  const frames: Frame[] = []
  const comments: string[] = []
  const retries: number[] = []
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false
  const parser = createParser({
    onEvent: (event) => frames.push({ ...event, json: JSON.parse(event.data) }),
    onComment: (comment) => comments.push(comment),
    onRetry: (ms) => retries.push(ms),
  })
  const reader = isStream ? response.body!.getReader() : null
  const decoder = new TextDecoder()

  const next = async (): Promise<Frame | null> => {
    while (frames.length === 0) {
      const read = await reader!.read().catch(() => ({ done: true, value: undefined }))
      if (read.done) return null
      parser.feed(decoder.decode(read.value, { stream: true }))
    }
    return frames.shift()!
  }
  return {
    status: response.status,
    headers: response.headers,
    body: isStream ? null : await response.json(),
    next,
    rest: async () => {
      const all: Frame[] = []
      for (let frame = await next(); frame; frame = await next()) all.push(frame)
      return all
    },
    until: async (fits) => {
      const all: Frame[] = []
      for (;;) {
        const frame = await next()
        if (!frame) throw new Error(`the stream ended before it: ${JSON.stringify(all)}`)
        all.push(frame)
        if (fits(frame)) return all
      }
    },
    comments,
    retries,
    close: () => abort.abort(),
  }
}
