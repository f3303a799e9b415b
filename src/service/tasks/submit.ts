/**
 * How a message without a task becomes a todo: by its queue's policy, and by what its conversation
 * is doing. In a serial queue it stands in line behind the todo at work. Its sender may ask for
 * something else (docs/design/lifecycle-layer.md, section 6), and a queue may let an author speak
 * to its live todo without naming it.
 */
import { defined } from '../../base/defined.ts'
import { newId } from '../../base/uuid.ts'
import { type Endpoint, EVERYTHING } from '../../domain/endpoint.ts'
import { isRefusal, Refusal } from '../../domain/errors.ts'
import { phaseOf } from '../../domain/lifecycle.ts'
import type { BusyPolicy } from '../../domain/policy.ts'
import type { KeptPushConfig } from '../../domain/push.ts'
import type { Queue } from '../../domain/queue.ts'
import { authorOf } from '../../domain/sends/author.ts'
import {
  checkPriority,
  checkStart,
  hasStart,
  maxDelaySeconds,
  PRIORITY,
  SEND_DELAY,
} from '../../domain/sends/send.ts'
import type { Receipt, Todo, TodoView } from '../../domain/todo.ts'
import { addTodo, addTodoOnce, addTodos, isPlain, type NewTodo } from '../../store/move/add.ts'
import { readClock } from '../../store/postgres/clock.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readKey, type SendKey } from '../../store/todos/idempotency.ts'
import {
  type AuthorsConversation,
  type OpenQuestion,
  readOpenQuestions,
} from '../../store/todos/questions.ts'
import { readConversation, readView } from '../../store/todos/view.ts'
import { createBatcher } from '../batcher.ts'
import type { Parts } from '../parts.ts'
import { cancelIfLive } from './cancel.ts'
import { shrink } from './children.ts'
import { beside, type Send, type Sent } from './client.ts'
import { type Conversations, lineOf } from './conversations.ts'
import { type Keys, replayed } from './idempotency.ts'
import { asks } from './questions.ts'
import type { Reply } from './reply.ts'
import type { SendRate } from './send-rate.ts'
import { excerpt, withoutAnswerer } from './text.ts'

interface SubmitterParts extends Pick<Parts, 'database' | 'metrics' | 'registry'> {
  reply: Reply
  conversations: Conversations
  sendRate: SendRate
  keys: Keys
}

export interface Submitter {
  /**
   * Makes a todo, or hands the message to the author's live one. A repeated send is answered with
   * what it was before.
   */
  submit(send: Send, queue: Queue, client: Endpoint | null, push?: KeptPushConfig): Promise<Sent>
  /** The todo that a tick of this schedule makes; its caller adds it, and says so by `accepted`. */
  prepare(send: Send, queue: Queue, schedule: string): NewTodo
  accepted(todo: Todo): void
  /** Adds a todo as it is; null if its queue is gone. */
  add(todo: Omit<NewTodo, 'line'>, queue: Queue): Promise<Todo | null>
}

