/**
 * A message that names a live todo: it answers its question, or goes into its inbox, where it stays
 * owed until the holder has acknowledged it. What the todo already has, under the same message id and
 * with the same content, is not written twice; under an id of another message it is a message of its
 * own. Every outcome is named in the receipt.
 */

import { createHash } from 'node:crypto'
import { defined } from '../../base/defined.ts'
import { EVERYTHING, type Scope } from '../../domain/endpoint.ts'
import { invalid, isRefusal, orNotFound, Refusal } from '../../domain/errors.ts'
import type { Verb } from '../../domain/lifecycle.ts'
import type { KeptPushConfig } from '../../domain/push.ts'
import type { Message, Receipt, RequestFacts, Todo } from '../../domain/todo.ts'
import type { Change } from '../../store/move/change.ts'
import { freeLine, type Moved, tryTransition, whyNot } from '../../store/move/move.ts'
import type { Database, Session } from '../../store/postgres/database.ts'
import { addKey, readKey, type SendKey } from '../../store/todos/idempotency.ts'
import {
  type Brief,
  readAnswerSchema,
  readBrief,
  readKept,
  readView,
} from '../../store/todos/view.ts'
import { countEnded } from '../count-ended.ts'
import type { Parts } from '../parts.ts'
import type { Push } from '../push/configs.ts'
import type { AnswerSchemas } from '../schemas/answers.ts'
import type { Conversations } from './conversations.ts'
import { contentText, type Replied, repeated, replayed } from './idempotency.ts'
import { asks } from './questions.ts'
import { withoutAnswerer } from './text.ts'

/** A message to a live todo. */
interface NewReply {
  /** The todo. */
  id: string
  message: Message
  /** What the sender may see. */
  scope: Scope
  /** An endpoint, or null for an operator. */
  senderId: string | null
  /** What its client said beside it. */
  request?: RequestFacts | undefined
  /** A message is accepted once under one key. */
  key?: SendKey | null
  /** A webhook that came with the message: it is kept with the message or not at all. */
  push?: KeptPushConfig | undefined
  /** The seq of the question that it is meant for: it answers that one or is refused. */
  question?: number | undefined
}

export type Reply = (reply: NewReply) => Promise<Replied>

/** Verbs that accept a client's message, in the order they are tried, and what each makes of it. */
type Ways = readonly (readonly [Verb, Receipt['outcome']])[]
const ANSWERS: Ways = [
  ['resume', 'resumed'],
  ['answer', 'requeued'],
]
const LATER: Ways = [['defer', 'deferred']]
const INBOX: Ways = [['message', 'inbox']]

interface ReplyParts extends Pick<Parts, 'database' | 'metrics'> {
  conversations: Pick<Conversations, 'recheckSoon'>
  push: Pick<Push, 'put'>
  schemas: Pick<AnswerSchemas, 'checkAnswer'>
}

/** One for each content, so that the database keeps that once as well. */
const namesakeId = (messageId: string, content: string): string =>
  `${messageId}#${createHash('sha256').update(content).digest('hex')}`

const NOT_ITS_SENDER = 'Only who has sent a task may give it a webhook'

/** Read, try, read again: between the two a todo may move, but not for ever. */
const TRIES = 10

