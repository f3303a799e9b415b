/**
 * An agent: one claim loop that keeps its slots filled, the server's signals, and a stop that
 * loses nothing. It waits for a server that is away. A todo may be claimed by a call whose answer
 * was lost on the way; the agent looks for such strays and hands them back.
 */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { defined } from '../base/defined.ts'
import { backoffMs, sleep, withTimeout } from '../base/time.ts'
import {
  type Handler,
  type RunningAttempt,
  runAttempt,
  SETTLE_MS,
  type UnreadPolicy,
} from './attempt.ts'
import { serverAddress } from './connection/address.ts'
import { type Connection, connect, mayBeDone, retryDelayMs } from './connection/connection.ts'
import { readEvents } from './connection/event-stream.ts'
import { describe } from './described.ts'
import { watchLoop } from './lease/blocked.ts'
import { keyOf } from './lease/keeper.ts'
import { type AgentKeeper, openKeeper } from './lease/threaded.ts'
import { type AgentLog, stderrLog } from './log.ts'
import type { ClaimedTodo } from './wire.ts'

export const DEFAULT_GRACE_MS = 10_000
export const DEFAULT_MAX_BLOCKED_MS = 600_000
/** Signals are hints, so there is no hurry to ask a server again that has refused them. */
const SIGNALS_AGAIN_MS = 30_000

export interface AgentOptions {
  /** The server's base address, such as `http://127.0.0.1:4100`. */
  url: string
  token: string
  /** Default: every queue the token may work. */
  queues?: string[]
  /**
   * What the agent has and cannot leave unused, by the names of effects: todos that may not use all of it
   * are left to others. Default: it is handed any todo.
   */
  effects?: string[]
  /** How many todos at a time. Default: 1. */
  concurrency?: number
  /** 1..86400. Default: the endpoint's. Heartbeats go out every third of it. */
  leaseSeconds?: number
  /**
   * The longest a handler may show no progress (say, artifact, progress, a tool's ends), not
   * counting waits for answers. Past it `ctx.signal` fires with reason `silent`, and the todo is
   * failed with code `silence`, to be tried again. A tool that takes longer needs its
   * `heartbeatMs`. Default: none.
   */
  silenceMs?: number
  /**
   * Leases are renewed although a handler blocks the event loop, for so long: past it they are left to
   * lapse, since nobody can tell whether the handler ever ends. Default: 600 000.
   */
  maxBlockedMs?: number
  /** Its label in attempts and on the board. Default: host, process and a random part. */
  claimant?: string
  /** Default: `release`. */
  unread?: UnreadPolicy
  /** A pino logger fits. Default: warnings and errors to stderr. */
  log?: AgentLog
}

export interface Agent {
  /** Starts claiming. Does nothing while running. */
  start(): void
  /**
   * Claims no more, waits `graceMs` (default 10 000) for the handlers, then aborts them and hands
   * back what is still held. Never rejects.
   */
  stop(options?: { graceMs?: number }): Promise<void>
  readonly running: boolean
}

interface Life {
  stopping: AbortController
  ended: AbortController
  loop: Promise<void>
  /** Gives up what the agent shares with others of its process. */
  end(): void
}

/**
 * An agent that works its queues' todos with `handler`, once started. Throws TypeError where the address
 * is none.
 */
