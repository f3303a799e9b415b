/**
 * A small HTTP server that speaks the agent API's wire contract, one scripted answer for each
 * call, for what the real server cannot be made to do on demand: to fail, to stall, to cut off.
 */
import http from 'node:http'
import type { AddressInfo } from 'node:net'

interface Call {
  method: string
  params: Record<string, unknown>
}

/** What a method answers: a result, or an error with the HTTP status it comes with. */
export type Answer =
  | { result: unknown }
  | {
      error: { code: number; message: string; data?: unknown }
      status?: number
      headers?: Record<string, string>
    }
  /** Cuts the connection without an answer. */
  | 'cut'
  /** Never answers; ends when the caller hangs up. */
  | 'stall'

interface Envelope extends Call {
  id: number
}

type Loud = { status?: number; headers?: Record<string, string> }

export type Script = (call: Call, nth: number) => Answer | Promise<Answer>

export interface FakeServer {
  url: string
  calls: Call[]
  /** The token of each request that brought calls. */
  tokens: string[]
  /** The params of every call of this method, in order. */
  paramsOf(method: string): Record<string, unknown>[]
  /** Requests for event streams, with the id to resume from. */
  streams: {
    lastEventId: string | undefined
    readonly closed: boolean
    send(text: string): void
    end(): void
  }[]
  close(): Promise<void>
}

export const conflict = (reason: string, data: object = {}): Answer => ({
  error: { code: -32010, message: reason, data: { reason, ...data } },
})

export const startFakeServer = async (script: Script): Promise<FakeServer> => {
  const calls: Call[] = []
  const tokens: string[] = []
  const streams: FakeServer['streams'] = []
  const server = http.createServer(async (request, response) => {
    if (request.method === 'GET' && request.url === '/refused') {
      response.writeHead(401).end('{}')
      return
    }
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(': open\n\n')
      streams.push({
        lastEventId: request.headers['last-event-id'] as string | undefined,
        get closed() {
          return response.closed
        },
        send: (text) => response.write(text),
        end: () => response.end(),
      })
      return
    }
    tokens.push(request.headers.authorization?.replace(/^Bearer /, '') ?? '')
    let body = ''
    for await (const chunk of request) body += chunk
    const asked = JSON.parse(body) as Envelope | Envelope[]
    const all = [asked].flat()
    const answers = await Promise.all(
      all.map(async ({ id, method, params }) => {
        calls.push({ method, params })
        const nth = calls.filter((call) => call.method === method).length
        return { id, answer: await script({ method, params }, nth) }
      }),
    )
    if (answers.some(({ answer }) => answer === 'stall')) return
    if (answers.some(({ answer }) => answer === 'cut')) {
      request.socket.destroy()
      return
    }
    // A refusal with a status of its own refuses the request, whatever else is in it.
    const loud = answers.find(({ answer }) => typeof answer === 'object' && 'status' in answer)
    const { status = 200, headers = {} } = (loud?.answer ?? {}) as Loud
    const written = answers.map(({ id, answer }) => {
      const content =
        typeof answer === 'object' && 'error' in answer ? { error: answer.error } : answer
      return { jsonrpc: '2.0', id, ...(content as object) }
    })
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    const single = loud ? written[answers.indexOf(loud)] : written[0]
    response.end(JSON.stringify(Array.isArray(asked) && !loud ? written : single))
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    tokens,
    streams,
    paramsOf: (method) =>
      calls.filter((call) => call.method === method).map(({ params }) => params),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** A todo as a claim hands it over. */
export const claimed = (members: object = {}): object => ({
  id: 'todo-1',
  queue: 'q',
  contextId: 'context-1',
  state: 'claimed',
  attempt: 1,
  maxAttempts: 5,
  fence: '7',
  leaseExpiresAt: '2030-01-01T00:00:00.000Z',
  createdAt: '2030-01-01T00:00:00.000Z',
  message: { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'hello' }] },
  history: [{ messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'hello' }] }],
  unread: [],
  artifacts: [],
  result: null,
  priorAttempts: [],
  attemptsTotal: 1,
  metadata: null,
  effects: null,
  children: [],
  deadlines: {},
  ...members,
})

/** An inbox message as `todos.messages` gives it. */
export const owed = (seq: number, text: string, receivedAt = '2030-01-01T00:00:10.000Z') => ({
  seq,
  receivedAt,
  message: { messageId: `m-${seq}`, role: 'ROLE_USER', parts: [{ text }] },
})

/** An address of this machine where nobody listens. */
export const deadUrl = async (): Promise<string> => {
  const { url, close } = await startFakeServer(() => 'stall')
  await close()
  return url
}
