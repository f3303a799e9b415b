/**
 * Claims, and renews the leases of what was claimed. It runs in a thread of its own (thread.ts), so that
 * no handler can keep it from its work; where there is no thread, beside the handlers.
 */
import { defined } from '../../base/defined.ts'
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
const FIRST_BEATS_EVERY_MS = 100

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
  /** When the next heartbeat is due. */
  beatAt: number
  /** The heartbeat of that moment is under way; the next one waits for its end. */
  isBeating: boolean
  /** Cuts off what is under way once the lease is dropped. Made with the first heartbeat. */
  over: AbortController | null
  /** The newest moment at which the lease is known to have been ours for its full length. */
  renewedAt: number
}

/** The next moment that all leases of the process have in common, so that their beats share a request. */
const nextMoment = (after: number, everyMs: number): number =>
  (Math.floor(after / everyMs) + 1) * everyMs

const firstBeatAt = (leaseSeconds: number | undefined): number => {
  const now = performance.now()
  const everyMs = leaseMsOf(leaseSeconds) / 3
  return everyMs > FIRST_BEAT_MS
    ? nextMoment(now + FIRST_BEAT_MS, FIRST_BEATS_EVERY_MS)
    : nextMoment(now, everyMs)
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

  const isDropped = (key: string, lease: Kept): boolean => leases.get(key) !== lease

  const renew = async (key: string, lease: Kept): Promise<void> => {
    const leaseMs = leaseMsOf(lease.leaseSeconds)
    const { id, fence, leaseSeconds, holdSeconds } = lease
    lease.over ??= new AbortController()
    const sentAt = performance.now()
    try {
      const beat = await connection.call<Beat>(
        'todos.heartbeat',
        defined({ id, fence, leaseSeconds, holdSeconds }),
        {
          signal: lease.over.signal,
          repeatable: true,
          retryForMs: leaseMs / 3,
          timeoutMs: Math.max(1000, leaseMs / 3),
        },
      )
      lease.renewedAt = Math.max(lease.renewedAt, sentAt)
      if (!isDropped(key, lease)) report({ key, beat })
    } catch (error) {
      const lapsed = performance.now() - lease.renewedAt > leaseMs
      if (!isDropped(key, lease)) report({ key, error, lapsed })
    }
  }

  /** One timer for all leases: most todos end before their first beat is due, and then cost none. */
  let timer: NodeJS.Timeout | undefined
  let wakesAt = Number.POSITIVE_INFINITY

  const wakeAt = (moment: number): void => {
    if (moment >= wakesAt) return
    clearTimeout(timer)
    wakesAt = moment
    timer = setTimeout(renewDue, moment - performance.now())
  }

  const renewDue = (): void => {
    wakesAt = Number.POSITIVE_INFINITY
    const now = performance.now()
    const renews = mayRenew()
    let next = wakesAt
    for (const [key, lease] of leases) {
      if (lease.beatAt <= now) {
        lease.beatAt = nextMoment(now, leaseMsOf(lease.leaseSeconds) / 3)
        if (renews && !lease.isBeating) {
          lease.isBeating = true
          void renew(key, lease).finally(() => {
            lease.isBeating = false
          })
        }
      }
      next = Math.min(next, lease.beatAt)
    }
    wakeAt(next)
  }

  const hold = (lease: Lease, key = keyOf(lease)): void => {
    leases.get(key)?.over?.abort()
    const beatAt = firstBeatAt(lease.leaseSeconds)
    const renewedAt = performance.now()
    leases.set(key, { ...lease, beatAt, isBeating: false, over: null, renewedAt })
    wakeAt(beatAt)
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
      const lease = leases.get(key)
      leases.delete(key)
      lease?.over?.abort()
    },
    close() {
      clearTimeout(timer)
      const all = [...leases.values()]
      leases.clear()
      for (const { over } of all) over?.abort()
    },
  }
}
