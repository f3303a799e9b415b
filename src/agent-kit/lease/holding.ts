/**
 * Holding one todo: its fence, its heartbeats, and the moment it is no longer ours. Whatever says
 * so first (a refused heartbeat, a refused verb, a lease that must have lapsed while the server
 * could not be reached) aborts the one signal, with the reason; after that nothing is reported.
 */
import type { CallOptions, Connection } from '../connection/connection.ts'
import {
  type AbortReason,
  AttemptAborted,
  AttemptEnded,
  ConnectionError,
  meansLost,
} from '../errors.ts'
import { watchSilence } from '../timeouts.ts'
import { enter } from './blocked.ts'
import { type Beat, keyOf, leaseMsOf } from './keeper.ts'
import type { AgentKeeper } from './threaded.ts'

/** The calls that show that the work moves; the server stamps progress for the same ones. */
const PROGRESS = new Set([
  'todos.progress',
  'todos.say',
  'todos.artifact',
  'todos.discardArtifacts',
  'todos.interrupt',
  'todos.spend',
])

export interface HoldOptions {
  connection: Connection
  /** Claimed the todo, and so holds it. */
  keeper: AgentKeeper
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
  abort(reason: AbortReason): void
  /** Stops the heartbeats; what is still held is left to its lease. */
  leave(): void
  /** A hint that the todo was canceled; the server is asked before anything is believed. */
  hearCanceled(because?: string): void
  /** A question is open: beats say that its asker lives, and extend the wait by `holdSeconds`. */
  waiting(fence: string, holdSeconds: number | undefined): void
  /** The question was answered, and the answer brought a fresh lease. */
  working(): void
}

export const holdTodo = (options: HoldOptions): Hold => {
  const { connection, keeper, id, fence, leaseSeconds, silenceMs, onBeat } = options
  const controller = new AbortController()
  const key = keyOf({ id, fence })
  const leaseMs = leaseMsOf(leaseSeconds)
  let current = fence
  let endedBy: string | null = null
  let hintedCanceled = false
  let canceledBecause: string | undefined
  let wait: { holdSeconds: number | undefined } | null = null

  const abort = (reason: AbortReason): void => {
    silence.end()
    // The todo is still ours after these two, until its end is reported.
    if (reason !== 'shutdown' && reason !== 'silent') keeper.drop(key)
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

  keeper.on(key, (outcome) => {
    if ('beat' in outcome) return onBeat(outcome.beat)
    checkRefusal(outcome.error)
    // Nobody can tell us any more, but another holder may be at work by now. Where we did not choose
    // the lease we do not know its length, and the fence alone has to protect.
    if (outcome.lapsed && wait === null && leaseSeconds !== undefined) abort('lease_lost')
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
      enter(id)
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
      keeper.drop(key)
      return result
    } catch (error) {
      // Refused, or never sent, but still ours: something else may end it. Otherwise nothing can.
      if (!(error instanceof ConnectionError) && !meansLost(error)) endedBy = null
      else keeper.drop(key)
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
    abort,
    leave: () => {
      silence.end()
      keeper.drop(key)
    },
    hearCanceled(because) {
      hintedCanceled = true
      canceledBecause = because
      keeper.beat(key)
    },
    waiting(next, holdSeconds) {
      current = next
      wait = { holdSeconds }
      keeper.change(key, { fence: next, holdSeconds }, false)
      // From the first beat of a wait on, its end is noticed if this process dies.
      keeper.beat(key)
      silence.pause()
    },
    working() {
      wait = null
      keeper.change(key, { fence: current, holdSeconds: undefined }, true)
      // Until the server hears that somebody has the answer, the lease it brought may be a short one.
      keeper.beat(key)
      silence.resume()
    },
  }
}

const mayEnd = (aborted: AbortReason, method: string): boolean =>
  aborted === 'shutdown' || (aborted === 'silent' && method === 'todos.fail')
