/**
 * What a courier works with: deliveries that are due, with the event each of them tells, and what
 * came of the try. The event is read as it was committed, and a task as it was then, so that every
 * try of a delivery tells the same.
 */
import type { Log } from '../../base/log.ts'
import type { Metrics } from '../../base/metrics.ts'
import {
  maskUrl,
  type PushLimits,
  pushLimits,
  type Tried,
  type Verdict,
  verdictOf,
} from '../../domain/push.ts'
import type { Event, TodoView } from '../../domain/todo.ts'
import type { Database } from '../../store/postgres/database.ts'
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
import type { Registry } from '../registry.ts'

/** A leased delivery and what it tells. */
export interface Owed extends LeasedDelivery {
  event: Event
  /** The task as the event left it; for dialects that tell of the whole task. */
  view: TodoView | null
}

export interface Outbox {
  /** What is to be sent, and whether there may be more. */
  take(wish: LeaseRequest): Promise<{ owed: Owed[]; more: boolean }>
  /** Writes what came of the try; in how many seconds there is another one, or null. */
  settle(owed: Owed, tried: Tried, seconds: number): Promise<number | null>
  /** Gives the lease up unused: it is somebody else's turn at once. */
  handBack(owed: Owed): Promise<void>
  /** Forgets what was settled long ago; how many. */
  purge(): Promise<number>
  limits(): Promise<PushLimits>
}

export interface OutboxParts {
  database: Database
  registry: Registry
  /** Where no setting says otherwise. */
  limits: PushLimits
  metrics: Metrics
  log: Pick<Log, 'info' | 'warn' | 'error' | 'debug'>
}

const PURGE_BATCH = 1000

/** 0.3 has no event of its own for webhooks: they are told the task. */
const isToldWhole = ({ dialect }: LeasedDelivery): boolean => dialect === '0.3'

const place = (id: string, seq: number): string => `${id} ${seq}`

export const createOutbox = (parts: OutboxParts): Outbox => {
  const { database, registry, metrics, log } = parts
  const limits = async (): Promise<PushLimits> =>
    pushLimits(parts.limits, await registry.settings())

  const eventsOf = async (leased: readonly LeasedDelivery[]): Promise<Map<string, Event>> => {
    const watched = leased.map(({ todoId, seq }) => ({ id: todoId, after: seq - 1 }))
    const events = await readEvents(database, watched, 1)
    return new Map(events.map((event) => [place(event.todoId, event.seq), event]))
  }

  const viewsOf = async (leased: readonly LeasedDelivery[]): Promise<Map<string, TodoView>> => {
    const whole = leased.filter(isToldWhole)
    if (whole.length === 0) return new Map()
    const views = await readAsOf(
      database,
      whole.map(({ todoId, seq }) => ({ id: todoId, seq })),
    )
    return new Map(views.map((view) => [place(view.todo.id, view.todo.seq), view]))
  }

  const report = (owed: Owed, state: string, facts: object): void => {
    const fields = { delivery: owed.id, todo: owed.todoId, url: maskUrl(owed.url), ...facts }
    if (state === 'delivered') log.debug(fields, 'a webhook was told')
    else if (state === 'pending') log.info(fields, 'a webhook will be told again')
    else log.error(fields, 'a webhook was given up')
  }

  return {
    limits,
    take: async (wish) => {
      const leased = await leaseDeliveries(database, wish)
      if (leased.length === 0) return { owed: [], more: false }
      const [events, views] = await Promise.all([eventsOf(leased), viewsOf(leased)])
      const owed: Owed[] = []
      for (const delivery of leased) {
        const at = place(delivery.todoId, delivery.seq)
        const event = events.get(at)
        const view = views.get(at) ?? null
        const isGone = view === null && isToldWhole(delivery)
        if (delivery.revoked) await settleDelivery(database, delivery, never(REVOKED), 0)
        else if (!event || isGone) await settleDelivery(database, delivery, never(GONE), 0)
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
      const { attempts } = owed
      report(owed, state, {
        attempts,
        status,
        reason,
        ...(state === 'pending' && { againSeconds }),
      })
      return state === 'pending' ? againSeconds : null
    },
    handBack: (owed) => handBack(database, owed),
    purge: () => purgeDeliveries(database, PURGE_BATCH),
  }
}

const GONE = 'its event, or its task, is not kept any more'
const REVOKED = 'the endpoint that made the config was revoked'

/** Given up without a try. */
const never = (reason: string): Verdict => ({
  state: 'dead',
  status: null,
  reason,
  againSeconds: 0,
})
