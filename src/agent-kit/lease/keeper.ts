/**
 * Claims, and renews the leases of what was claimed. It runs in a thread of its own (thread.ts), so that
 * no handler can keep it from its work; where there is no thread, beside the handlers.
 */
import { defined } from '../../base/defined.ts'
import { sleep } from '../../base/time.ts'
import type { Connection } from '../connection/connection.ts'
import type { ClaimedTodo } from '../wire.ts'

/** The shortest default lease an endpoint can have: beats that keep it keep any other. */
const SHORTEST_DEFAULT_LEASE_SECONDS = 60
const CLAIM_WAIT_MS = 25_000

/**
 * The first beat comes soon: it tells the server that the work has begun, so that a process that dies
 * from then on is not taken for one that never had its claim. What is done by then needs none.
 */
const FIRST_BEAT_MS = 1000

/** What a heartbeat brings back. */
export interface Beat {
  state: string
  leaseExpiresAt: string
  heldUntil?: string
  unread: number
}

/** What comes of the renewals of the lease with this key. `lapsed`: it must have run out by now. */
export type Report = { key: string; beat: Beat } | { key: string; error: unknown; lapsed: boolean }

export interface Claim {
  limit: number
  claimant: string
  queues?: string[]
  effects?: string[]
  /** The lease to ask for; absent: the endpoint's default, which is not known here. */
  leaseSeconds?: number
}

export interface Lease {
  id: string
  fence: string
  leaseSeconds: number | undefined
  /** How far a heartbeat moves the end of a wait. */
  holdSeconds?: number | undefined
}

export interface Keeper {
  /** What it brings is held, under {@link keyOf}, until it is dropped. */
  claim(claim: Claim, signal: AbortSignal): Promise<ClaimedTodo[]>
  /** Another fence or wait; `renewed`: the server has just granted the whole lease anew. */
  change(key: string, change: Pick<Lease, 'fence' | 'holdSeconds'>, renewed: boolean): void
  /** Renews now. */
  beat(key: string): void
  drop(key: string): void
  close(): void
}

export const keyOf = ({ id, fence }: { id: string; fence: string }): string => `${id}/${fence}`

/** How long a lease surely is, as far as this process knows. */
export const leaseMsOf = (leaseSeconds: number | undefined): number =>
  (leaseSeconds ?? SHORTEST_DEFAULT_LEASE_SECONDS) * 1000

export interface KeeperParts {
  connection: Connection
  report(report: Report): void
  /** False once the handlers have been at a standstill for too long to be waited for. */
  mayRenew(): boolean
}

interface Kept extends Lease {
  over: AbortController
  /** The newest moment at which the lease is known to have been ours for its full length. */
  renewedAt: number
}

export const createKeeper = ({
  connection,
  report,
  mayRenew,
}: KeeperParts): Keeper & {
  /** Takes over leases that another has held until now. */
  hold(lease: Lease, key?: string): void
} => {
  const leases = new Map<string, Kept>()

  const renew = async (key: string, lease: Kept): Promise<void> => {
    const leaseMs = leaseMsOf(lease.leaseSeconds)
    const { id, fence, leaseSeconds, holdSeconds, over } = lease
    const sentAt = performance.now()
    try {
      const beat = await connection.call<Beat>(
        'todos.heartbeat',
        defined({ id, fence, leaseSeconds, holdSeconds }),
        {
          signal: over.signal,
          repeatable: true,
          retryForMs: leaseMs / 3,
          timeoutMs: Math.max(1000, leaseMs / 3),
        },
      )
      lease.renewedAt = Math.max(lease.renewedAt, sentAt)
      if (!over.signal.aborted) report({ key, beat })
    } catch (error) {
      const lapsed = performance.now() - lease.renewedAt > leaseMs
      if (!over.signal.aborted) report({ key, error, lapsed })
    }
  }

  const renewals = async (key: string, lease: Kept): Promise<void> => {
    const everyMs = leaseMsOf(lease.leaseSeconds) / 3
    const { signal } = lease.over
    // At moments that all leases of a process have in common, so that their beats share a request.
    const untilNext = (): number => everyMs - (performance.now() % everyMs)
    let pauseMs = everyMs > FIRST_BEAT_MS ? FIRST_BEAT_MS : untilNext()
    for (; ; pauseMs = untilNext()) {
      await sleep(pauseMs, signal).catch(() => {})
      if (signal.aborted) return
      if (mayRenew()) await renew(key, lease)
    }
  }

  const hold = (lease: Lease, key = keyOf(lease)): void => {
    const kept = { ...lease, over: new AbortController(), renewedAt: performance.now() }
    leases.get(key)?.over.abort()
    leases.set(key, kept)
    void renewals(key, kept)
  }

  return {
    hold,
    async claim(claim, signal) {
      const params = { ...claim, waitMs: CLAIM_WAIT_MS }
      const { todos } = await connection.call<{ todos: ClaimedTodo[] }>('todos.claim', params, {
        signal,
        retryForMs: 0,
        timeoutMs: CLAIM_WAIT_MS + 15_000,
      })
      for (const { id, fence } of todos) hold({ id, fence, leaseSeconds: claim.leaseSeconds })
      return todos
    },
    change(key, change, renewed) {
      const lease = leases.get(key)
      if (!lease) return
      Object.assign(lease, change)
      if (renewed) lease.renewedAt = performance.now()
    },
    beat(key) {
      const lease = leases.get(key)
      if (lease) void renew(key, lease)
    },
    drop(key) {
      leases.get(key)?.over.abort()
      leases.delete(key)
    },
    close() {
      for (const { over } of leases.values()) over.abort()
      leases.clear()
    },
  }
}