export const createReply = (parts: ReplyParts): Reply => {
  const { database, conversations, push, metrics } = parts

  /** The same message, if the todo has it; another of its id: what this one is to be kept as. */
  const namesakeOf = async (
    { todo, namesake }: Brief,
    message: Message,
  ): Promise<{ known: { seq: number } | null; keptAs: string | undefined }> => {
    if (!namesake) return { known: null, keptAs: undefined }
    const said = contentText(message)
    const keptAs = namesakeId(message.messageId, said)
    const isSame = contentText(namesake.message) === said
    return { known: isSame ? namesake : await readKept(database, todo.id, keptAs), keptAs }
  }

  /** Null if the todo moved between reading and writing: it has to be read again. */
  const tryOnce = async (reply: NewReply, brief: Brief): Promise<Replied | null> => {
    const { scope, senderId, key, push: config } = reply
    const message = senderId === null ? reply.message : withoutAnswerer(reply.message)
    const { todo } = brief
    if (config && todo.clientId !== senderId) throw new Refusal('forbidden', {}, NOT_ITS_SENDER)
    if (message.contextId !== undefined && message.contextId !== todo.contextId) {
      throw invalid('message.contextId', 'is not the context of this task')
    }
    const before = key && (await readKey(database, key))
    if (before) return replayed(database, key, before, scope)
    const { known, keptAs } = await namesakeOf(brief, message)
    if (known) {
      if (key) await addKey(database, key, { todoId: todo.id, seq: known.seq })
      return repeated(database, todo.id, known.seq, scope)
    }
    if (todo.finishedAt) throw finished(brief)

    const expected = reply.question
    if (expected !== undefined && !(asks(todo) && todo.statusSeq === expected)) {
      throw new Refusal('wrong_state', { id: todo.id, state: todo.state })
    }
    const change: Change = {
      message: { ...message, taskId: todo.id, contextId: todo.contextId },
      ...defined({
        endpoint: senderId ?? undefined,
        request: reply.request,
        question: await checkedAgainst(parts, todo, message),
        key: key ?? undefined,
        keptAs,
      }),
    }
    const keep: Keep | null = config
      ? (session) => push.put(session, todo.id, config, EVERYTHING)
      : null
    const accepted = await replyTo(database, todo, change, keep)
    if (!accepted) {
      const verb = change.question === undefined ? 'message' : 'resume'
      const { refusal } = await whyNot(database, verb, todo.id, change, scope)
      if (refusal.kind === 'limit') throw refusal
      return null
    }
    const { moved, outcome } = accepted
    const { seq } = moved.todo
    if (outcome === 'requeued') countEnded(metrics, moved, 'released')
    // The todo at work may have left in that very moment, and neither could see the other.
    if (outcome === 'deferred' && todo.line) conversations.recheckSoon(todo.line)
    const now = await readView(database, todo.id, EVERYTHING)
    return {
      view: orNotFound(now),
      after: seq,
      receipt: { messageId: message.messageId, seq, outcome, answers: change.question ?? null },
      ...(config && { pushSecret: config.secret }),
    }
  }

  return async (reply) => {
    for (let tries = 1; ; tries += 1) {
      const { id, scope, message } = reply
      const brief = orNotFound(await readBrief(database, id, scope, message.messageId))
      const replied = await tryOnce(reply, brief)
      if (replied) return replied
      if (tries >= TRIES) throw new Refusal('wrong_state', { id, state: brief.todo.state })
    }
  }
}

const finished = ({ todo: { id, state }, error }: Brief): Refusal =>
  new Refusal('finished', { id, state, ...(error !== null && { error }) })

/** The question that this answer was checked against; undefined if none waits for one. */
const checkedAgainst = async (
  { database, schemas }: Pick<ReplyParts, 'database' | 'schemas'>,
  todo: Todo,
  answer: Message,
): Promise<number | undefined> => {
  if (!asks(todo)) return undefined
  const asked = await readAnswerSchema(database, todo.id, todo.statusSeq)
  if (asked) {
    const { schema, sender } = asked
    await schemas.checkAnswer({ schema, owner: sender, subject: todo.id }, answer)
  }
  return todo.statusSeq
}

interface Accepted {
  moved: Moved
  outcome: Receipt['outcome']
}

/** Keeps what came with the message, in the transaction that accepts it. */
type Keep = (session: Session) => Promise<unknown>

/** The first of these ways that the todo allows; null if it allows none. */
const firstOf = async (
  move: (verb: Verb) => Promise<Moved | null>,
  ways: Ways,
): Promise<Accepted | null> => {
  for (const [verb, outcome] of ways) {
    const moved = await move(verb)
    if (moved) return { moved, outcome }
  }
  return null
}

/** One transaction that does all of the work, or returns null and has done nothing. */
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
 * An answer goes before a newcomer that nobody has claimed yet: who could claim that may be the very
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
): Promise<Accepted | null> => {
  const move = (verb: Verb): Promise<Moved | null> =>
    keep === null
      ? tryTransition(database, verb, todo.id, change)
      : allOrNothing(database, async (session) => {
          await keep(session)
          return tryTransition(session, verb, todo.id, change)
        })
  try {
    // What was read as a question is answered or read again, never put into the inbox instead.
    if (change.question === undefined) return await firstOf(move, INBOX)
    return (
      (await firstOf(move, ANSWERS)) ??
      (await goFirst(database, todo, change, keep)) ??
      (await firstOf(move, LATER))
    )
  } catch (error) {
    // It was sent twice at the same moment: the other one is in, and the next read finds it.
    if (isRefusal(error, 'duplicate')) return null
    throw error
  }
}
