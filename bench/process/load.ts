/**
 * The load generator, in a process of its own: N keep-alive connections in a closed loop, each
 * sending a SendMessage as soon as the one before is answered. Measures answers per second and
 * the time from a request to the end of its answer. Any answer but a task stops the benchmark.
 */
import http from 'node:http'
import { answerParent } from '../child.ts'
import { newMessage, QUEUE } from '../statements.ts'
import { percentile } from '../stats.ts'

export interface Load {
  url: string
  token: string
  connections: number
  seconds: number
  /** Whether the answer waits until the task is settled. */
  blocking: boolean
}

const bodyOf = (blocking: boolean): string =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'SendMessage',
    params: { message: newMessage(), configuration: { returnImmediately: !blocking } },
  })

const send = async ({ url, token, connections, seconds, blocking }: Load) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: connections })
  const { hostname, port } = new URL(url)
  const wanted = blocking ? 'TASK_STATE_COMPLETED' : 'TASK_STATE_SUBMITTED'

  const post = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const body = bodyOf(blocking)
      const headers = {
        Authorization: `Bearer ${token}`,
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(body),
        'A2A-Version': '1.0',
      }
      const options = { hostname, port, method: 'POST', path: `/a2a/${QUEUE}/`, agent, headers }
      const request = http.request(options, (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          text += chunk
        })
        response.on('end', () => (text.includes(wanted) ? resolve() : reject(new Error(text))))
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

answerParent({ send })
