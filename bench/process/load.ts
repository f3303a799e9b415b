/**
 * The load generator, in a process of its own: N keep-alive connections in a closed loop, each
 * making its next call as soon as the one before is answered. Measures answers per second and the
 * time from a request to the end of its answer, or to the first event of a stream. Any answer but
 * the wanted one stops the benchmark.
 */
import http from 'node:http'
import { answerParent } from '../child.ts'
import { rate, repeat, repeatWhile } from '../repeat.ts'
import { newMessage } from '../statements.ts'
import { askForChunks } from './chunks.ts'

export interface Load {
  /** Of the agent: where JSON-RPC is posted to. */
  url: string
  token: string | null
  connections: number
  seconds: number
  /** So many calls in all, however long that takes. */
  count?: number
}

interface Call {
  method: string
  params: () => unknown
  /** What the answer must hold. */
  wanted: string
  /** Over at the first event rather than at the end. */
  first?: boolean
  /** Told each answer, whole. */
  heard?: (text: string) => void
}

const run = async ({ url, token, connections, seconds, count }: Load, call: Call) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: connections })
  const { hostname, port, pathname } = new URL(url)

  const post = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const { method, params } = call
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: params() })
      const headers = {
        ...(token !== null && { Authorization: `Bearer ${token}` }),
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(body),
        'A2A-Version': '1.0',
      }
      const options = { hostname, port, method: 'POST', path: pathname, agent, headers }
      const request = http.request(options, (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          text += chunk
          if (!call.first || !text.includes('\n\n')) return
          response.destroy()
          text.includes(call.wanted) ? resolve() : reject(new Error(text))
        })
        response.on('end', () => {
          call.heard?.(text)
          text.includes(call.wanted) ? resolve() : reject(new Error(text))
        })
      })
      request.on('error', reject)
      request.end(body)
    })

  let left = count ?? 0
  try {
    return await (count === undefined
      ? repeat(connections, seconds, post)
      : repeatWhile(connections, () => left-- > 0, post))
  } finally {
    agent.destroy()
  }
}

/** `blocking`: whether the answer waits until the task is settled. */
const send = (load: Load & { blocking: boolean }) =>
  run(load, {
    method: 'SendMessage',
    params: () => ({
      message: newMessage(),
      configuration: { returnImmediately: !load.blocking },
    }),
    wanted: load.blocking ? 'TASK_STATE_COMPLETED' : 'TASK_STATE_SUBMITTED',
  })

/** Of one task, made before. */
const get = (load: Load & { id: string }) =>
  run(load, { method: 'GetTask', params: () => ({ id: load.id }), wanted: load.id })

const firstEvent = (load: Load) =>
  run(load, {
    method: 'SendStreamingMessage',
    params: () => ({ message: newMessage() }),
    wanted: 'TASK_STATE_SUBMITTED',
    first: true,
  })

const EVENT = /^data:/gm

/** Events of streams whose tasks say `chunks` chunks of an artifact each, read to their ends. */
const stream = async (load: Load & { chunks: number }) => {
  let events = 0
  const started = performance.now()
  await run(load, {
    method: 'SendStreamingMessage',
    params: () => ({ message: askForChunks(load.chunks) }),
    wanted: 'TASK_STATE_COMPLETED',
    heard: (text) => {
      const heard = text.match(EVENT)?.length ?? 0
      if (heard < load.chunks) throw new Error(`${heard} events of ${load.chunks} chunks`)
      events += heard
    },
  })
  return { perSecond: rate(events, started), events }
}

/** The id of a new task that has completed. */
const make = async ({ url, token }: Load): Promise<string> => {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'A2A-Version': '1.0',
      ...(token !== null && { Authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: { message: newMessage() },
    }),
  })
  return ((await response.json()) as { result: { task: { id: string } } }).result.task.id
}

answerParent({ send, get, firstEvent, stream, make })
