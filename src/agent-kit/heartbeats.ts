/**
 * Holding one todo: its fence, its heartbeats, and the moment it is no longer ours. Whatever says
 * so first (a refused heartbeat, a refused verb, a lease that must have lapsed while the server
 * could not be reached) aborts the one signal, with the reason; after that nothing is reported.
 */
import { defined } from '../base/defined.ts'
import { sleep } from '../base/time.ts'
import type { CallOptions, Connection } from './connection.ts'
import {
  type AbortReason,
  AgentApiError,
  AttemptAborted,
  AttemptEnded,
  meansLost,
} from './errors.ts'
import { watchSilence } from './timeouts.ts'

/** The shortest default lease an endpoint can have: beats that keep it keep any other. */
const SHORTEST_DEFAULT_LEASE_SECONDS = 60

/** The calls that show that the work moves; the server stamps progress for the same ones. */
const PROGRESS = new Set(['todos.progress', 'todos.say', 'todos.artifact', 'todos.interrupt'])

interface Beat {
  state: string
  leaseExpiresAt: string
  heldUntil?: string
  unread: number
}

export interface HoldOptions {
  connection: Connection
  id: string
  fence: string
  /** The lease to ask for; undefined: the endpoint's default, which is not known here. */
  leaseSeconds: number | undefined
  /** How long without progress until it aborts with `silent`; undefined: never. */
  silenceMs: number | undefined
  /** Called with each heartbeat's answer. */
  onBeat: (beat: Beat) => void
}

export interface Hold {
  readonly id: string
  readonly signal: AbortSignal
  /** How the todo was ended by this holder, if it was. */
  readonly endedBy: string | null
  readonly fence: string
  /** True while a question is open. */
  readonly asking: boolean
  /**
   * A verb of the holder; `id` and `fence` are filled in. Rejects with AttemptAborted once the
   * signal has fired, with AttemptEnded once the todo was ended, else as Connection.call does.
   */
  verb<Result>(method: string, params: object, options?: CallOptions): Promise<Result>
  /**
   * A verb after which the todo is no longer held. It works after `shutdown`, too; after `silent`
   * only `todos.fail` does.
   */
  end<Result>(method: string, params: object): Promise<Result>
  /** Asks the server now whether the todo is still ours. */
  beat(): Promise<void>
  abort(reason: AbortReason): void
  /** Stops the heartbeats; what is still held is left to its lease. */
  leave(): void
  /** A hint that the todo was canceled; the server is asked before anything is believed. */
  hearCanceled(because?: string): Promise<void>
  /** A question is open: the lease stands still, and beats extend the wait by `holdSeconds`. */
  waiting(fence: string, holdSeconds: number | undefined): void
  /** The question was answered, and the answer brought a fresh lease. */
  working(): void
}

interface LeaseParts {
  leaseMs: number
  /** Ends the heartbeats. */
  signal: AbortSignal
  renew(options: CallOptions): Promise<void>
  /** `lapsed`: the lease must have run out by now. */
  onFailure(error: unknown, lapsed: boolean): void
}

/** Renews a lease every third of its length. */
const keepLease = ({ leaseMs, signal, renew, onFailure }: LeaseParts) => {
  const everyMs = leaseMs / 3
  const options = {
    signal,
    repeatable: true,
    retryForMs: everyMs,
    timeoutMs: Math.max(1000, everyMs),
  }
  /** The newest moment at which the lease is known to have been ours for its full length. */
  let renewedAt = performance.now()

  const beat = async (): Promise<void> => {
    const sentAt = performance.now()
    try {
      await renew(options)
      renewedAt = sentAt
    } catch (error) {
      if (!signal.aborted) onFailure(error, performance.now() - renewedAt > leaseMs)
    }
  }

  const beats = async (): Promise<void> => {
    for (;;) {
      // At moments that all holds of a process have in common, so that their beats share a request.
      await sleep(everyMs - (performance.now() % everyMs), signal).catch(() => {})
      if (signal.aborted) return
      await beat()
    }
  }
  void beats()

  return {
    beat,
    renewed: (): void => {
      renewedAt = performance.now()
    },
  }
}

