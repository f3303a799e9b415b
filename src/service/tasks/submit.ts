/**
 * How a message without a task becomes a todo: by its queue's policy, and by what its conversation
 * is doing. In a serial queue it stands in line behind the todo at work; its sender may wish for
 * something else (docs/design/lifecycle-layer.md, section 6), and a queue may let an author speak
 * to its live todo without naming it.
 */

import type { Metrics } from '../../base/metrics.ts'
import { newId } from '../../base/uuid.ts'
import { type Endpoint, EVERYTHING } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { phaseOf } from '../../domain/lifecycle.ts'
import type { BusyPolicy } from '../../domain/policy.ts'
import type { KeptPushConfig } from '../../domain/push.ts'
import type { Queue } from '../../domain/queue.ts'
import type { Todo } from '../../domain/todo.ts'
import { addTodo, addTodoOnce, addTodos, isPlain, type NewTodo } from '../../store/move/add.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readKey, type SendKey } from '../../store/todos/idempotency.ts'
import { readConversation, readView } from '../../store/todos/view.ts'
import { createBatcher } from '../batcher.ts'
import { shrink } from './budget.ts'
import { cancelTodo } from './cancel.ts'
import type { Send, Sent } from './client.ts'
import { type Conversations, lineOf } from './conversations.ts'
import { type Keys, replayed } from './idempotency.ts'
import type { Reply } from './reply.ts'
import type { SendRate } from './send-rate.ts'
import { excerpt } from './text.ts'

export interface SubmitterParts {
  database: Database
  reply: Reply
  conversations: Conversations
  sendRate: SendRate
  keys: Keys
  metrics: Metrics
}

export interface Submitter {
  /** A todo, or the message handed to the author's live one; what it was before, if repeated. */
  submit(send: Send, queue: Queue, client: Endpoint | null, push?: KeptPushConfig): Promise<Sent>
  /** A todo as it is; null where its queue is gone. */
  add(todo: Omit<NewTodo, 'line'>, queue: Queue): Promise<Todo | null>
}

export const createSubmitter = (parts: SubmitterParts): Submitter => {
  const { database, reply, conversations, sendRate, keys, metrics } = parts
  const gathered = createBatcher<NewTodo, Todo | null>({
    runOne: (todo) => addTodo(database, todo),
    runBatch: (todos) => addTodos(database, todos),
  })

  const placed = (todo: Omit<NewTodo, 'line'>, queue: Queue): NewTodo => {
    const line = lineOf(queue, todo.clientId, todo.contextId)
    return { ...todo, ...(line && { line }) }
  }

  const counted = (added: Todo): Todo => {
    const { queue, state } = added
    metrics.todosSent.inc({ queue })
    if (state === 'rejected') metrics.todosFinished.inc({ queue, state })
    else if (added.line && !added.front) conversations.recheckSoon(added.line)
    return added
  }

  const add: Submitter['add'] = async (todo, queue) => {
    const whole = placed(todo, queue)
    const added = await (isPlain(whole) ? gathered(whole) : addTodo(database, whole))
    return added && counted(added)
  }

  /** As add where the key is free; else what the send was that claimed it. */
  const addOnce = async (
    todo: Omit<NewTodo, 'line'>,
    queue: Queue,
    key: SendKey,
  ): Promise<Todo | Sent | null> => {
    const added = await addTodoOnce(database, placed(todo, queue), key)
    if (added && 'todoId' in added) return replayed(database, key, added, EVERYTHING)
    return added && counted(added)
  }

  /** Makes room as the sender wishes; true when it wishes to be refused. */
  const giveWay = async (live: readonly Todo[], busy: BusyPolicy): Promise<boolean> => {
    const front = live.filter((todo) => todo.front)
    if (busy === 'reject') return front.length > 0
    const canceled = { enqueue: [], interrupt: front, rollback: live }[busy]
    // From the back, so that nobody comes to the front only to be canceled there.
    for (const todo of canceled.toReversed()) {
      await cancelTodo(database, metrics, todo.id, EVERYTHING).catch((error: unknown) => {
        if (!(error instanceof Refusal)) throw error
      })
    }
    return false
  }

  return {
    add,
    submit: async (send, queue, client, push) => {
      const clientId = client?.id ?? null
      const granted = client?.effects ?? null
      if (client) sendRate.take(client)
      const { message } = send
      const key = await keys.of(send, queue.policy, clientId)
      const contextId = message.contextId || newId()
      const line = message.contextId ? lineOf(queue, clientId, contextId) : null
      const busy = send.busy ?? 'enqueue'
      const looks = line !== null && (busy !== 'enqueue' || queue.policy.reentry === 'author')
      const live = looks ? await readConversation(database, contextId, line) : []

      // Looked up after the live ones: what this send made before is among them only with its key
      // in place, so that a repeat never cancels, or speaks to, its own first one.
      const known = key && looks && (await readKey(database, key))
      if (known) return replayed(database, key, known, EVERYTHING)

      // Who has the id of a new todo already does not mean the one at work.
      if (queue.policy.reentry === 'author' && send.id === undefined) {
        // Its open question first; else whatever is at work for it.
        const addressed =
          live.find((todo) => phaseOf(todo) === 'interrupted') ?? live.find((todo) => todo.front)
        if (addressed) return reply(addressed.id, message, EVERYTHING, clientId, key, push)
      }
      const effects = shrink(granted, send.effects)
      const rejected = await giveWay(live, busy)
      const fresh = freshTodo(send, queue, {
        clientId,
        contextId,
        // A conversation that begins with it has nobody else.
        firstInLine: !message.contextId,
        ...(effects && { effects }),
        ...(rejected && { rejected }),
        ...(push && { push }),
      })
      const todo = key ? await addOnce(fresh, queue, key) : await add(fresh, queue)
      if (todo && 'view' in todo) return todo
      const view = todo && (await newView(todo, message, send))
      if (!view) throw new Refusal('forbidden')
      return { view, after: rejected ? 0 : todo.seq, ...(push && { pushSecret: push.secret }) }
    },
  }

  /** A todo at the front is what was just written; one in line says behind whom. */
  async function newView(todo: Todo, message: Send['message'], send: Send) {
    if (todo.line && !todo.front) return readView(database, todo.id, EVERYTHING)
    const { id: taskId, contextId } = todo
    return {
      todo,
      messages: [
        {
          seq: 1,
          message: { ...message, taskId, contextId },
          receivedAt: todo.createdAt,
          answers: null,
          secret: false,
        },
      ],
      artifacts: [],
      metadata: send.metadata ?? null,
      result: null,
      waitsBehind: null,
      direct: false,
    }
  }
}

/** The todo that a message without one makes, by its queue's policy and its sender's wishes. */
const freshTodo = (
  { id = newId(), message, metadata, priority = 1, timeouts }: Send,
  { name, policy }: Queue,
  facts: Pick<NewTodo, 'clientId' | 'contextId' | 'firstInLine' | 'effects' | 'rejected' | 'push'>,
): Omit<NewTodo, 'line'> => {
  return {
    ...facts,
    id,
    queue: name,
    priority,
    maxAttempts: policy.maxAttempts,
    message: { ...message, taskId: id, contextId: facts.contextId },
    ...(metadata && { metadata }),
    timeouts: { ...policy.timeouts, ...timeouts },
    detail: { text: excerpt(message) },
  }
}
