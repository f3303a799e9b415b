/**
 * What a courier works with: deliveries that are due, each with its event, and the outcome of an
 * attempt. The event is read as it was committed, and the task as it was then, so that every attempt
 * of a delivery sends the same.
 */
import {
  maskUrl,
  type PushLimits,
  pushLimits,
  type Tried,
  type Verdict,
  verdictOf,
} from '../../domain/push.ts'
import type { Event, TodoView } from '../../domain/todo.ts'
import {
  handBack,
  type LeasedDelivery,
  type LeaseRequest,
  leaseDeliveries,
  settleDelivery,
} from '../../store/push/deliveries.ts'
import { purgeDeliveries } from '../../store/push/delivery-log.ts'
import { readEvents } from '../../store/todos/events.ts'
import { readAsOf } from '../../store/todos/view.ts'
import type { Parts } from '../parts.ts'
import { unsendable } from './violations.ts'

/** A leased delivery with what it sends. */
export interface Owed extends LeasedDelivery {
  event: Event
  /** The task as the event left it, for dialects that send the whole task. */
  view: TodoView | null
}

export interface Outbox {
  /** Leases what is to be sent; tells whether there may be more. */
  lease(request: LeaseRequest): Promise<{ owed: Owed[]; more: boolean }>
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
}

const PURGE_BATCH = 1000

/** 0.3 has no event of its own for webhooks: they get the whole task. */
const getsWholeTask = ({ dialect }: LeasedDelivery): boolean => dialect === '0.3'

const keyOf = (id: string, seq: number): string => `${id} ${seq}`

export const createOutbox = (parts: OutboxParts): Outbox => {
  const { database, registry, metrics, log } = parts
  const limits = async (): Promise<PushLimits> =>
    pushLimits(parts.limits, await registry.settings())

  const eventsOf = async (leased: readonly LeasedDelivery[]): Promise<Map<string, Event>> => {
    const pages = leased.map(({ todoId, seq }) => ({ id: todoId, after: seq - 1 }))
    const events = await readEvents(database, pages, 1)
    return new Map(events.map((event) => [keyOf(event.todoId, event.seq), event]))
  }

  const viewsOf = async (leased: readonly LeasedDelivery[]): Promise<Map<string, TodoView>> => {
    const whole = leased.filter(getsWholeTask)
    if (whole.length === 0) return new Map()
    const views = await readAsOf(
      database,
      whole.map(({ todoId, seq }) => ({ id: todoId, seq })),
    )
    return new Map(views.map((view) => [keyOf(view.todo.id, view.todo.seq), view]))
  }

  const report = (owed: Owed, state: string, facts: object): void => {
    const fields = { delivery: owed.id, todo: owed.todoId, url: maskUrl(owed.url), ...facts }
    if (state === 'delivered') log.debug(fields, 'a webhook was told')
    else if (state === 'pending') log.info(fields, 'a webhook will be told again')
    else log.error(fields, 'a webhook was given up')
  }

  return {
    limits,
    lease: async (request) => {
      const leased = await leaseDeliveries(database, request)
      if (leased.length === 0) return { owed: [], more: false }
      const [events, views] = await Promise.all([eventsOf(leased), viewsOf(leased)])
      const owed: Owed[] = []
      for (const delivery of leased) {
        const key = keyOf(delivery.todoId, delivery.seq)
        const event = events.get(key)
        const view = views.get(key) ?? null
        const isGone = view === null && getsWholeTask(delivery)
        const problem = unsendable(delivery)
        const { withdrawn } = delivery
        if (withdrawn) await settleDelivery(database, delivery, never(WITHDRAWN[withdrawn]), 0)
        else if (!event || isGone) await settleDelivery(database, delivery, never(GONE), 0)
        else if (problem)
          await settleDelivery(database, delivery, never(`cannot be sent: ${problem}`), 0)
        else owed.push({ ...delivery, event, view })
      }
      return { owed, more: true }
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
