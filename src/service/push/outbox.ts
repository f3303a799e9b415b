/**
 * What a courier works with: deliveries that are due, each with its payload and its secrets opened, and
 * the outcome of an attempt. The event is read as it was committed, and the task as it was then, so
 * that every attempt of a delivery sends the same.
 */
import {
  maskUrl,
  type PushLimits,
  pushLimits,
  type Tried,
  type Verdict,
  verdictOf,
} from '../../domain/push.ts'
import {
  handBack,
  type LeasedDelivery,
  type LeaseRequest,
  leaseDeliveries,
  settleDelivery,
} from '../../store/push/deliveries.ts'
import { purgeDeliveries } from '../../store/push/delivery-log.ts'
import type { Parts } from '../parts.ts'
import { createPayloads, type Payload, type PayloadMakers } from './payloads.ts'
import { opened, type Sealing, Unreadable } from './sealing.ts'
import { unsendable } from './violations.ts'

/** A leased delivery with what it sends. */
export interface Owed extends LeasedDelivery {
  payload: Payload
}

export interface Outbox {
  /**
   * Leases what is to be sent, as long as the payloads fit into `room` characters, the first in any
   * case; tells whether there may be more.
   */
  lease(request: LeaseRequest, room: number): Promise<{ owed: Owed[]; more: boolean }>
  /** Writes the outcome of an attempt; returns the seconds until the next one, or null. */
  settle(owed: Owed, tried: Tried, seconds: number): Promise<number | null>
  /** Gives the lease up unused, so that it is somebody else's turn at once. */
  handBack(owed: Owed): Promise<void>
  /** Deletes deliveries that were settled long ago; returns how many. */
  purge(): Promise<number>
  limits(): Promise<PushLimits>
}

interface OutboxParts extends Pick<Parts, 'database' | 'registry' | 'metrics' | 'log'> {
  /** These hold unless a setting overrides them. */
  limits: PushLimits
  sealing: Sealing
  payloads: PayloadMakers
}

const PURGE_BATCH = 1000
/** Payloads are made so many at a time: beyond the room there are at most these. */
const MADE_AT_ONCE = 4

export const createOutbox = (parts: OutboxParts): Outbox => {
  const { database, registry, metrics, log } = parts
  const limits = async (): Promise<PushLimits> =>
    pushLimits(parts.limits, await registry.settings())

  const payloads = createPayloads(parts, parts.payloads)

  const settleAs = async (
    leased: LeasedDelivery,
    verdict: Verdict,
    tries: 0 | 1,
  ): Promise<void> => {
    await settleDelivery(database, leased, verdict, tries)
    report(leased, verdict.state, { attempts: leased.attempts, reason: verdict.reason })
  }

  /** The delivery as it can be sent; null where it cannot, and that is written. */
  const readied = async (leased: LeasedDelivery): Promise<LeasedDelivery | null> => {
    if (leased.withdrawn) {
      await settleDelivery(database, leased, never(WITHDRAWN[leased.withdrawn]), 0)
      return null
    }
    try {
      const ready = opened(leased, parts.sealing)
      const problem = unsendable(ready)
      if (problem === null) return ready
      await settleAs(leased, never(`cannot be sent: ${problem}`), 0)
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error
      // Another node may have the key.
      const failure = `its secrets are ${error.message}`
      await settleAs(leased, verdictOf({ failure }, leased, await limits(), Math.random()), 1)
    }
    return null
  }

  /** With their payloads, as many as there is room for; the others are handed back. */
  const loaded = async (ready: readonly LeasedDelivery[], room: number): Promise<Owed[]> => {
    const owed: Owed[] = []
    let length = 0
    for (let at = 0; at < ready.length; at += MADE_AT_ONCE) {
      const some = ready.slice(at, at + MADE_AT_ONCE)
      if (length > room) {
        for (const leased of some) await handBack(database, leased)
        continue
      }
      for (const [n, payload] of (await payloads.of(some)).entries()) {
        if (payload) owed.push({ ...some[n]!, payload })
        else await settleDelivery(database, some[n]!, never(GONE), 0)
        length += payload?.body.length ?? 0
      }
    }
    return owed
  }

  const report = (owed: LeasedDelivery, state: string, facts: object): void => {
    const fields = { delivery: owed.id, todo: owed.todoId, url: maskUrl(owed.url), ...facts }
    if (state === 'delivered') log.debug(fields, 'a webhook was told')
    else if (state === 'pending') log.info(fields, 'a webhook will be told again')
    else log.error(fields, 'a webhook was given up')
  }

  return {
    limits,
    lease: async (request, room) => {
      const leased = await leaseDeliveries(database, request)
      const ready: LeasedDelivery[] = []
      for (const delivery of leased) {
        const one = await readied(delivery)
        if (one) ready.push(one)
      }
      return { owed: await loaded(ready, room), more: leased.length > 0 }
    },
    settle: async (owed, tried, seconds) => {
      const verdict = verdictOf(tried, owed, await limits(), Math.random())
      metrics.pushAttemptSeconds.observe(seconds)
      const { state, status, reason, againSeconds } = verdict
      if (!(await settleDelivery(database, owed, verdict))) {
        metrics.pushAttempts.inc({ outcome: 'fenced' })
        log.warn({ delivery: owed.id, todo: owed.todoId }, 'a delivery was not ours any more')
        return null
      }
      metrics.pushAttempts.inc({ outcome: state === 'pending' ? 'later' : state })
      const again = state === 'pending' ? { againSeconds } : {}
      report(owed, state, { attempts: owed.attempts, status, reason, ...again })
      return state === 'pending' ? againSeconds : null
    },
    handBack: (owed) => handBack(database, owed),
    purge: () => purgeDeliveries(database, PURGE_BATCH),
  }
}

const GONE = 'its event, or its task, is not kept any more'
const WITHDRAWN = {
  revoked: 'the endpoint that made the config was revoked',
  right: 'the endpoint that made the config may not see the task any more',
}

/** Given up without an attempt. */
const never = (reason: string): Verdict => ({
  state: 'dead',
  status: null,
  reason,
  againSeconds: 0,
})