export const createSubmitter = (parts: SubmitterParts): Submitter => {
  const { database, reply, conversations, sendRate, keys, metrics } = parts
  const addBatched = createBatcher<NewTodo, Todo | null>({
    runOne: (todo) => addTodo(database, todo),
    runBatch: (todos) => addTodos(database, todos),
  })

  const readOpen = openQuestionReader(database)
  const answerQuestion = questionAnswerer(database, reply, readOpen)

  const accept = (added: Todo): Todo => {
    const { queue, state } = added
    metrics.todosSent.inc({ queue })
    if (state === 'rejected') metrics.todosFinished.inc({ queue, state })
    else if (added.line && !added.front) conversations.recheckSoon(added.line)
    return added
  }

  const add: Submitter['add'] = async (todo, queue) => {
    const whole = inLine(todo, queue)
    const added = await (isPlain(whole) ? addBatched(whole) : addTodo(database, whole))
    return added && accept(added)
  }

  /** Like `add` if the key is free; else what the send made that has used the key. */
  const addOnce = async (
    todo: Omit<NewTodo, 'line'>,
    queue: Queue,
    key: SendKey,
  ): Promise<Todo | Sent | null> => {
    const added = await addTodoOnce(database, inLine(todo, queue), key)
    if (added && 'todoId' in added) return replayed(database, key, added, EVERYTHING)
    return added && accept(added)
  }

  /**
   * Cancels what the sender asks to be canceled, `own` alone; true if it asks to be rejected instead,
   * which whoever's todo is at the front is a reason for.
   */
  const makeWay = async (
    live: readonly Todo[],
    own: readonly Todo[],
    busy: BusyPolicy,
  ): Promise<boolean> => {
    if (busy === 'reject') return live.some((todo) => todo.front)
    const front = own.filter((todo) => todo.front)
    const canceled = { enqueue: [], interrupt: front, rollback: own }[busy]
    // From the back, so that nobody comes to the front only to be canceled there.
    for (const { id } of canceled.toReversed()) await cancelIfLive(database, metrics, id)
    return false
  }

  return {
    add,
    accepted: (todo) => void accept(todo),
    prepare: (send, queue, schedule) => inLine(ofSchedule(send, queue, schedule), queue),
    submit: async (given, queue, client, push) => {
      const send = client ? { ...given, message: withoutAnswerer(given.message) } : given
      const clientId = client?.id ?? null
      const author = authorOf(client, send.author)
      if (client) sendRate.spend(client)
      await checkOptions(parts, send, queue, client)
      const { message } = send
      const key = await keys.of(send, queue.policy, clientId)
      const contextId = message.contextId || newId()
      const line = message.contextId ? lineOf(queue, clientId, contextId) : null
      const busy = send.busy ?? 'enqueue'
      const needsLive = line !== null && (busy !== 'enqueue' || queue.policy.reentry === 'author')
      const place = { contextId, clientId, author }
      const live = needsLive ? await readConversation(database, { ...place, line }) : []
      // The line may be shared with others; what is said and canceled there is the author's own.
      const own = live.filter((todo) => todo.clientId === clientId && todo.author === author)

      // The key is read after the live todos: what this send made before is among them only with its
      // key in place, so a repeat never cancels, or speaks to, its own first todo.
      const known = key && needsLive && (await readKey(database, key))
      if (known) return replayed(database, key, known, EVERYTHING)

      const answered = await answerQuestion(send, { queue: queue.name, ...place }, queue, {
        key,
        push,
      })
      if (answered) return answered

      if (queue.policy.reentry === 'author' && !meansNew(send)) {
        const addressed = addressedAmong(own)
        if (addressed) {
          const { id } = addressed
          const to = { id, scope: EVERYTHING, senderId: clientId, request: beside(send) }
          return reply({ ...to, message, key, push })
        }
      }
      const effects = shrink(client?.effects ?? null, send.effects) ?? undefined
      const rejected = await makeWay(live, own, busy)
      const fresh = freshTodo(send, queue, {
        ...place,
        // Nobody else can be in a conversation that begins with this message.
        firstInLine: !message.contextId,
        ...defined({ effects, push, rejected: rejected || undefined }),
      })
      // What the client may have meant to answer is read beside the add, and only in a conversation.
      const [todo, open] = await Promise.all([
        key ? addOnce(fresh, queue, key) : add(fresh, queue),
        message.contextId ? readOpen({ queue: queue.name, ...place }) : [],
      ])
      if (todo && 'view' in todo) return todo
      const view = todo && (await newView(todo, send))
      if (!view) throw new Refusal('forbidden')
      return {
        view,
        after: rejected ? 0 : todo.seq,
        ...(open.length > 0 && { receipt: createdBeside(message.messageId, open) }),
        ...(push && { pushSecret: push.secret }),
      }
    },
  }

  /** A todo at the front is what was just written; for one in line we read behind whom it waits. */
  async function newView(todo: Todo, { message, metadata }: Send): Promise<TodoView | null> {
    const { id: taskId, contextId, createdAt: receivedAt } = todo
    if (todo.line && !todo.front) return readView(database, taskId, EVERYTHING)
    const said = { ...message, taskId, contextId }
    return {
      todo,
      messages: [{ seq: 1, message: said, receivedAt, ...NOT_AN_ANSWER }],
      artifacts: [],
      metadata: metadata ?? null,
      result: null,
      waitsBehind: null,
      behindOther: false,
      retriedAs: null,
      direct: false,
    }
  }
}

/** An author's open question comes first; else whatever is at work for it, or goes on in its turn. */
const addressedAmong = (own: readonly Todo[]): Todo | undefined =>
  own.find(asks) ??
  own.find((todo) => todo.front) ??
  own.find((todo) => phaseOf(todo) === 'interrupted')

