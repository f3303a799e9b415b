/**
 * A message that names a live todo: it answers its question, or goes into its inbox, where it stays
 * owed until the holder has acknowledged it. A message id that the todo already has is the same
 * message: nothing is written twice. Each has one defined result, which its receipt tells.
 */

import type { Metrics } from '../../base/metrics.ts'
import { EVERYTHING, type Scope } from '../../domain/endpoint.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import { phaseOf, type Verb } from '../../domain/lifecycle.ts'
import type { KeptPushConfig } from '../../domain/push.ts'
import type { Message, Receipt, Todo, TodoView } from '../../domain/todo.ts'
import type { Change } from '../../store/move/change.ts'
import { freeLine, type Moved, tryTransition } from '../../store/move/move.ts'
import type { Database, Session } from '../../store/postgres/database.ts'
import { addKey, readKey, type SendKey } from '../../store/todos/idempotency.ts'
import { readAnswerSchema, readView } from '../../store/todos/view.ts'
import type { Push } from '../push/configs.ts'
import { checkAnswer } from './answer-schema.ts'
import type { Sent } from './client.ts'
import type { Conversations } from './conversations.ts'
import { repeated, replayed } from './idempotency.ts'

/**
 * A message to a live todo, by an endpoint or (null) an operator, within what it may see; under a
 * key, once.
 */
export type Reply = (
  id: string,
  message: Message,
  scope: Scope,
  senderId: string | null,
  key?: SendKey | null,
  /** A webhook that came with it: kept with the message, or not at all. */
  push?: KeptPushConfig,
  /** The seq of the question it is meant for: it answers that one or is refused. */
  question?: number,
) => Promise<Replied>

type Replied = Sent & Required<Pick<Sent, 'receipt'>>

/** Verbs that take a client's message, in the order they are tried, and what each makes of it. */
type Ways = readonly (readonly [Verb, Receipt['outcome']])[]
const ANSWERS: Ways = [
  ['resume', 'resumed'],
  ['answer', 'requeued'],
]
const LATER: Ways = [['defer', 'deferred']]
const INBOX: Ways = [['message', 'inbox']]

export interface ReplyParts {
  database: Database
  conversations: Pick<Conversations, 'recheckSoon'>
  push: Pick<Push, 'put'>
  metrics: Metrics
}

const NOT_ITS_SENDER = 'Only who has sent a task may give it a webhook'

/** Read, try, read again: between the two a todo may move, but not for ever. */
const TRIES = 10

export const createReply =
  ({ database, conversations, push, metrics }: ReplyParts): Reply =>
  async (id, sent, scope, senderId, key = null, config = undefined, meant = undefined) => {
    for (let tried = 1; ; tried += 1) {
      const view = await readView(database, id, scope)
      if (!view) throw new Refusal('not_found')
      const { todo } = view
      if (config && todo.clientId !== senderId) throw new Refusal('forbidden', {}, NOT_ITS_SENDER)
      if (sent.contextId !== undefined && sent.contextId !== todo.contextId) {
        throw invalid('message.contextId', 'is not the context of this task')
      }
      const before = key && (await readKey(database, key))
      if (before) return replayed(database, key, before, scope)
      const known = view.messages.find(({ message }) => message.messageId === sent.messageId)
      if (known) {
        if (key) await addKey(database, key, { todoId: todo.id, seq: known.seq })
        return repeated(view, known.seq)
      }
      if (todo.finishedAt) throw finished(view)

      if (meant !== undefined && !asks(todo, meant)) {
        throw new Refusal('wrong_state', { id, state: todo.state })
      }
      const question = await checkedAgainst(database, todo, sent)
      const change: Change = {
        message: { ...sent, taskId: todo.id, contextId: todo.contextId },
        ...(senderId !== null && { endpoint: senderId }),
        ...(question !== undefined && { question }),
        ...(key && { key }),
      }
      const keep: Keep | null = config
        ? (session) => push.put(session, todo.id, config, EVERYTHING)
        : null
      const taken = await replyTo(database, todo, change, keep)
      if (taken) {
        if (taken.receipt.outcome === 'requeued') {
          metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'released' })
        }
        // The one at work may have left in that very moment, and neither could see the other.
        if (taken.receipt.outcome === 'deferred' && todo.line) conversations.recheckSoon(todo.line)
        const now = await readView(database, id, EVERYTHING)
        const pushSecret = config && { pushSecret: config.secret }
        return { ...taken, view: now ?? { ...view, todo: taken.todo }, ...pushSecret }
      }
      if (tried >= TRIES) throw new Refusal('wrong_state', { id, state: todo.state })
    }
  }

