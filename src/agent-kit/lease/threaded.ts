/**
 * The keeper as an agent sees it: orders to the thread that all agents of the process share, and what
 * comes back. The thread begins with the first agent, and ends soon after the last. Where it cannot run
 * (its file is not there, as in a bundle; it has broken) each agent claims and renews for itself, beside
 * its handlers.
 */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { parseExact } from '../../base/exact-json.ts'
import { connect } from '../connection/connection.ts'
import { describe } from '../described.ts'
import { ConnectionError } from '../errors.ts'
import type { AgentLog } from '../log.ts'
import type { ClaimedTodo } from '../wire.ts'
import { watchLoop } from './blocked.ts'
import { type Beat, createKeeper, type Keeper, keyOf, type Lease, type Report } from './keeper.ts'
import { fromPlain, type Order, threadClock, type Word } from './messages.ts'

/** An agent that is stopped and started again finds the thread still there. */
const LINGER_MS = 2000

type Outcome = { beat: Beat } | { error: unknown; lapsed: boolean }

export interface AgentKeeper extends Keeper {
  /** What comes of the renewals of this lease, until it is dropped. */
  on(key: string, listener: (outcome: Outcome) => void): void
}

interface KeeperOptions {
  url: string
  token: string
  /** How long a standstill of the handlers' thread is waited for. */
  maxBlockedMs: number
  log: AgentLog
}

interface Client {
  hear(word: Word): void
  /** The thread is gone; had it ever begun? */
  alone(error: unknown, begun: boolean): void
}

interface Thread {
  order(order: Order): void
  /** An order that may wait for the next one, or for the end of this turn of the event loop. */
  orderSoon(order: Order): void
  clients: Map<number, Client>
  /** Whether the process lives for as long as the thread does. */
  keepAlive(needed: boolean): void
  end(): void
}

let current: Thread | null = null
let lastAgent = 0

const startWorker = (workerData: object): Worker => {
  if (!import.meta.url.endsWith('.ts')) {
    return new Worker(new URL('./thread.js', import.meta.url), { workerData })
  }
  // From the sources: Node runs no TypeScript by itself, and a thread does not inherit who does.
  const file = new URL('./thread.ts', import.meta.url)
  const tsx = pathToFileURL(createRequire(file).resolve('tsx/package.json'))
  const code = `import('${new URL('./dist/esm/api/index.mjs', tsx)}')
    .then(({ register }) => { register(); return import('${file}') })`
  return new Worker(code, { workerData, eval: true })
}

const startThread = (): Thread => {
  const cameRoundAt = new Float64Array(new SharedArrayBuffer(8))
  const come = (): void => {
    cameRoundAt[0] = threadClock()
  }
  come()
  const worker = startWorker({ cameRoundAt })
  const clients = new Map<number, Client>()
  const off = watchLoop({ onTurn: come })
  let over = false
  let ready = false
  let orders: Order[] = []
  let flushing: NodeJS.Immediate | undefined
  /** A message wakes the other thread, which costs more than what it says: so there is one for many orders. */
  const flush = (): void => {
    clearImmediate(flushing)
    flushing = undefined
    worker.postMessage(orders)
    orders = []
  }
  const thread: Thread = {
    clients,
    order(order) {
      orders.push(order)
      flush()
    },
    orderSoon(order) {
      orders.push(order)
      flushing ??= setImmediate(flush)
    },
    keepAlive: (needed) => (needed ? worker.ref() : worker.unref()),
    end() {
      over = true
      off()
      if (current === thread) current = null
      void worker.terminate()
    },
  }
  const broke = (error: unknown): void => {
    if (over) return
    thread.end()
    for (const client of clients.values()) client.alone(error, ready)
    clients.clear()
  }
  worker.on('message', (word: Word | 'ready') => {
    if (word === 'ready') ready = true
    else clients.get(word.agent)?.hear(word)
  })
  worker.on('error', broke)
  worker.on('exit', (code) => broke(new Error(`the thread ended with code ${code}`)))
  return thread
}

const join = (agent: number, client: Client): Thread => {
  current ??= startThread()
  current.clients.set(agent, client)
  current.keepAlive(true)
  return current
}

