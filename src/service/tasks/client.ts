/**
 * What a client may ask: send, get, list, cancel. Which of the queue's todos it may see follows
 * from the access that it entered with.
 */
import { defined } from '../../base/defined.ts'
import type { Caller, Endpoint, Scope } from '../../domain/endpoint.ts'
import { invalid, orNotFound, Refusal } from '../../domain/errors.ts'
import type { BusyPolicy, Timeouts } from '../../domain/policy.ts'
import type { NewPushConfig } from '../../domain/push.ts'
import { hasStart, type Start } from '../../domain/sends/send.ts'
import type { Amounts } from '../../domain/spend.ts'
import type {
  JsonObject,
  Message,
  Receipt,
  RequestFacts,
  TodoFilter,
  TodoPage,
  TodoView,
} from '../../domain/todo.ts'
import { listTodos } from '../../store/todos/list.ts'
import { readView, readViews } from '../../store/todos/view.ts'
import { createBatcher } from '../batcher.ts'
import type { Parts } from '../parts.ts'
import type { Push } from '../push/configs.ts'
import { type Access, accessTo } from './access.ts'
import { cancelTodo } from './cancel.ts'
import type { Keys } from './idempotency.ts'
import type { Reply } from './reply.ts'
import type { SendRate } from './send-rate.ts'
import type { Submitter } from './submit.ts'

export interface Send extends Start {
  queue: string
  /** The id that the todo gets, if the server has chosen one already. */
  id?: string
  /** The message as it came; the server fills in the ids that it makes. */
  message: Message
  metadata?: JsonObject
  /** What else its request said. */
  request?: RequestFacts
  /** 0 comes first, 1 is the default, 2 comes last. */
  priority?: number
  /** These override the queue's. */
  timeouts?: Timeouts
  /** What to do if its conversation is busy; by default it waits its turn. */
  busy?: BusyPolicy
  /** On whose behalf it is sent. */
  author?: string
  /** What the task may do, within what its sender may. */
  effects?: string[]
  /** What the task may spend. */
  budget?: Amounts
  /** The sender's name for this send: the same send under the same key makes nothing new. */
  idempotencyKey?: string
  /** A webhook for the task: it is kept with the task or not at all. */
  push?: NewPushConfig
}

export interface Sent {
  view: TodoView
  /** Wait for a settled state written after this event; 0 if the todo was settled at once. */
  after: number
  /** What became of a message to a live todo, or of a repeated send. Absent for a new todo. */
  receipt?: Receipt
  /** The secret of the webhook that came with the message, if one was kept: shown only here. */
  pushSecret?: string
}

export interface ClientService {
  /** What the caller may do on this queue. Refuses: forbidden. */
  enter(caller: Caller, queue: string): Promise<Access>
  /**
   * Makes a todo, or hands the message to the live todo that it names: as the answer to its question,
   * or else into its inbox. Refuses: forbidden, not_found, finished, invalid (context mismatch), duplicate
   * (there is a todo with the chosen id), idempotency_conflict (the key was used for another send).
   */
  send(send: Send, access: Access): Promise<Sent>
  get(id: string, scope: Scope): Promise<TodoView>
  list(filter: TodoFilter, scope: Scope): Promise<TodoPage>
  /**
   * A todo canceled before is returned as it is. `reason` is for its holder. Refuses: not_found,
   * not_cancelable.
   */
  cancel(id: string, scope: Scope, reason?: string): Promise<TodoView>
}

/** What a message to a live todo says beside itself: there its request's metadata belongs to it alone. */
export const beside = ({ metadata, author, request }: Send): RequestFacts | undefined =>
  metadata || author || request
    ? defined<RequestFacts>({ metadata, author, ...request })
    : undefined

interface ClientParts extends Pick<Parts, 'database' | 'registry' | 'metrics' | 'pages'> {
  reply: Reply
  submitter: Submitter
  keys: Keys
  sendRate: SendRate
  push: Pick<Push, 'vet'>
}

export const createClientService = (parts: ClientParts): ClientService => {
  const { database, registry, reply, submitter, keys, sendRate, push, metrics, pages } = parts
  const readBatched = createBatcher<{ id: string; scope: Scope }, TodoView | null>({
    keyOf: ({ scope }) => JSON.stringify(scope),
    runOne: ({ id, scope }) => readView(database, id, scope),
    runBatch: (all) =>
      readViews(
        database,
        all.map(({ id }) => id),
        all[0]!.scope,
      ),
  })
  const vetted = ({ push: config }: Send, endpoint: Endpoint) =>
    config && push.vet(config, { kind: 'endpoint', endpoint })
  return {
    enter: async (caller, queue) => accessTo(caller, await registry.queue(queue)),
    send: async (send, access) => {
      const { message } = send
      const { endpoint } = access
      if (!message.taskId) {
        access.own()
        const queue = await registry.queue(send.queue)
        if (!queue) throw new Refusal('forbidden')
        return submitter.submit(send, queue, endpoint, vetted(send, endpoint))
      }
      checkForTask(send)
      sendRate.spend(endpoint)
      const key = await keys.of(send, null, endpoint.id)
      return reply({
        id: message.taskId,
        message,
        scope: access.answering,
        senderId: endpoint.id,
        request: beside(send),
        key,
        push: vetted(send, endpoint),
      })
    },
    get: async (id, scope) => orNotFound(await readBatched({ id, scope })),
    list: (filter, scope) =>
      pages.read({ list: 'tasks', reader: scope }, filter, (page) =>
        listTodos(database, page, scope),
      ),
    cancel: (id, scope, reason) => cancelTodo(database, metrics, id, scope, reason),
  }
}

/** A message to a task is read in its turn, so it cannot be asked to wait. Refuses: invalid. */
const checkForTask = (send: Send): void => {
  if (!hasStart(send) && send.priority === undefined) return
  throw invalid('message.taskId', 'names a task: a priority, a moment or a delay is for a new one')
}