const finished = ({ todo: { id, state }, result }: TodoView): Refusal => {
  const error = state === 'failed' ? result?.error : null
  return new Refusal('finished', { id, state, ...(typeof error === 'string' && { error }) })
}

const asks = (todo: Todo, question: number): boolean =>
  phaseOf(todo) === 'interrupted' && !todo.answeredAt && todo.statusSeq === question

/** The question this answer was checked against; undefined where none waits for one. */
const checkedAgainst = async (
  database: Database,
  todo: Todo,
  sent: Message,
): Promise<number | undefined> => {
  if (phaseOf(todo) !== 'interrupted' || todo.answeredAt) return undefined
  const schema = await readAnswerSchema(database, todo.id, todo.statusSeq)
  if (schema) checkAnswer(schema, sent)
  return todo.statusSeq
}

interface Accepted {
  todo: Todo
  outcome: Receipt['outcome']
}

/** Keeps what came with the message, in the transaction that takes it. */
type Keep = (session: Session) => Promise<unknown>

/** The first of these that the todo allows; null where none does. */
const firstOf = async (
  move: (verb: Verb) => Promise<Moved | null>,
  ways: Ways,
): Promise<Accepted | null> => {
  for (const [verb, outcome] of ways) {
    const moved = await move(verb)
    if (moved) return { todo: moved.todo, outcome }
  }
  return null
}

/** One transaction: all of it, or null and nothing. */
const allOrNothing = async <T>(
  database: Database,
  work: (session: Session) => Promise<T | null>,
): Promise<T | null> => {
  const nothing = new Error('nothing moved')
  try {
    return await database.transaction(async (session) => {
      const done = await work(session)
      if (done === null) throw nothing
      return done
    })
  } catch (error) {
    if (error === nothing) return null
    throw error
  }
}

/**
 * An answer goes before a newcomer that nobody has claimed yet: who could claim it may be the very
 * agent that waits for the answer. Both move, or neither does.
 */
const goFirst = async (
  database: Database,
  { id, line }: Todo,
  change: Change,
  keep: Keep | null,
): Promise<Accepted | null> => {
  if (line === null) return null
  return allOrNothing(database, async (session) => {
    if (!(await freeLine(session, line))) return null
    await keep?.(session)
    return firstOf((verb) => tryTransition(session, verb, id, change), ANSWERS)
  })
}

const replyTo = async (
  database: Database,
  todo: Todo,
  change: Change,
  keep: Keep | null,
): Promise<{ todo: Todo; after: number; receipt: Receipt } | null> => {
  const { id } = todo
  const { question } = change
  const move = (verb: Verb): Promise<Moved | null> =>
    keep === null
      ? tryTransition(database, verb, id, change)
      : allOrNothing(database, async (session) => {
          await keep(session)
          return tryTransition(session, verb, id, change)
        })
  try {
    // What was read as a question is answered or read again, never put into the inbox instead.
    const taken =
      (await firstOf(move, question === undefined ? INBOX : ANSWERS)) ??
      (question === undefined
        ? null
        : ((await goFirst(database, todo, change, keep)) ?? (await firstOf(move, LATER))))
    if (!taken) return null
    const { seq } = taken.todo
    const receipt = {
      messageId: change.message?.messageId ?? '',
      seq,
      outcome: taken.outcome,
      answers: question ?? null,
    }
    return { todo: taken.todo, after: seq, receipt }
  } catch (error) {
    // Sent twice at the same moment: the other one is in; the next look finds it.
    if (!(error instanceof Refusal && error.kind === 'duplicate')) throw error
  }
  return null
}
