/**
 * Claim or wait, for one agent: within the limits of its queues and its endpoint, over its queues in
 * turn. What was claimed for a claimant that has hung up meanwhile is handed back.
 */
import { lookUntil } from '../../base/wait/waiter.ts'
import { type Caller, type Endpoint, endpointWith, Withdrawn } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Change } from '../../store/move/change.ts'
import { type Claimed, type ClaimedRow, readClaimed } from '../../store/move/claim.ts'
import { freeInQueue, freeOfEndpoint } from '../../store/move/concurrency.ts'
import { createBatcher } from '../batcher.ts'
import type { Parts } from '../parts.ts'
import { truncate } from '../tasks/text.ts'
import type { AgentService } from './agent.ts'
import type { ClaimCooldown } from './cooldown.ts'
import type { Holder } from './holder.ts'
import type { Waiters } from './waiters.ts'

export interface Claim {
  /** Some of the endpoint's queues; absent means all of them. */
  queues?: readonly string[]
  limit: number
  waitMs: number
  leaseSeconds?: number
  claimant?: string
  /** What the agent has: a todo that may not use all of it is left to others. */
  effects?: readonly string[]
}

export type ClaimedTodo = Omit<ClaimedRow, 'tookOver' | 'neverStarted' | 'unheard'>

interface ClaimParts extends Pick<Parts, 'database' | 'registry' | 'metrics'> {
  holder: Holder
  waiters: Waiters
  cooldown: ClaimCooldown
}

/** A claim without limits, as the store is asked for it. */
interface StoreClaim {
  /** Claims of one kind find the same todos. */
  kind: string
  queues: readonly string[]
  limit: number
  change: Change
}

/**
 * A claim that did not choose its queues ends empty when one of them is taken away: the next one
 * waits at those that are left. Throws where the claim as it stands would be refused now.
 */
const checkStillAllowed = ({ queues = [] }: Claim, { refusal, now }: Withdrawn): void => {
  if (now === null) throw refusal
  const endpoint = endpointWith(now, 'work')
  if (queues.some((queue) => !endpoint.queues.includes(queue))) throw new Refusal('forbidden')
}

const isSome = (claimed: readonly ClaimedRow[]): boolean => claimed.length > 0

/** Queues are probed in turn. A random start keeps the first from starving the last. */
const rotated = (queues: readonly string[]): readonly string[] => {
  if (queues.length < 2) return queues
  const start = Math.floor(Math.random() * queues.length)
  return [...queues.slice(start), ...queues.slice(0, start)]
}

export const createClaim = (parts: ClaimParts): AgentService['claim'] => {
  const { database, registry, holder, waiters, cooldown, metrics } = parts

  /** Claims of one kind that arrive together become one, which is shared out in their order. */
  const readTogether = createBatcher<StoreClaim, Claimed>({
    keyOf: ({ kind }) => kind,
    runOne: ({ queues, limit, change }) => readClaimed(database, rotated(queues), limit, change),
    runBatch: async (all) => {
      const { queues, change } = all[0]!
      const wanted = all.reduce((sum, { limit }) => sum + limit, 0)
      const { claimed, more } = await readClaimed(database, rotated(queues), wanted, change)
      // Claims come in few sizes. A caller that got nothing claims alone if there may be more.
      return all.map(({ limit }) =>
        more && claimed.length === 0 ? undefined : { claimed: claimed.splice(0, limit), more },
      )
    },
  })

  const claim = async (
    wanted: Claim,
    caller: Caller,
    signal: AbortSignal,
    isPeerThere: () => boolean | Promise<boolean> = () => true,
  ): Promise<ClaimedTodo[]> => {
    const endpoint = endpointWith(caller, 'work')
    const queues = wanted.queues ?? endpoint.queues
    if (queues.some((queue) => !endpoint.queues.includes(queue))) throw new Refusal('forbidden')
    const change: Change = {
      endpoint: endpoint.id,
      leaseSeconds: wanted.leaseSeconds ?? endpoint.defaultLeaseSeconds,
      claimant: truncate(wanted.claimant ?? endpoint.name, 120),
      ...(wanted.effects && { effects: [...new Set(wanted.effects)].sort() }),
    }
    const known = await registry.queues()
    const waiter = waiters.add({
      queues,
      limited: queues.filter((queue) => known.get(queue)?.policy.concurrency !== undefined),
      endpoint: endpoint.concurrency === null ? null : endpoint.id,
      ...(change.effects && { effects: change.effects }),
    })
    metrics.waitingClaims.set(waiters.count())
    try {
      const deadline = performance.now() + wanted.waitMs
      const kind = JSON.stringify([queues, change])
      const claiming = { kind, queues, limit: wanted.limit, change }
      const look = async (): Promise<ClaimedRow[]> => {
        const restMs = Math.min(cooldown.remainingMs(kind, queues), deadline - performance.now())
        if (restMs > 0) await waiter.sleep(restMs, signal)
        if (signal.aborted) return []
        waiter.clear()
        const { claimed, full } = await claimWithinLimits(claiming, endpoint)
        // What woke it may be for another agent, which has less.
        if (claimed.length === 0 && (full || wanted.effects)) waiters.handOn(waiter, full)
        return claimed
      }
      const claimed = await lookUntil(waiter, { look, isEnough: isSome, deadline, signal })
      if (claimed.length > 0) {
        count(claimed)
        const isThere = !signal.aborted && (await isPeerThere()) && !signal.aborted
        return isThere ? claimed : await handBack(claimed, caller)
      }
      if (signal.reason instanceof Withdrawn) checkStillAllowed(wanted, signal.reason)
      return []
    } finally {
      waiters.remove(waiter)
      metrics.waitingClaims.set(waiters.count())
    }
  }

  /**
   * Claims. If a queue or the endpoint has a limit it goes queue by queue, each in a transaction that
   * counts before it claims. A todo that is resumed after its answer is not held back, and may exceed
   * the limit. `full`: the endpoint may claim no more, whatever there is.
   */
  const claimWithinLimits = async (
    claiming: StoreClaim,
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
        const max = limitOf(queue)
        const inQueue = max === undefined ? wanted : await freeInQueue(session, queue, max)
        const ofEndpoint =
          endpoint.concurrency === null ? wanted : await freeOfEndpoint(session, endpoint.id)
        if (ofEndpoint <= 0) return null
        const slots = Math.min(wanted, inQueue, ofEndpoint)
        return slots > 0 ? (await readClaimed(session, [queue], slots, change)).claimed : []
      })
      if (more === null) return { claimed, full: true }
      claimed.push(...more)
    }
    return { claimed, full: false }
  }

  const count = (claimed: readonly ClaimedRow[]): void => {
    for (const { view, tookOver, neverStarted, unheard } of claimed) {
      const { queue } = view.todo
      metrics.todosClaimed.inc({ queue })
      if (tookOver) {
        metrics.todoLeasesExpired.inc({ queue })
        metrics.attemptsEnded.inc({ queue, outcome: 'lease_expired' })
      }
      if (neverStarted) metrics.attemptsNeverStarted.inc({ queue })
      if (unheard) metrics.answersUnheard.inc({ queue })
    }
  }

  /** The claimant hung up while its claim ran, or the server stops. */
  const handBack = async (claimed: readonly ClaimedRow[], caller: Caller): Promise<[]> => {
    for (const { view } of claimed) {
      const held = { id: view.todo.id, fence: view.todo.fence }
      const change = { summary: 'nobody was left to hand it to' }
      await holder.end(holder.move('release', held, caller, change), 'released')
    }
    return []
  }

  return claim
}
