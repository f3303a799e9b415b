/**
 * The payloads of deliveries. One is made once for an event and a version of the protocol, however
 * many webhooks are told of it and however often each is tried: for 0.3 it is the whole task as the
 * event left it, which may be long.
 */
import type { Dialect } from '../../domain/push.ts'
import type { Event, TodoView } from '../../domain/todo.ts'
import type { LeasedDelivery } from '../../store/push/deliveries.ts'
import { readEvents } from '../../store/todos/events.ts'
import { readAsOf } from '../../store/todos/view.ts'
import { createKept } from '../kept.ts'
import type { Parts } from '../parts.ts'

export interface Payload {
  contentType: string
  body: string
}

/** An event with the task as it left it, for versions that send the whole task. */
interface Told {
  event: Event
  view: TodoView | null
}

/** What each version of the protocol sends for an event. */
export type PayloadMakers = Readonly<Record<Dialect, (told: Told) => Payload>>

export interface Payloads {
  /** Null where the event, or its task, is not kept any more. */
  of(deliveries: readonly LeasedDelivery[]): Promise<(Payload | null)[]>
}

/** How many are kept for further webhooks and tries, and how long they are together, in characters. */
const MAX_KEPT = 2000
const MAX_KEPT_LENGTH = 32_000_000

type Of = Pick<LeasedDelivery, 'todoId' | 'seq' | 'dialect'>

/** 0.3 has no event of its own for webhooks: they get the whole task. */
const getsWholeTask = ({ dialect }: Of): boolean => dialect === '0.3'

const keyOf = ({ todoId, seq, dialect }: Of): string => `${todoId} ${seq} ${dialect}`
const placeOf = (id: string, seq: number): string => `${id} ${seq}`

export const createPayloads = (
  { database }: Pick<Parts, 'database'>,
  makers: PayloadMakers,
): Payloads => {
  const kept = createKept<Payload>(MAX_KEPT, MAX_KEPT_LENGTH)

  const eventsOf = async (wanted: readonly Of[]): Promise<Map<string, Event>> => {
    const pages = wanted.map(({ todoId, seq }) => ({ id: todoId, after: seq - 1 }))
    const events = wanted.length > 0 ? await readEvents(database, pages, 1) : []
    return new Map(events.map((event) => [placeOf(event.todoId, event.seq), event]))
  }

  const viewsOf = async (wanted: readonly Of[]): Promise<Map<string, TodoView>> => {
    const places = wanted.filter(getsWholeTask).map(({ todoId, seq }) => ({ id: todoId, seq }))
    const views = places.length > 0 ? await readAsOf(database, places) : []
    return new Map(views.map((view) => [placeOf(view.todo.id, view.todo.seq), view]))
  }

  const make = async (wanted: readonly Of[]): Promise<Map<string, Payload>> => {
    const [events, views] = await Promise.all([eventsOf(wanted), viewsOf(wanted)])
    const made = new Map<string, Payload>()
    for (const one of wanted) {
      const event = events.get(placeOf(one.todoId, one.seq))
      const view = views.get(placeOf(one.todoId, one.seq)) ?? null
      if (!event || (view === null && getsWholeTask(one))) continue
      const payload = makers[one.dialect]({ event, view })
      made.set(keyOf(one), payload)
      kept.set(keyOf(one), payload, payload.body.length)
    }
    return made
  }

  return {
    of: async (deliveries) => {
      // Held here as well, since what is kept may be forgotten before the last of these is made.
      const found = new Map<string, Payload>()
      const missing = new Map<string, Of>()
      for (const one of deliveries) {
        const known = kept.get(keyOf(one))
        if (known) found.set(keyOf(one), known)
        else missing.set(keyOf(one), one)
      }
      const made = missing.size > 0 ? await make([...missing.values()]) : new Map<string, Payload>()
      return deliveries.map((one) => found.get(keyOf(one)) ?? made.get(keyOf(one)) ?? null)
    },
  }
}
