/**
 * What a client may ask: send, get, list, cancel. A message that names a live todo answers its
 * question, or goes into its inbox, where it stays owed until the holder has acknowledged it. A
 * message id that the todo already has is the same message: nothing is written twice.
 */
import { randomUUID } from 'node:crypto'
import type { Metrics } from '../base/metrics.ts'
import { invalid, Refusal } from '../domain/errors.ts'
import { phaseOf, settled } from '../domain/lifecycle.ts'
import { DEFAULT_POLICY } from '../domain/policy.ts'
import { type Caller, EVERYTHING, may, type Scope } from '../domain/scope.ts'
import type { Message, Receipt, StoredMessage, Todo, TodoView } from '../domain/todo.ts'
import type { Database } from '../store/database.ts'
import { addTodo, listTodos, readAnswerSchema, readView } from '../store/todos.ts'
import { type Change, transitionOne, tryTransition } from '../store/transition.ts'
import { checkAnswer } from './answer-schema.ts'
import type { ClientService, Send, Sent } from './contract.ts'
import type { Directory } from './directory.ts'
import { excerpt } from './excerpt.ts'

export interface ClientParts {
  database: Database
  directory: Directory
  metrics: Metrics
}

/** A message to a live todo, by an endpoint or (null) an operator, within what it may see. */
export type Deliver = (
  id: string,
  message: Message,
  scope: Scope,
  senderId: string | null,
) => Promise<Required<Sent>>

/** Verbs that take a client's message, in the order they are tried, and what each makes of it. */
const TAKES_MESSAGE = [
  ['resume', 'resumed'],
  ['answer', 'requeued'],
  ['message', 'inbox'],
] as const

/** Read, try, read again: between the two a todo may move, but not for ever. */
const TRIES = 10

export const createDeliver =
  ({ database, metrics }: { database: Database; metrics: Metrics }): Deliver =>
  async (id, sent, scope, senderId) => {
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

      const question = await checkedAgainst(database, todo, sent)
      const taken = await deliverTo(database, todo, sent, senderId, question)
      if (taken) {
        if (taken.receipt.outcome === 'requeued') {
          metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'released' })
        }
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

/** The question this answer was checked against; undefined where none is open. */
const checkedAgainst = async (
  database: Database,
  todo: Todo,
  sent: Message,
): Promise<number | undefined> => {
  if (phaseOf(todo) !== 'interrupted') return undefined
  const schema = await readAnswerSchema(database, todo.id, todo.statusSeq)
  if (schema) checkAnswer(schema, sent)
  return todo.statusSeq
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
    for (const [verb, outcome] of TAKES_MESSAGE) {
      // What was read as a question is answered or read again, never put into the inbox instead.
      if ((question !== undefined) !== (verb !== 'message')) continue
      const moved = await tryTransition(database, verb, todo.id, change)
      if (!moved) continue
      const { seq } = moved.todo
      const receipt = { messageId: sent.messageId, seq, outcome, answers: question ?? null }
      return { todo: moved.todo, after: seq, receipt }
    }
  } catch (error) {
    // Sent twice at the same moment: the other one is in; the next look finds it.
    if (!(error instanceof Refusal && error.kind === 'duplicate')) throw error
  }
  return null
}

export const createClientService = (
  parts: ClientParts,
  deliver: Deliver = createDeliver(parts),
): ClientService => {
  const { database, directory, metrics } = parts

  const create = async (
    { queue, message, metadata, priority, timeouts }: Send,
    clientId: string,
  ): Promise<Sent> => {
    const found = await directory.queue(queue)
    if (!found) throw new Refusal('forbidden')
    const id = randomUUID()
    const contextId = message.contextId || randomUUID()
    const whole = { ...message, taskId: id, contextId }
    const todo = await addTodo(database, {
      id,
      queue,
      contextId,
      clientId,
      priority: priority ?? 1,
      maxAttempts: found.policy.maxAttempts ?? DEFAULT_POLICY.maxAttempts,
      message: whole,
      ...(metadata && { metadata }),
      timeouts: { ...found.policy.timeouts, ...timeouts },
      detail: { text: excerpt(message) },
    })
    if (!todo) throw new Refusal('forbidden')
    metrics.todosSent.inc({ queue })
    return {
      view: {
        todo,
        messages: [
          { seq: 1, message: whole, receivedAt: todo.createdAt, answers: null, secret: false },
        ],
        artifacts: [],
        metadata: metadata ?? null,
        result: null,
        direct: false,
      },
      after: todo.seq,
    }
  }

  /** Its own tasks for a client; with the verb `answer`, any task of the queue. */
  const scopeFor = (caller: Caller, queue: string): Scope => {
    if (caller.kind === 'operator') throw new Refusal('forbidden')
    if (may(caller, 'answer', queue)) return { kind: 'queues', queues: [queue] }
    return { kind: 'client', clientId: caller.endpoint.id, queue }
  }

  return {
    send: async (send, caller) => {
      if (caller.kind === 'operator') throw new Refusal('forbidden')
      const { message, queue } = send
      if (message.taskId) {
        if (!may(caller, 'send', queue) && !may(caller, 'answer', queue)) {
          throw new Refusal('forbidden')
        }
        return deliver(message.taskId, message, scopeFor(caller, queue), caller.endpoint.id)
      }
      if (!may(caller, 'send', queue)) throw new Refusal('forbidden')
      return create(send, caller.endpoint.id)
    },
    get: async (id, scope, options) => {
      const view = await readView(database, id, scope, options?.artifacts ?? true)
      if (!view) throw new Refusal('not_found')
      return view
    },
    list: (filter, scope) => listTodos(database, filter, scope),
    cancel: (id, scope) => cancelTodo(database, metrics, id, scope),
  }
}

/** Ends a todo that has not ended; one canceled before is returned as it is. */
export const cancelTodo = async (
  database: Database,
  metrics: Metrics,
  id: string,
  scope: Scope,
): Promise<TodoView> => {
  const before = await readView(database, id, scope)
  if (!before) throw new Refusal('not_found')
  if (before.todo.state === 'canceled') return before
  try {
    const { todo, from } = await transitionOne(database, 'cancel', id, {}, scope)
    metrics.todosFinished.inc({ queue: todo.queue, state: todo.state })
    if (from !== 'pending' && from !== 'failed') {
      metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'canceled' })
    }
  } catch (error) {
    if (!(error instanceof Refusal && error.kind === 'wrong_state')) throw error
    const now = await readView(database, id, scope)
    if (now?.todo.state === 'canceled') return now
    throw new Refusal('not_cancelable', {
      id,
      ...(error.detail.state && { state: error.detail.state }),
    })
  }
  const after = await readView(database, id, scope)
  if (!after) throw new Refusal('not_found')
  return after
}
