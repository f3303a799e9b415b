/** What a holder reads of its own todo: whether it still holds it, and the messages it is owed. */

import {
  type Caller,
  type Endpoint,
  EVERYTHING,
  endpointWith,
  Withdrawn,
} from '../../domain/endpoint.ts'
import { isRefusal, orNotFound, Refusal } from '../../domain/errors.ts'
import type { State } from '../../domain/lifecycle.ts'
import type { StoredMessage } from '../../domain/todo.ts'
import { readHeld } from '../../store/todos/view.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Parts } from '../parts.ts'
import { type Held, scopeOf } from './holder.ts'

/** No todo has a message after this seq. */
const NO_MESSAGES = 2_147_483_647

export const createInbox = ({
  database,
  wakes,
  pollMs,
}: Pick<Parts, 'database' | 'wakes' | 'pollMs'>) => {
  /** Refuses a caller that does not hold the todo any more. Without `after` no messages are read. */
  const readOwn = async ({ id, fence }: Held, endpoint: Endpoint, after = NO_MESSAGES) => {
    const held = orNotFound(await readHeld(database, id, after, scopeOf(endpoint)))
    const { owner, fence: current, state } = held.todo
    if (owner !== endpoint.id || current !== fence) throw new Refusal('stale_fence', { id, state })
    return held
  }

  const nextWake = (id: string, ms: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const done = (): void => {
        off()
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        resolve()
      }
      const off = wakes.on(topics.todo(id), done)
      const timer = setTimeout(done, Math.max(0, Math.min(pollMs, ms)))
      signal.addEventListener('abort', done, { once: true })
    })

  return {
    readOwn,

    /** The refusal of a completion, with the messages that were not acknowledged. */
    withUnread: async (error: unknown, id: string): Promise<unknown> => {
      if (!isRefusal(error, 'unread_messages')) return error
      const held = await readHeld(database, id, 0, EVERYTHING)
      return new Refusal('unread_messages', { id, unread: held?.owed ?? [] })
    },

    messages: async (
      held: Held & { after: number; waitMs: number },
      caller: Caller,
      signal: AbortSignal,
      rest: (wait: Promise<void>) => Promise<void> = (wait) => wait,
    ): Promise<{ state: State; messages: StoredMessage[] }> => {
      const endpoint = endpointWith(caller, 'work')
      const deadline = performance.now() + held.waitMs
      for (;;) {
        // We listen for the wake before we read, so that nothing falls between read and wait.
        const woken = nextWake(held.id, deadline - performance.now(), signal)
        const { todo, owed } = await readOwn(held, endpoint, held.after)
        if (signal.reason instanceof Withdrawn) throw signal.reason
        if (owed.length > 0 || performance.now() >= deadline || signal.aborted) {
          return { state: todo.state, messages: owed }
        }
        await rest(woken)
      }
    },
  }
}

export type Inbox = ReturnType<typeof createInbox>