export const createAgent = (options: AgentOptions, handler: Handler): Agent => {
  const base = baseOf(options)
  const connection = connect({ url: `${base}/agent`, token: options.token })
  const { concurrency = 1, maxBlockedMs = DEFAULT_MAX_BLOCKED_MS } = options
  const log = options.log ?? stderrLog
  // Two containers may have the same host and process, and the label says whose the strays are.
  const label = `${hostname()}:${process.pid}/${randomBytes(4).toString('hex')}`
  const claimant = options.claimant ?? label
  const active = new Map<string, RunningAttempt>()
  let life: Life | null = null
  let stopped: Promise<void> | null = null

  const work = (keeper: AgentKeeper, todo: ClaimedTodo): void => {
    const attempt = runAttempt({
      connection,
      keeper,
      todo,
      handler,
      leaseSeconds: options.leaseSeconds,
      silenceMs: options.silenceMs,
      unread: options.unread ?? 'release',
      log,
    })
    active.set(todo.id, attempt)
    void attempt.done.then(() => {
      // A todo that was lost may have been claimed again, here, before its old handler ended.
      if (active.get(todo.id) === attempt) active.delete(todo.id)
    })
  }

  const releaseStrays = async (): Promise<void> => {
    // Other processes may share a label that was given, and these todos could be theirs.
    if (claimant !== label) return
    const held = new Set(active.keys())
    const strays = await findStrays(connection, claimant)
    for (const stray of strays.filter(({ id }) => !held.has(id))) {
      await releaseTodo(connection, stray, log)
    }
  }

  const loop = async (keeper: AgentKeeper, stopping: AbortSignal): Promise<void> => {
    const { queues, effects, leaseSeconds } = options
    let answerLost = false
    for (let failures = 0; !stopping.aborted; ) {
      const free = concurrency - active.size
      if (free <= 0) {
        await firstOf([...active.values()], stopping)
        continue
      }
      try {
        if (answerLost) await releaseStrays()
        answerLost = false
        const claim = defined({ limit: free, claimant, queues, effects, leaseSeconds })
        const todos = await keeper.claim(claim, stopping)
        if (failures > 0) log.info({ failures }, 'claiming again')
        failures = 0
        for (const todo of todos) {
          if (!stopping.aborted) work(keeper, todo)
          else await releaseTodo(connection, todo, log).finally(() => keeper.drop(keyOf(todo)))
        }
      } catch (error) {
        if (stopping.aborted) break
        failures += 1
        answerLost ||= mayBeDone(error)
        const waitMs = retryDelayMs(error, failures, true) ?? backoffMs(failures)
        log.warn({ error: describe(error), failures, waitMs }, 'could not claim')
        await sleep(waitMs, stopping).catch(() => {})
      }
    }
  }

  const hearSignals = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      try {
        // The claim itself waits for what becomes ready.
        const url = `${base}/agent/events?ready=none`
        for await (const event of readEvents({ url, token: options.token, signal })) {
          const about = event.data as { id?: string; reason?: string } | null
          // An older server sends `ready` all the same.
          if (event.name !== 'ready') active.get(about?.id ?? '')?.hear(event.name, about?.reason)
        }
      } catch (error) {
        log.warn({ error: describe(error) }, 'no signals from the server; going on without')
        await sleep(SIGNALS_AGAIN_MS, signal).catch(() => {})
      }
    }
  }

  const stop = async (graceMs: number): Promise<void> => {
    if (life === null) return
    const { stopping, ended, loop, end } = life
    const waiting = active.size < concurrency
    stopping.abort()
    await loop
    if (waiting) {
      // The claim that was cut off may have been answered at that very moment.
      await releaseStrays().catch((error: unknown) => {
        log.warn({ error: describe(error) }, 'could not look for todos claimed while stopping')
      })
    }
    // An answer may take days and finds the next holder, so a handler that waits gets no grace.
    for (const attempt of active.values()) if (attempt.asking) attempt.shutDown()
    await settled(active, graceMs)
    for (const attempt of active.values()) attempt.shutDown()
    await settled(active, SETTLE_MS)
    await Promise.all([...active.values()].map((attempt) => attempt.release()))
    active.clear()
    ended.abort()
    end()
    life = null
  }

  /** Which of several handlers it was is known only where the kit had just given it the word. */
  const warnOfBlock = (blockedMs: number, suspect: string | null): void => {
    if (active.size > 0)
      log.warn(blockOf([...active.values()], handler, blockedMs, suspect), BLOCKED)
  }

  return {
    start() {
      if (life !== null) return
      const stopping = new AbortController()
      const ended = new AbortController()
      const keeper = openKeeper({ url: `${base}/agent`, token: options.token, maxBlockedMs, log })
      const off = watchLoop({ onBlocked: warnOfBlock })
      const end = (): void => {
        off()
        keeper.close()
      }
      life = { stopping, ended, end, loop: loop(keeper, stopping.signal) }
      void hearSignals(ended.signal)
    },
    stop({ graceMs = DEFAULT_GRACE_MS } = {}) {
      stopped ??= stop(graceMs).finally(() => {
        stopped = null
      })
      return stopped
    },
    get running() {
      return life !== null && !life.stopping.signal.aborted
    },
  }
}

const baseOf = ({ url }: AgentOptions): string => {
  const base = serverAddress(url)
  if (base === null) throw new TypeError(`url must be an http or https address: ${url}`)
  return base
}

const BLOCKED = 'the event loop was blocked: a handler must not compute without a pause'

const blockOf = (
  attempts: readonly RunningAttempt[],
  handler: Handler,
  blockedMs: number,
  suspect: string | null,
): object => {
  const todos = attempts.map(({ id, queue }) => ({ id, queue }))
  const [only] = todos
  const todo = todos.length === 1 ? only?.id : todos.find(({ id }) => id === suspect)?.id
  return defined({ blockedMs, todo, todos, handler: handler.name || undefined })
}

type Stray = Pick<ClaimedTodo, 'id' | 'fence'>

/** The todos claimed under this label, among the newest hundred that are claimed. */
const findStrays = async (connection: Connection, claimant: string): Promise<Stray[]> => {
  const { todos } = await connection.call<{ todos: (Stray & { claimant?: string | null })[] }>(
    'todos.list',
    { state: 'claimed', pageSize: 100 },
    { repeatable: true, retryForMs: 2000, timeoutMs: 5000 },
  )
  return todos.filter((todo) => todo.claimant === claimant && todo.fence !== undefined)
}

const releaseTodo = async (connection: Connection, stray: Stray, log: AgentLog): Promise<void> => {
  const { id, fence } = stray
  const params = { id, fence, summary: 'claimed while the agent was stopping' }
  await connection
    .call('todos.release', params, { repeatable: true, retryForMs: 5000 })
    .catch((error: unknown) => {
      log.warn({ todo: id, error: describe(error) }, 'could not hand back; left to its lease')
    })
}

/** Waits until an attempt has ended or the signal has fired; leaves no listener on the signal. */
const firstOf = (attempts: RunningAttempt[], signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      signal.removeEventListener('abort', end)
      resolve()
    }
    if (signal.aborted) return resolve()
    signal.addEventListener('abort', end, { once: true })
    for (const { done } of attempts) void done.then(end)
  })

/** Waits until every attempt has ended, but no longer than `ms`. */
const settled = async (active: Map<string, RunningAttempt>, ms: number): Promise<void> => {
  const all = () => Promise.all([...active.values()].map(({ done }) => done))
  await withTimeout(ms, 'the handlers', all).catch(() => {})
}
