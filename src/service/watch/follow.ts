/** Following a todo's events. A process keeps one tail for each todo that somebody follows. */

import { Refusal } from '../../domain/errors.ts'
import { phaseOf } from '../../domain/lifecycle.ts'
import type { Event } from '../../domain/todo.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readEvents } from '../../store/todos/events.ts'
import { readMissing } from '../../store/todos/view.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Wakes } from '../../store/wake/wake.ts'
import { createBatcher } from '../batcher.ts'
import type { Poll } from '../chores.ts'
import { createTail, type Tail } from './tail.ts'

/** The ring holds at most about this much of one todo's events, in characters of JSON. */
const RING_WEIGHT = 1_000_000

const ended = (event: Event): boolean =>
  phaseOf({ state: event.to, nextRetryAt: event.retrying || null }) === 'ended'

const weigh = ({ message, artifact }: Event): number =>
  200 +
  (message ? JSON.stringify(message).length : 0) +
  (artifact ? JSON.stringify(artifact).length : 0)

/** At most `limit` of a todo's events after this one. */
interface Page {
  id: string
  after: number
  limit: number
}

/** Reads pages of several todos together. */
const createPageReader = (database: Database): ((page: Page) => Promise<Event[]>) =>
  createBatcher<Page, Event[]>({
    keyOf: ({ limit }) => String(limit),
    // Each may be long, with whole artifacts.
    maxBatch: 10,
    runOne: (page) => readEvents(database, [page], page.limit),
    runBatch: async (pages) => {
      // A second page of one todo is read by itself.
      const firsts = new Map(pages.toReversed().map((page) => [page.id, page]))
      const found = new Map<string, Event[]>([...firsts.keys()].map((id) => [id, []]))
      const events = await readEvents(database, [...firsts.values()], pages[0]!.limit)
      for (const event of events) found.get(event.todoId)?.push(event)
      return pages.map((page) => (firsts.get(page.id) === page ? found.get(page.id) : undefined))
    },
  })

export const createFollow = ({
  database,
  isUnchanged,
  pollMs,
}: {
  database: Database
  isUnchanged: (id: string) => boolean
  pollMs: number
}) => {
  const tails = new Map<string, Tail<Event>>()
  const readPage = createPageReader(database)

  const tailOf = (id: string, head: number, justRead: boolean): Tail<Event> => {
    const known = tails.get(id)
    if (known) return known
    const tail = createTail<Event>({
      read: (after, limit) => readPage({ id, after, limit }),
      cursorOf: (event) => event.seq,
      isCut: (event) => event.cut === true,
      head,
      upToDate: justRead && isUnchanged(id),
      ringWeight: RING_WEIGHT,
      weigh,
    })
    tails.set(id, tail)
    return tail
  }

  async function* follow(
    id: string,
    after: number,
    signal: AbortSignal,
    { justRead = false }: { justRead?: boolean } = {},
  ): AsyncGenerator<Event, void, undefined> {
    const tail = tailOf(id, after, justRead)
    try {
      for await (const event of tail.follow(after, signal)) {
        yield event
        if (ended(event)) return
      }
      // The todo was deleted before the follower had read its end.
      if (!signal.aborted) throw new Refusal('not_found')
    } finally {
      if (tail.followers() === 0) tails.delete(id)
    }
  }

  const nudge = (): void => {
    for (const tail of tails.values()) tail.nudge()
  }

  const endDeleted = async (): Promise<void> => {
    if (tails.size === 0) return
    const missing = await readMissing(database, [...tails.keys()])
    for (const id of missing) tails.get(id)?.end()
  }

  return {
    follow,
    nudge,
    /** Apart, so that a read which hangs keeps no follower waiting. */
    polls: [
      { everyMs: pollMs, look: async () => nudge() },
      { everyMs: pollMs, look: endDeleted },
    ] satisfies Poll[],
    start: (wakes: Wakes): (() => void)[] => [
      wakes.onPrefix(topics.todo.prefix, (id) => tails.get(id)?.nudge()),
    ],
  }
}