/** A sender that has an id for a new todo already, or a moment, does not mean the one at work. */
const meansNew = (send: Send): boolean => send.id !== undefined || hasStart(send)

/** Refuses: forbidden, limit, by what this sender may name. */
const checkOptions = async (
  { database, registry }: Pick<SubmitterParts, 'database' | 'registry'>,
  send: Send,
  queue: Queue,
  client: Endpoint | null,
): Promise<void> => {
  if (client && send.priority !== undefined) checkPriority(send.priority, client, queue.policy)
  if (!hasStart(send)) return
  const max = maxDelaySeconds((await registry.settings()).get(SEND_DELAY.setting))
  const now = send.notBefore ? await readClock(database) : new Date(0)
  checkStart(send, now, max)
}

type ReadOpen = (conversation: AuthorsConversation) => Promise<OpenQuestion[]>

const openQuestionReader = (database: Database): ReadOpen =>
  createBatcher<AuthorsConversation, OpenQuestion[]>({
    runOne: async (one) => (await readOpenQuestions(database, [one]))[0] ?? [],
    runBatch: (all) => readOpenQuestions(database, all),
  })

/**
 * By a queue's policy a message that names no task answers its author's one open question in the
 * conversation. Null where there is none, where there are more, or where it was answered meanwhile:
 * then the message makes a task, and never goes into work that asks nothing.
 */
const questionAnswerer =
  (database: Database, reply: Reply, readOpen: ReadOpen) =>
  async (
    send: Send,
    conversation: AuthorsConversation,
    { policy }: Queue,
    more: { key: SendKey | null; push: KeptPushConfig | undefined },
  ): Promise<Sent | null> => {
    const { message } = send
    if (policy.reentry !== 'question' || !message.contextId || meansNew(send)) return null
    const [asking, ...others] = await readOpen(conversation)
    // Read after the questions, as after the live todos: a repeat never answers a later question.
    const known = more.key && (await readKey(database, more.key))
    if (more.key && known) return replayed(database, more.key, known, EVERYTHING)
    if (!asking || others.length > 0) return null
    try {
      const { clientId: senderId } = conversation
      const to = { id: asking.id, question: asking.seq, scope: EVERYTHING, senderId }
      return await reply({ ...to, ...more, message, request: beside(send) })
    } catch (error) {
      if (isRefusal(error, 'wrong_state') || isRefusal(error, 'finished')) return null
      throw error
    }
  }

/** Says of a message that made a todo that its sender is still asked something there. */
const createdBeside = (messageId: string, open: readonly OpenQuestion[]): Receipt => ({
  messageId,
  seq: 1,
  outcome: 'created',
  answers: null,
  openQuestions: open.map(({ id }) => id),
})

const NOT_AN_ANSWER = { answers: null, secret: false, sender: null, request: null }

/** The todo that a message without one makes, by its queue's policy and its sender's options. */
const freshTodo = (
  { id = newId(), message, metadata, request, priority = PRIORITY.normal, timeouts, ...rest }: Send,
  { name, policy }: Queue,
  facts: Pick<
    NewTodo,
    'clientId' | 'author' | 'contextId' | 'firstInLine' | 'effects' | 'rejected' | 'push'
  >,
): Omit<NewTodo, 'line'> => ({
  ...facts,
  id,
  queue: name,
  priority,
  maxAttempts: policy.maxAttempts,
  message: { ...message, taskId: id, contextId: facts.contextId },
  ...defined({
    metadata,
    request,
    budget: rest.budget,
    notBefore: rest.notBefore,
    delaySeconds: rest.delaySeconds,
  }),
  timeouts: { ...policy.timeouts, ...timeouts },
  detail: { text: excerpt(message) },
})

/** What a tick of a schedule makes. */
const ofSchedule = (send: Send, queue: Queue, schedule: string): Omit<NewTodo, 'line'> => {
  const { contextId } = send.message
  const facts = { clientId: null, contextId: contextId || newId(), firstInLine: !contextId }
  const todo = freshTodo(send, queue, facts)
  const detail = { ...todo.detail, ...defined({ notBefore: send.notBefore?.toISOString() }) }
  return { ...todo, schedule, detail: { ...detail, schedule } }
}

/** With its place in the line of its conversation, where todos take turns. */
const inLine = (todo: Omit<NewTodo, 'line'>, queue: Queue): NewTodo => {
  const line = lineOf(queue, todo.clientId, todo.contextId)
  return line ? { ...todo, line } : todo
}