export const holdTodo = (options: HoldOptions): Hold => {
  const { connection, id, fence, leaseSeconds, silenceMs, onBeat } = options
  const controller = new AbortController()
  const beating = new AbortController()
  const leaseMs = (leaseSeconds ?? SHORTEST_DEFAULT_LEASE_SECONDS) * 1000
  let current = fence
  let endedBy: string | null = null
  let hintedCanceled = false
  let canceledBecause: string | undefined
  let wait: { holdSeconds: number | undefined } | null = null

  const abort = (reason: AbortReason): void => {
    silence.end()
    // The todo is still ours after these two, until its end is reported.
    if (reason !== 'shutdown' && reason !== 'silent') beating.abort()
    if (controller.signal.aborted) return
    const because = reason === 'canceled' ? canceledBecause : undefined
    controller.abort(new AttemptAborted(reason, because))
  }

  const silence = watchSilence(silenceMs, () => abort('silent'))

  const checkRefusal = (error: unknown): void => {
    // A beat that crosses an ending verb is refused as well; that verb knows better.
    if (endedBy !== null || !meansLost(error)) return
    abort(hintedCanceled || error.data.state === 'canceled' ? 'canceled' : 'lease_lost')
  }

  const lease = keepLease({
    leaseMs,
    signal: beating.signal,
    async renew(bounds) {
      const params = defined({ id, fence: current, leaseSeconds, holdSeconds: wait?.holdSeconds })
      onBeat(await connection.call<Beat>('todos.heartbeat', params, bounds))
    },
    onFailure(error, lapsed) {
      checkRefusal(error)
      // Nobody can tell us any more, but another holder may be at work by now. Where we did not
      // choose the lease we do not know its length, and the fence alone has to protect.
      if (lapsed && wait === null && leaseSeconds !== undefined) abort('lease_lost')
    },
  })

  const verb = async <Result>(
    method: string,
    params: object,
    options: CallOptions = {},
  ): Promise<Result> => {
    controller.signal.throwIfAborted()
    if (endedBy !== null) throw new AttemptEnded(endedBy)
    const moves = PROGRESS.has(method)
    if (moves) silence.heard()
    try {
      const full = { id, fence: current, ...params }
      return await connection.call<Result>(method, full, { signal: controller.signal, ...options })
    } catch (error) {
      checkRefusal(error)
      controller.signal.throwIfAborted()
      throw error
    } finally {
      // While the server is slow to answer, it is not the handler that is silent.
      if (moves) silence.heard()
    }
  }

  const end = async <Result>(method: string, params: object): Promise<Result> => {
    const reason: unknown = controller.signal.reason
    if (reason instanceof AttemptAborted && !mayEnd(reason.reason, method)) throw reason
    if (endedBy !== null) throw new AttemptEnded(endedBy)
    endedBy = method
    silence.end()
    try {
      // The fence makes repeating harmless, and finished work is worth a try for a whole lease.
      const full = { id, fence: current, ...params }
      const bounds = { repeatable: true, retryForMs: leaseMs }
      const result = await connection.call<Result>(method, full, bounds)
      beating.abort()
      return result
    } catch (error) {
      // Refused, but still ours: something else may end it. Otherwise nothing can any more.
      if (error instanceof AgentApiError && !meansLost(error)) endedBy = null
      else beating.abort()
      throw error
    }
  }

  return {
    id,
    signal: controller.signal,
    get endedBy() {
      return endedBy
    },
    get fence() {
      return current
    },
    get asking() {
      return wait !== null
    },
    verb,
    end,
    beat: lease.beat,
    abort,
    leave: () => {
      silence.end()
      beating.abort()
    },
    hearCanceled(because) {
      hintedCanceled = true
      canceledBecause = because
      return lease.beat()
    },
    waiting(next, holdSeconds) {
      current = next
      wait = { holdSeconds }
      silence.pause()
    },
    working() {
      wait = null
      lease.renewed()
      silence.resume()
    },
  }
}

const mayEnd = (aborted: AbortReason, method: string): boolean =>
  aborted === 'shutdown' || (aborted === 'silent' && method === 'todos.fail')
