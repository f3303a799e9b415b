/** What a holder reads of its own todo: whether it still holds it, and the messages it is owed. */

import { lookUntil, Waiter } from '../../base/wait/waiter.ts'
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

const isEnough = ({ messages }: { messages: readonly unknown[] }): boolean => messages.length > 0

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
      const waiter = new Waiter()
      const off = wakes.on(topics.todo(held.id), () => waiter.wake())
      const look = async () => {
        const { todo, owed } = await readOwn(held, endpoint, held.after)
        if (signal.reason instanceof Withdrawn) throw signal.reason
        return { state: todo.state, messages: owed }
      }
      const deadline = performance.now() + held.waitMs
      try {
        return await lookUntil(waiter, { look, isEnough, deadline, pollMs, signal, rest })
      } finally {
        off()
      }
    },
  }
}

export type Inbox = ReturnType<typeof createInbox>
