/**
 * The holder takes its own open question back and goes on working, as after an answer. A todo whose
 * conversation is busy with another stands in line for that; a repeat finds out whether it has come.
 */
import { type Caller, endpointWith } from '../../domain/endpoint.ts'
import { isRefusal, Refusal } from '../../domain/errors.ts'
import { INTERRUPT_STATES, type Verb } from '../../domain/lifecycle.ts'
import type { Message, Todo } from '../../domain/todo.ts'
import { freeLine, type Moved } from '../../store/move/move.ts'
import type { Session } from '../../store/postgres/database.ts'
import type { Parts } from '../parts.ts'
import type { Conversations } from '../tasks/conversations.ts'
import { saying } from './finish.ts'
import type { Held, Holder } from './holder.ts'
import type { Inbox } from './inbox.ts'

interface WithdrawParts extends Pick<Parts, 'database'> {
  holder: Holder
  inbox: Inbox
  conversations: Pick<Conversations, 'recheckSoon'>
}

/** Between two looks the todo may move, but not for ever. */
const TRIES = 5

export const createWithdraw =
  ({ database, holder, inbox, conversations }: WithdrawParts) =>
  async ({ message, ...held }: Held & { message?: Message }, caller: Caller): Promise<Todo> => {
    const change = message && saying(message, held.id)
    const move = (verb: Verb, session?: Session): Promise<Moved> =>
      holder.move(verb, held, caller, change, session)

    /** Goes before a newcomer that nobody has claimed yet, as an answer does. Both move, or neither. */
    const goFirst = ({ line }: Todo): Promise<Moved> =>
      database.transaction(async (session) => {
        if (line === null || !(await freeLine(session, line))) throw new Refusal('wrong_state')
        return move('withdraw', session)
      })
    const standInLine = async ({ line }: Todo): Promise<Moved> => {
      const moved = await move('withdrawLater')
      // The todo at work may have left in that very moment, and neither could see the other.
      if (line !== null) conversations.recheckSoon(line)
      return moved
    }

    for (let tries = 1; ; tries += 1) {
      for (const way of [() => move('withdraw'), goFirst, standInLine]) {
        const { todo } = await inbox.readOwn(held, endpointWith(caller, 'work'))
        // It was withdrawn before, or answered: the holder goes on, or its turn is still to come.
        if (todo.answeredAt !== null || !isInterrupted(todo)) return todo
        try {
          return (await way(todo)).todo
        } catch (error) {
          if (!isRefusal(error, 'wrong_state')) throw error
        }
      }
      if (tries >= TRIES) throw new Refusal('wrong_state', { id: held.id })
    }
  }

const isInterrupted = ({ state }: Todo): boolean =>
  INTERRUPT_STATES.some((interrupt) => interrupt === state)
