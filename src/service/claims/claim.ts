/**
 * Claim or wait, for one agent: within the limits of queues and endpoint, in turn over its queues,
 * and handed back where the claimant has hung up meanwhile.
 */

import type { Metrics } from '../../base/metrics.ts'
import { type Caller, type Endpoint, endpointWith } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Attempt, Child, StoredMessage, TodoView } from '../../domain/todo.ts'
import type { Change } from '../../store/move/change.ts'
import { type Claimed, type ClaimedRow, readClaimed } from '../../store/move/claim.ts'
import { freeInQueue, freeOfEndpoint } from '../../store/move/concurrency.ts'
import type { Database } from '../../store/postgres/database.ts'
import { createBatcher } from '../batcher.ts'
import type { Registry } from '../registry.ts'
import { truncate } from '../tasks/text.ts'
import type { AgentService } from './agent.ts'
import type { ClaimCooldown } from './cooldown.ts'
import type { Holder } from './holder.ts'
import type { Waiters } from './waiters.ts'

export interface Claim {
  /** Narrowed to the endpoint's queues; absent: all of them. */
  queues?: readonly string[]
  limit: number
  waitMs: number
  leaseSeconds?: number
  claimant?: string
}

export interface ClaimedTodo {
  view: TodoView
  unread: StoredMessage[]
  /** Newest first, at most 5, the open one not among them. */
  priorAttempts: Attempt[]
  /** What it forked, in order. */
  children: Child[]
}

export interface ClaimingParts {
  database: Database
  registry: Registry
  holder: Holder
  waiters: Waiters
  cooldown: ClaimCooldown
  metrics: Metrics
}

/** What a claim without limits asks of the store. */
interface Claiming {
  /** Claims of one kind find the same. */
  kind: string
  queues: readonly string[]
  limit: number
  change: Change
}

/** Queues are probed in turn; starting anywhere keeps the first from starving the last. */
const rotated = (queues: readonly string[]): readonly string[] => {
  if (queues.length < 2) return queues
  const start = Math.floor(Math.random() * queues.length)
  return [...queues.slice(start), ...queues.slice(0, start)]
}

export const createClaim = (parts: ClaimingParts): AgentService['claim'] => {
  const { database, registry, holder, waiters, cooldown, metrics } = parts

  /** Claims of one claimant that arrive together are one, shared out in the order they came. */
  const readTogether = createBatcher<Claiming, Claimed>({
    keyOf: ({ kind }) => kind,
    runOne: ({ queues, limit, change }) => readClaimed(database, rotated(queues), limit, change),
    runBatch: async (all) => {
      const { queues, change } = all[0]!
      const wanted = all.reduce((sum, { limit }) => sum + limit, 0)
      const { claimed, more } = await readClaimed(database, rotated(queues), wanted, change)
      // A claim is made of few sizes: whoever is left over where there may be more claims alone.
      return all.map(({ limit }) =>
        more && claimed.length === 0 ? undefined : { claimed: claimed.splice(0, limit), more },
      )
    },
  })

  const claimedOf = (claimed: ClaimedRow): ClaimedTodo => ({
    view: claimed.view,
    unread: claimed.unread,
    priorAttempts: claimed.priorAttempts,
    children: claimed.children,
  })

  const claim = async (
    wanted: Claim,
    caller: Caller,
    signal: AbortSignal,
  ): Promise<ClaimedTodo[]> => {
    const endpoint = endpointWith(caller, 'work')
    const queues = wanted.queues ?? endpoint.queues
    if (queues.some((queue) => !endpoint.queues.includes(queue))) throw new Refusal('forbidden')
    const change: Change = {
      endpoint: endpoint.id,
      leaseSeconds: wanted.leaseSeconds ?? endpoint.defaultLeaseSeconds,
      claimant: truncate(wanted.claimant ?? endpoint.name, 120),
    }
    const known = await registry.queues()
    const waiter = waiters.add({
      queues,
      limited: queues.filter((queue) => known.get(queue)?.policy.concurrency !== undefined),
      endpoint: endpoint.concurrency === null ? null : endpoint.id,
    })
    metrics.waitingClaims.set(waiters.count())
    try {
      const deadline = performance.now() + wanted.waitMs
      const kind = JSON.stringify([queues, change])
      const claiming = { kind, queues, limit: wanted.limit, change }
      while (!signal.aborted) {
        const rest = Math.min(cooldown.remainingMs(kind, queues), deadline - performance.now())
        if (rest > 0) {
          await waiter.wait(rest, signal)
          if (signal.aborted) break
        }
        const { claimed, full } = await claimWithinLimits(claiming, endpoint)
        if (claimed.length > 0) return await handOver(claimed, caller, signal)
        if (full) waiter.handOn()
        const left = deadline - performance.now()
        if (left <= 0) break
        await waiter.wait(left, signal)
      }
      return []
    } finally {
      waiter.remove()
      metrics.waitingClaims.set(waiters.count())
    }
  }

  /**
   * The claim; where a queue or the endpoint has a limit, queue by queue in a transaction that
   * counts before it claims. A todo resumed after its answer is not held back, and may exceed it.
   * `full`: the endpoint may claim no more, whatever there is.
   */
  const claimWithinLimits = async (
    claiming: Claiming,
    endpoint: Endpoint,
  ): Promise<{ claimed: ClaimedRow[]; full: boolean }> => {
    const { kind, queues, limit, change } = claiming
    const known = await registry.queues()
    const limitOf = (queue: string): number | undefined => known.get(queue)?.policy.concurrency
    if (endpoint.concurrency === null && queues.every((queue) => limitOf(queue) === undefined)) {
      const sinceMs = performance.now()
      const { claimed, more } = await readTogether(claiming)
      if (!more) cooldown.foundLess(kind, sinceMs)
      return { claimed, full: false }
    }
    const claimed: ClaimedRow[] = []
    for (const queue of rotated(queues)) {
      const wanted = limit - claimed.length
      if (wanted <= 0) break
      const more = await database.transaction(async (session) => {
        const most = limitOf(queue)
        const inQueue = most === undefined ? wanted : await freeInQueue(session, queue, most)
        const own =
          endpoint.concurrency === null ? wanted : await freeOfEndpoint(session, endpoint.id)
        if (own <= 0) return null
        const room = Math.min(wanted, inQueue, own)
        return room > 0 ? (await readClaimed(session, [queue], room, change)).claimed : []
      })
      if (more === null) return { claimed, full: true }
      claimed.push(...more)
    }
    return { claimed, full: false }
  }

  /** A claimant that hung up while its claim ran, or a server that stops: hand the work back. */
  const handOver = async (
    claimed: readonly ClaimedRow[],
    caller: Caller,
    signal: AbortSignal,
  ): Promise<ClaimedTodo[]> => {
    for (const { view, tookOver } of claimed) {
      metrics.todosClaimed.inc({ queue: view.todo.queue })
      if (tookOver) {
        metrics.todoLeasesExpired.inc({ queue: view.todo.queue })
        metrics.attemptsEnded.inc({ queue: view.todo.queue, outcome: 'lease_expired' })
      }
    }
    if (!signal.aborted) return claimed.map(claimedOf)
    for (const { view } of claimed) {
      const held = { id: view.todo.id, fence: view.todo.fence }
      const change = { summary: 'nobody was left to hand it to' }
      holder.count(await holder.move('release', held, caller, change), 'released')
    }
    return []
  }

  return claim
}
