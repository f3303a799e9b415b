/**
 * How a message without a task becomes a todo: by its queue's policy, and by what its conversation
 * is doing. In a serial queue it stands in line behind the todo at work; its sender may wish for
 * something else (system.md section 7), and a queue may let an author speak to its live todo
 * without naming it.
 */
import { randomUUID } from 'node:crypto'
import type { Metrics } from '../base/metrics.ts'
import { Refusal } from '../domain/errors.ts'
import { phaseOf } from '../domain/lifecycle.ts'
import type { BusyPolicy } from '../domain/policy.ts'
import type { Queue } from '../domain/queue.ts'
import { type Endpoint, EVERYTHING } from '../domain/scope.ts'
import type { Todo } from '../domain/todo.ts'
import type { Database } from '../store/database.ts'
import type { KeptPushConfig } from '../store/push-configs.ts'
import { addTodo, type NewTodo } from '../store/todos.ts'
import { readConversation, readView } from '../store/views.ts'
import { shrink } from './budget.ts'
import { cancelTodo } from './cancel.ts'
import type { Send, Sent } from './contract.ts'
import type { Deliver } from './deliver.ts'
import { excerpt } from './excerpt.ts'
import { type Lines, lineOf } from './lines.ts'
import type { Rate } from './rate.ts'

export interface IntakeParts {
  database: Database
  deliver: Deliver
  lines: Lines
  rate: Rate
  metrics: Metrics
}

export interface Intake {
  /** A todo, or the message handed to the author's live one. */
  take(send: Send, queue: Queue, client: Endpoint | null, push?: KeptPushConfig): Promise<Sent>
  /** A todo as it is; null where its queue is gone. */
  add(todo: Omit<NewTodo, 'line'>, queue: Queue): Promise<Todo | null>
}

export const createIntake = ({ database, deliver, lines, rate, metrics }: IntakeParts): Intake => {
  const add: Intake['add'] = async (todo, queue) => {
    const line = lineOf(queue, todo.clientId, todo.contextId)
    const added = await addTodo(database, { ...todo, ...(line && { line }) })
    if (!added) return null
    metrics.todosSent.inc({ queue: queue.name })
    if (added.state === 'rejected') {
      metrics.todosFinished.inc({ queue: queue.name, state: added.state })
    } else if (added.line && !added.front) lines.expect(added.line)
    return added
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
    take: async (send, queue, client, push) => {
      const clientId = client?.id ?? null
      const granted = client?.effects ?? null
      if (client) rate.take(client)
      const { message } = send
      const contextId = message.contextId || randomUUID()
      const line = message.contextId ? lineOf(queue, clientId, contextId) : null
      const busy = send.busy ?? 'enqueue'
      const looks = line !== null && (busy !== 'enqueue' || queue.policy.reentry === 'author')
      const live = looks ? await readConversation(database, contextId, line) : []

      // Who has the id of a new todo already does not mean the one at work.
      if (queue.policy.reentry === 'author' && send.id === undefined) {
        // Its open question first; else whatever is at work for it.
        const addressed =
          live.find((todo) => phaseOf(todo) === 'interrupted') ?? live.find((todo) => todo.front)
        if (addressed) return deliver(addressed.id, message, EVERYTHING, clientId, push)
      }
      const effects = shrink(granted, send.effects)
      const rejected = await giveWay(live, busy)
      const id = send.id ?? randomUUID()
      const todo = await add(
        {
          id,
          queue: queue.name,
          contextId,
          clientId,
          priority: send.priority ?? 1,
          maxAttempts: queue.policy.maxAttempts,
          message: { ...message, taskId: id, contextId },
          ...(send.metadata && { metadata: send.metadata }),
          timeouts: { ...queue.policy.timeouts, ...send.timeouts },
          ...(effects && { effects }),
          detail: { text: excerpt(message) },
          ...(rejected && { rejected }),
          ...(push && { push }),
        },
        queue,
      )
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
