/**
 * A message that names a live todo: it answers its question, or goes into its inbox, where it stays
 * owed until the holder has acknowledged it. A message id that the todo already has is the same
 * message: nothing is written twice. Each has one defined result, which its receipt tells.
 */

import type { Metrics } from '../base/metrics.ts'
import { invalid, Refusal } from '../domain/errors.ts'
import { phaseOf, settled, type Verb } from '../domain/lifecycle.ts'
import { EVERYTHING, type Scope } from '../domain/scope.ts'
import type { Message, Receipt, StoredMessage, Todo, TodoView } from '../domain/todo.ts'
import type { Change } from '../store/change.ts'
import type { Database, Session } from '../store/database.ts'
import { freeLine, tryTransition } from '../store/transition.ts'
import { readAnswerSchema, readView } from '../store/views.ts'
import { checkAnswer } from './answer-schema.ts'
import type { Sent } from './contract.ts'
import type { Lines } from './lines.ts'

/** A message to a live todo, by an endpoint or (null) an operator, within what it may see. */
export type Deliver = (
  id: string,
  message: Message,
  scope: Scope,
  senderId: string | null,
  /** The seq of the question it is meant for: it answers that one or is refused. */
  question?: number,
) => Promise<Required<Sent>>

/** Verbs that take a client's message, in the order they are tried, and what each makes of it. */
type Ways = readonly (readonly [Verb, Receipt['outcome']])[]
const ANSWERS: Ways = [
  ['resume', 'resumed'],
  ['answer', 'requeued'],
]
const LATER: Ways = [['defer', 'deferred']]
const INBOX: Ways = [['message', 'inbox']]

export interface DeliverParts {
  database: Database
  lines: Pick<Lines, 'expect'>
  metrics: Metrics
}

/** Read, try, read again: between the two a todo may move, but not for ever. */
const TRIES = 10

export const createDeliver =
  ({ database, lines, metrics }: DeliverParts): Deliver =>
  async (id, sent, scope, senderId, meant) => {
    for (let tried = 1; ; tried += 1) {
      const view = await readView(database, id, scope)
      if (!view) throw new Refusal('not_found')
      const { todo } = view
      if (sent.contextId !== undefined && sent.contextId !== todo.contextId) {
        throw invalid('message.contextId', 'is not the context of this task')
      }
      const known = view.messages.find(({ message }) => message.messageId === sent.messageId)
      if (known) return repeated(view, known)
      if (todo.finishedAt) throw finished(view)

      if (meant !== undefined && !asks(todo, meant)) {
        throw new Refusal('wrong_state', { id, state: todo.state })
      }
      const question = await checkedAgainst(database, todo, sent)
      const taken = await deliverTo(database, todo, sent, senderId, question)
      if (taken) {
        if (taken.receipt.outcome === 'requeued') {
          metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'released' })
        }
        // The one at work may have left in that very moment, and neither could see the other.
        if (taken.receipt.outcome === 'deferred' && todo.line) lines.expect(todo.line)
        const now = await readView(database, id, EVERYTHING)
        return { ...taken, view: now ?? { ...view, todo: taken.todo } }
      }
      if (tried >= TRIES) throw new Refusal('wrong_state', { id, state: todo.state })
    }
  }

const finished = ({ todo: { id, state }, result }: TodoView): Refusal => {
  const error = state === 'failed' ? result?.error : null
  return new Refusal('finished', { id, state, ...(typeof error === 'string' && { error }) })
}

/** A repeated message waits for what its first sending waits for: a status later than itself. */
const repeated = (view: TodoView, { seq, message, answers }: StoredMessage): Required<Sent> => ({
  view,
  after: settled(view.todo) && view.todo.statusSeq > seq ? 0 : seq,
  receipt: { messageId: message.messageId, seq, outcome: 'repeated', answers },
})

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

interface Taken {
  todo: Todo
  outcome: Receipt['outcome']
}

const firstOf = async (
  session: Session,
  ways: Ways,
  id: string,
  change: Change,
): Promise<Taken | null> => {
  for (const [verb, outcome] of ways) {
    const moved = await tryTransition(session, verb, id, change)
    if (moved) return { todo: moved.todo, outcome }
  }
  return null
}

/**
 * An answer goes before a newcomer that nobody has claimed yet: who could claim it may be the very
 * agent that waits for the answer. Both move, or neither does.
 */
const goFirst = async (database: Database, todo: Todo, change: Change): Promise<Taken | null> => {
  const { id, line, state } = todo
  if (line === null) return null
  try {
    return await database.transaction(async (session) => {
      if (!(await freeLine(session, line))) return null
      const taken = await firstOf(session, ANSWERS, id, change)
      if (!taken) throw new Refusal('wrong_state', { id, state })
      return taken
    })
  } catch (error) {
    if (error instanceof Refusal && error.kind === 'wrong_state') return null
    throw error
  }
}

const deliverTo = async (
  database: Database,
  todo: Todo,
  sent: Message,
  senderId: string | null,
  question: number | undefined,
): Promise<{ todo: Todo; after: number; receipt: Receipt } | null> => {
  const change: Change = {
    message: { ...sent, taskId: todo.id, contextId: todo.contextId },
    ...(senderId !== null && { endpoint: senderId }),
    ...(question !== undefined && { question }),
  }
  try {
    // What was read as a question is answered or read again, never put into the inbox instead.
    const ways = question === undefined ? INBOX : ANSWERS
    const taken =
      (await firstOf(database, ways, todo.id, change)) ??
      (question === undefined
        ? null
        : ((await goFirst(database, todo, change)) ??
          (await firstOf(database, LATER, todo.id, change))))
    if (!taken) return null
    const { seq } = taken.todo
    const receipt = {
      messageId: sent.messageId,
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