const leave = (thread: Thread, agent: number): void => {
  thread.order({ agent, op: 'close' })
  thread.clients.delete(agent)
  if (thread.clients.size > 0) return
  thread.keepAlive(false)
  setTimeout(() => {
    if (thread.clients.size === 0) thread.end()
  }, LINGER_MS).unref()
}

interface PendingClaim {
  resolve(todos: ClaimedTodo[]): void
  reject(error: unknown): void
}

export const openKeeper = (options: KeeperOptions): AgentKeeper => {
  const { url, token, maxBlockedMs, log } = options
  lastAgent += 1
  const agent = lastAgent
  const listeners = new Map<string, (outcome: Outcome) => void>()
  /** What is held, for whoever takes over from the thread. */
  const leases = new Map<string, Lease>()
  const claims = new Map<number, PendingClaim>()
  let lastCall = 0
  let alone: ReturnType<typeof createKeeper> | null = null

  const report = ({ key, ...outcome }: Report): void => listeners.get(key)?.(outcome)

  const goOnAlone = (error: unknown, begun: boolean): void => {
    log.warn(
      { error: describe(error) },
      'no thread for the leases: they are renewed beside the handlers, which must not block',
    )
    alone = createKeeper({ connection: connect({ url, token }), report, mayRenew: () => true })
    for (const [key, lease] of leases) alone.hold(lease, key)
    // What it claimed may have been granted.
    const lost = new ConnectionError('The thread that claimed has ended', begun, error)
    for (const { reject } of claims.values()) reject(lost)
    claims.clear()
  }

  const hear = (word: Word): void => {
    switch (word.op) {
      case 'renewed':
        report({ key: word.key, beat: word.beat })
        break
      case 'failed':
        report({ key: word.key, error: fromPlain(word.error), lapsed: word.lapsed })
        break
      case 'refused':
        claims.get(word.call)?.reject(fromPlain(word.error))
        break
      case 'claimed':
        claims.get(word.call)?.resolve(parseExact(word.todos) as ClaimedTodo[])
    }
  }

  let thread: Thread | null = null
  try {
    thread = join(agent, { hear, alone: goOnAlone })
    thread.order({ agent, op: 'open', url, token, maxBlockedMs })
  } catch (error) {
    goOnAlone(error, false)
  }
  const order = (order: Order): void => thread?.order(order)
  const orderSoon = (order: Order): void => thread?.orderSoon(order)

  const claimInThread: Keeper['claim'] = (claim, signal) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted()
      lastCall += 1
      const call = lastCall
      const done = (settle: () => void): void => {
        claims.delete(call)
        signal.removeEventListener('abort', abort)
        settle()
      }
      // The thread says when the call has ended: until then it can bring something yet.
      const abort = (): void => order({ agent, op: 'abort', call })
      signal.addEventListener('abort', abort, { once: true })
      claims.set(call, {
        resolve: (todos) => done(() => resolve(todos)),
        reject: (error) => done(() => reject(error)),
      })
      order({ agent, op: 'claim', call, claim })
    })

  return {
    async claim(claim, signal) {
      const todos = await (alone ? alone.claim(claim, signal) : claimInThread(claim, signal))
      for (const { id, fence } of todos) {
        const lease = { id, fence, leaseSeconds: claim.leaseSeconds }
        leases.set(keyOf(lease), lease)
      }
      return todos
    },
    on: (key, listener) => void listeners.set(key, listener),
    change(key, change, renewed) {
      const lease = leases.get(key)
      if (lease) Object.assign(lease, change)
      if (alone) alone.change(key, change, renewed)
      else order({ agent, op: 'change', key, change, renewed })
    },
    beat(key) {
      if (alone) alone.beat(key)
      else order({ agent, op: 'beat', key })
    },
    drop(key) {
      listeners.delete(key)
      if (!leases.delete(key)) return
      if (alone) alone.drop(key)
      else orderSoon({ agent, op: 'drop', key })
    },
    close() {
      if (alone) alone.close()
      else if (thread) leave(thread, agent)
    },
  }
}
