/**
 * Subscribers of the board's feed, all in one process: when each saw each todo's first transition.
 * The clock is the machine's monotonic one, which the writer's process shares. Of very many, only
 * every nth looks at what it reads, since the looking would take the server's share of the machine.
 */
import http from 'node:http'
import net from 'node:net'
import { answerParent } from '../child.ts'
import { percentile } from '../stats.ts'

let connections: (http.ClientRequest | net.Socket)[] = []
let seen = new Map<string, bigint[]>()
/** Subscribers that look at what they read. */
let looking = 0

/** Calls back with each todo id of a transition in the stream. */
const watch = (response: http.IncomingMessage): void => {
  let rest = ''
  response.setEncoding('utf8')
  response.on('data', (chunk: string) => {
    const at = process.hrtime.bigint()
    const frames = (rest + chunk).split('\n\n')
    rest = frames.pop() ?? ''
    for (const frame of frames) {
      if (!frame.startsWith('event: transition')) continue
      const id = /"id":"([^"]+)"/.exec(frame)?.[1] ?? ''
      const times = seen.get(id) ?? []
      seen.set(id, times)
      times.push(at)
    }
  })
  response.on('error', () => {})
}

interface Open {
  url: string
  token: string
  count: number
  /** One of how many looks. */
  every?: number
}

/** Into this goes what nobody looks at. */
const ANYTHING = Buffer.alloc(64 * 1024)

/** A subscriber that reads and does not look, at as little cost to the machine as there is. */
const drain = (url: string, token: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    let isFirst = true
    const callback = (): boolean => {
      if (isFirst) {
        isFirst = false
        const isOk = ANYTHING.toString('latin1', 0, 12) === 'HTTP/1.1 200'
        isOk ? resolve() : reject(new Error(ANYTHING.toString('latin1', 0, 200)))
      }
      return true
    }
    const onread = { buffer: ANYTHING, callback }
    const socket = net.connect({ host: hostname, port: Number(port), onread })
    const head = `GET /board/events HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${token}`
    socket.write(`${head}\r\n\r\n`)
    socket.on('error', reject)
    connections.push(socket)
  })

const open = async ({ url, token, count, every = 1 }: Open) => {
  seen = new Map()
  looking = 0
  let made = 0
  const look = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const headers = { Authorization: `Bearer ${token}` }
      const request = http.get(`${url}/board/events`, { agent: false, headers }, (response) => {
        if (response.statusCode !== 200) return reject(new Error(`HTTP ${response.statusCode}`))
        looking += 1
        watch(response)
        // The first frame tells the reader its reconnection delay: from here on it is subscribed.
        response.once('data', () => resolve())
      })
      request.on('error', reject)
      connections.push(request)
    })
  const one = (): Promise<void> => {
    made += 1
    return made % every === 0 ? look() : drain(url, token)
  }
  for (let left = count; left > 0; left -= 50) {
    await Promise.all(Array.from({ length: Math.min(50, left) }, one))
  }
}

interface Commit {
  id: string
  at: bigint
}

/** What became of these commits; waits a while for the last of them. */
const latencies = async ({ commits }: { commits: Commit[] }) => {
  const all = (): boolean => commits.every(({ id }) => seen.get(id)?.length === looking)
  for (let waited = 0; !all() && waited < 5000; waited += 50) {
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const times = commits.flatMap(({ id, at }) =>
    (seen.get(id) ?? []).map((then) => Number(then - at) / 1e6),
  )
  return {
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
    deliveredPct: (100 * times.length) / (commits.length * looking),
  }
}

const close = async (): Promise<void> => {
  for (const connection of connections) connection.on('error', () => {}).destroy()
  connections = []
}

answerParent({ open, latencies, close })
