/**
 * The load generator, in a process of its own: N keep-alive connections in a closed loop, each
 * making its next call as soon as the one before is answered. Measures answers per second and the
 * time from a request to the end of its answer, or to the first event of a stream. Any answer but
 * the wanted one stops the benchmark.
 */
import http from 'node:http'
import { answerParent } from '../child.ts'
import { newMessage } from '../statements.ts'
import { percentile } from '../stats.ts'

export interface Load {
  /** Of the agent: where JSON-RPC is posted to. */
  url: string
  token: string | null
  connections: number
  seconds: number
}

interface Call {
  method: string
  params: () => unknown
  /** What the answer must hold. */
  wanted: string
  /** Over at the first event rather than at the end. */
  first?: boolean
}

const repeat = async ({ url, token, connections, seconds }: Load, call: Call) => {
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
        response.on('end', () => (text.includes(call.wanted) ? resolve() : reject(new Error(text))))
      })
      request.on('error', reject)
      request.end(body)
    })

  const times: number[] = []
  const started = performance.now()
  const until = started + seconds * 1000
  const loop = async (): Promise<void> => {
    for (let before = performance.now(); before < until; ) {
      await post()
      const now = performance.now()
      times.push(now - before)
      before = now
    }
  }
  try {
    await Promise.all(Array.from({ length: connections }, loop))
  } finally {
    agent.destroy()
  }
  return {
    perSecond: (1000 * times.length) / (performance.now() - started),
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
  }
}

/** `blocking`: whether the answer waits until the task is settled. */
const send = (load: Load & { blocking: boolean }) =>
  repeat(load, {
    method: 'SendMessage',
    params: () => ({
      message: newMessage(),
      configuration: { returnImmediately: !load.blocking },
    }),
    wanted: load.blocking ? 'TASK_STATE_COMPLETED' : 'TASK_STATE_SUBMITTED',
  })

/** Of one task, made before. */
const get = (load: Load & { id: string }) =>
  repeat(load, { method: 'GetTask', params: () => ({ id: load.id }), wanted: load.id })

const firstEvent = (load: Load) =>
  repeat(load, {
    method: 'SendStreamingMessage',
    params: () => ({ message: newMessage() }),
    wanted: 'TASK_STATE_SUBMITTED',
    first: true,
  })

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

answerParent({ send, get, firstEvent, make })
