/** A client of one queue's HTTP+JSON binding, by hand and with nothing of the server's code. */
import { type Answered, openStream, textMessage } from './actors.ts'

export interface RestOptions {
  query?: Record<string, string>
  body?: unknown
  token?: string | null
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** `version` null: no header. */
export const restClient = (
  url: string,
  queue: string,
  token: string,
  version: string | null = '1.0',
) => {
  const base = `${url}/a2a/${queue}`
  const headersOf = ({ token: other, headers = {}, body }: RestOptions) => ({
    ...(version !== null && { 'A2A-Version': version }),
    ...(body !== undefined && { 'Content-Type': 'application/json' }),
    ...((other === undefined ? token : other) && {
      Authorization: `Bearer ${other === undefined ? token : other}`,
    }),
    ...headers,
  })
  const target = (path: string, { query }: RestOptions): string =>
    `${base}${path}${query ? `?${new URLSearchParams(query)}` : ''}`
  const text = (body: unknown): { body?: string } =>
    body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }

  const call = async (
    method: string,
    path: string,
    options: RestOptions = {},
  ): Promise<Answered> => {
    const { signal } = options
    const response = await fetch(target(path, options), {
      method,
      headers: headersOf(options),
      ...text(options.body),
      ...(signal && { signal }),
    })
    const answer = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      body: answer === '' ? null : JSON.parse(answer),
    }
  }
  return {
    base,
    call,
    get: (path: string, query?: Record<string, string>) =>
      call('GET', path, query ? { query } : {}),
    send: (words: string, more: Record<string, unknown> = {}, configuration = {}) =>
      call('POST', '/message:send', {
        body: { message: textMessage(words, more), configuration },
      }),
    /** Returns at once, with the new task. */
    submit: async (words: string, more: Record<string, unknown> = {}) => {
      const { status, body } = await call('POST', '/message:send', {
        body: {
          message: textMessage(words, more),
          configuration: { returnImmediately: true },
        },
      })
      if (status !== 200) throw new Error(JSON.stringify(body))
      return body.task
    },
    stream: (method: 'GET' | 'POST', path: string, options: RestOptions = {}) =>
      openStream(target(path, options), {
        method,
        headers: headersOf(options),
        ...text(options.body),
      }),
  }
}
