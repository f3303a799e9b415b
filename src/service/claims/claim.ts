/**
 * Claim or wait, for one agent: within the limits of queues and endpoint, in turn over its queues,
 * and handed back where the claimant has hung up meanwhile.
 */
import type { Metrics } from '../../base/metrics.ts'
import { type Caller, type Endpoint, endpointWith } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Change } from '../../store/move/change.ts'
import { type Claimed, readClaimed, type Taken } from '../../store/move/claim.ts'
import { roomInQueue, roomOfEndpoint } from '../../store/move/concurrency.ts'
import type { Database } from '../../store/postgres/database.ts'
import { createGather } from '../batcher.ts'
import type { AgentService, Claim, ClaimedTodo } from '../contract.ts'
import type { Directory } from '../registry.ts'
import { bounded } from '../tasks/text.ts'
import type { Dry } from './cooldown.ts'
import type { Holder } from './holder.ts'
import type { Line } from './waiters.ts'

export interface ClaimingParts {
  database: Database
  directory: Directory
  holder: Holder
  line: Line
  dry: Dry
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
  const { database, directory, holder, line, dry, metrics } = parts

  /** Claims of one claimant that arrive together are one, shared out in the order they came. */
  const readTogether = createGather<Claiming, Claimed>({
    keyOf: ({ kind }) => kind,
    one: ({ queues, limit, change }) => readClaimed(database, rotated(queues), limit, change),
    many: async (all) => {
      const { queues, change } = all[0]!
      const wanted = all.reduce((sum, { limit }) => sum + limit, 0)
      const { taken, more } = await readClaimed(database, rotated(queues), wanted, change)
      // A claim is made of few sizes: whoever is left over where there may be more claims alone.
      return all.map(({ limit }) =>
        more && taken.length === 0 ? undefined : { taken: taken.splice(0, limit), more },
      )
    },
  })

  const claimedOf = (taken: Taken): ClaimedTodo => ({
    view: taken.view,
    unread: taken.unread,
    priorAttempts: taken.priorAttempts,
    children: taken.children,
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
      claimant: bounded(wanted.claimant ?? endpoint.name, 120),
    }
    const known = await directory.queues()
    const place = line.join({
      queues,
      limited: queues.filter((queue) => known.get(queue)?.policy.concurrency !== undefined),
      endpoint: endpoint.concurrency === null ? null : endpoint.id,
    })
    metrics.waitingClaims.set(line.waiting())
    try {
      const deadline = performance.now() + wanted.waitMs
      const kind = JSON.stringify([queues, change])
      const claiming = { kind, queues, limit: wanted.limit, change }
      while (!signal.aborted) {
        const rest = Math.min(dry.restMs(kind, queues), deadline - performance.now())
        if (rest > 0) {
          await place.called(rest, signal)
          if (signal.aborted) break
        }
        const { taken, full } = await claimWithinLimits(claiming, endpoint)
        if (taken.length > 0) return await handOver(taken, caller, signal)
        if (full) place.pass()
        const left = deadline - performance.now()
        if (left <= 0) break
        await place.called(left, signal)
      }
      return []
    } finally {
      place.leave()
      metrics.waitingClaims.set(line.waiting())
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
  ): Promise<{ taken: Taken[]; full: boolean }> => {
    const { kind, queues, limit, change } = claiming
    const known = await directory.queues()
    const limitOf = (queue: string): number | undefined => known.get(queue)?.policy.concurrency
    if (endpoint.concurrency === null && queues.every((queue) => limitOf(queue) === undefined)) {
      const sinceMs = performance.now()
      const { taken, more } = await readTogether(claiming)
      if (!more) dry.ranDry(kind, sinceMs)
      return { taken, full: false }
    }
    const taken: Taken[] = []
    for (const queue of rotated(queues)) {
      const wanted = limit - taken.length
      if (wanted <= 0) break
      const more = await database.transaction(async (session) => {
        const most = limitOf(queue)
        const inQueue = most === undefined ? wanted : await roomInQueue(session, queue, most)
        const own =
          endpoint.concurrency === null ? wanted : await roomOfEndpoint(session, endpoint.id)
        if (own <= 0) return null
        const room = Math.min(wanted, inQueue, own)
        return room > 0 ? (await readClaimed(session, [queue], room, change)).taken : []
      })
      if (more === null) return { taken, full: true }
      taken.push(...more)
    }
    return { taken, full: false }
  }

  /** A claimant that hung up while its claim ran, or a server that stops: hand the work back. */
  const handOver = async (
    taken: readonly Taken[],
    caller: Caller,
    signal: AbortSignal,
  ): Promise<ClaimedTodo[]> => {
    for (const { view, tookOver } of taken) {
      metrics.todosClaimed.inc({ queue: view.todo.queue })
      if (tookOver) {
        metrics.todoLeasesExpired.inc({ queue: view.todo.queue })
        metrics.attemptsEnded.inc({ queue: view.todo.queue, outcome: 'lease_expired' })
      }
    }
    if (!signal.aborted) return taken.map(claimedOf)
    for (const { view } of taken) {
      const held = { id: view.todo.id, fence: view.todo.fence }
      const change = { summary: 'nobody was left to hand it to' }
      holder.count(await holder.move('release', held, caller, change), 'released')
    }
    return []
  }

  return claim
}
