/**
 * What becomes of a revoked or expired endpoint's work. What it holds, interrupted todos too, goes
 * back to its queue if another live endpoint may claim it there. Otherwise it becomes a dead letter,
 * because a requeued todo would wait for good. Tasks that the endpoint has sent go on, unless the
 * operator asks to cancel them.
 */
import { sleep } from '../../base/time.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { STATE_NAMES, STATES, type State } from '../../domain/lifecycle.ts'
import {
  readDeadHolders,
  readIdleHolders,
  readQueuesSentTo,
  readQueuesServed,
  revokeExpired,
} from '../../store/admin/endpoints.ts'
import type { Moved } from '../../store/move/move.ts'
import { listIds } from '../../store/todos/list.ts'
import { countEnded } from '../count-ended.ts'
import type { Parts } from '../parts.ts'
import type { SweepRunner } from '../sweep-runner.ts'
import { cancelIfLive } from '../tasks/cancel.ts'

interface RevocationParts extends Pick<Parts, 'database' | 'metrics' | 'log'> {
  sweepRunner: SweepRunner
}

export interface Revocation {
  /** Takes back what this endpoint holds; returns how many todos. */
  settle(endpointId: string): Promise<number>
  /** Revokes what has expired, and takes back what any revoked endpoint still holds. */
  settleDead(): Promise<number>
  /**
   * Requeues what live endpoints (or this one) hold that may not work any more, where others may. What
   * nobody may claim stays with its holder until its lease or question ends: an update can be taken
   * back, which a dead letter cannot.
   */
  settleIdle(endpointId: string | null): Promise<number>
  /** Cancels every live todo that this endpoint sent. One that ends meanwhile is left as it ended. */
  cancelAllOf(client: Endpoint): Promise<void>
}

const PAGE = 200
const PASSES = 5
const PAUSE_MS = 10
/** The states of todos that have not ended; a failed one may have a retry scheduled. */
export const LIVE_STATES: readonly State[] = STATE_NAMES.filter(
  (state) => STATES[state] !== 'ended' || state === 'failed',
)

export const createRevocation = ({
  database,
  sweepRunner,
  metrics,
  log,
}: RevocationParts): Revocation => {
  const countRevoked = (moved: Moved): void => countEnded(metrics, moved, 'revoked')

  const settleOnce = async (endpointId: string): Promise<number> => {
    const held = await readDeadHolders(database, endpointId)
    const queues = held.map(({ queue }) => queue)
    const served = await readQueuesServed(database, queues)
    const change = { endpoint: endpointId, cause: 'endpoint_revoked' }
    const stranded = queues.filter((queue) => !served.includes(queue))
    const requeued = await sweepRunner('revoke', { ...change, queues: served }, countRevoked)
    return requeued + (await sweepRunner('strand', { ...change, queues: stranded }, countRevoked))
  }

  /** A row that its holder is just writing to is skipped, so we ask again. */
  const settle = async (endpointId: string): Promise<number> => {
    let total = 0
    for (let pass = 1; ; pass += 1) {
      const settled = await settleOnce(endpointId)
      total += settled
      if (pass === PASSES || (pass > 1 && settled === 0)) return total
      await sleep(PAUSE_MS)
    }
  }

  /** Holders in queues that nobody serves, as they were told of in the log. */
  let stranded = new Set<string>()

  const settleIdle = async (endpointId: string | null): Promise<number> => {
    const held = await readIdleHolders(database, endpointId)
    if (held.length === 0 && stranded.size === 0) return 0
    const served = await readQueuesServed(database, [...new Set(held.map(({ queue }) => queue))])
    const kept = new Set<string>()
    const movable = new Map<string, string[]>()
    for (const { owner, queue } of held) {
      if (served.includes(queue)) movable.set(owner, [...(movable.get(owner) ?? []), queue])
      else kept.add(`${owner} ${queue}`)
    }
    for (const [key, [endpoint, queue]] of [...kept].map((key) => [key, key.split(' ')] as const)) {
      if (stranded.has(key)) continue
      const why =
        'an endpoint holds todos and may not work any more, and nobody else may claim them'
      log.warn({ endpoint, queue }, why)
    }
    stranded = endpointId === null ? kept : new Set([...stranded, ...kept])
    let total = 0
    for (const [endpoint, queues] of movable) {
      const change = { endpoint, cause: 'right_withdrawn', queues }
      total += await sweepRunner('revoke', change, countRevoked)
    }
    return total
  }

  return {
    settle,
    settleIdle,
    settleDead: async () => {
      await revokeExpired(database)
      const holders = new Set((await readDeadHolders(database, null)).map(({ owner }) => owner))
      let total = 0
      for (const owner of holders) total += await settle(owner)
      return total
    },
    cancelAllOf: async ({ id: clientId }) => {
      for (const queue of await readQueuesSentTo(database, clientId)) {
        for (let full = true; full; ) {
          const ids = await listIds(
            database,
            { states: LIVE_STATES, retrying: 'only', pageSize: PAGE },
            { kind: 'client', clientId, queue },
          )
          for (const id of ids) await cancelIfLive(database, metrics, id)
          full = ids.length === PAGE
        }
      }
    },
  }
}
