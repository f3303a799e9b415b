/**
 * What an operator may ask: queues, endpoints, settings, and any todo. Endpoints with the verbs
 * `watch` and `answer` may look and answer in their own queues.
 */
import { type Caller, EVERYTHING, readerOf, watchScope } from '../../domain/endpoint.ts'
import { orNotFound, Refusal } from '../../domain/errors.ts'
import type {
  Attempt,
  Child,
  Fact,
  JoinTerms,
  JoinUntil,
  Message,
  Receipt,
  StoredMessage,
  TodoFilter,
  TodoPage,
  TodoView,
} from '../../domain/todo.ts'
import type { Why } from '../../domain/why.ts'
import { readQueues, readUnservedQueues, type UnservedQueue } from '../../store/admin/queues.ts'
import type { Diagnosis } from '../../store/doctor/doctor.ts'
import { readChildren } from '../../store/move/children.ts'
import { transitionOne } from '../../store/move/move.ts'
import { readAttempts } from '../../store/todos/attempts.ts'
import { readFacts } from '../../store/todos/events.ts'
import { listTodos } from '../../store/todos/list.ts'
import { readBrief, readEnds, readHeld, readView } from '../../store/todos/view.ts'
import { type DocumentPage, documentPage } from '../document-page.ts'
import type { Parts } from '../parts.ts'
import { createSchedules, type ScheduleService } from '../schedules/schedules.ts'
import type { Revocation } from '../sweeps/revocation.ts'
import { cancelTodo } from '../tasks/cancel.ts'
import { type ChildTasks, joining, type NewChild } from '../tasks/children.ts'
import type { Send } from '../tasks/client.ts'
import { type Question, questionsOf } from '../tasks/questions.ts'
import type { Reply } from '../tasks/reply.ts'
import { createRetry } from '../tasks/retry.ts'
import type { SendRate } from '../tasks/send-rate.ts'
import type { Submitter } from '../tasks/submit.ts'
import { createDoctor } from './doctor.ts'
import { createEndpoints, type EndpointService } from './endpoints.ts'
import { createQueues, type QueueService } from './queues.ts'
import { createSettings, type SettingsService } from './settings.ts'
import { createWhy } from './why.ts'

/** All there is to know of a todo. */
export interface Shown {
  view: TodoView
  attempts: Attempt[]
  events: Fact[]
  children: Child[]
  /** What is asked at the moment and nobody has answered. */
  question: Question | null
  /** Messages that nobody has acknowledged, the first of them: they are owed an answer. */
  owed: StoredMessage[]
}

export interface OperatorService
  extends QueueService,
    EndpointService,
    SettingsService,
    ScheduleService {
  list(filter: TodoFilter, caller: Caller): Promise<TodoPage>
  show(id: string, caller: Caller): Promise<Shown>
  /** A page of a todo's documents, for what `show` has left out. */
  documents(page: { id: string; after: number }, caller: Caller): Promise<DocumentPage>
  send(send: Omit<Send, 'metadata'>): Promise<TodoView>
  /**
   * With `question`, the seq of a question, it answers that one or is refused with wrong_state.
   * Without, it is for whatever the todo asks or does.
   */
  answer(
    id: string,
    message: Message,
    caller: Caller,
    question?: number,
  ): Promise<{ view: TodoView; receipt: Receipt }>
  /** Adds children to any live todo, within its budget. */
  fork(id: string, children: NewChild[]): Promise<{ id: string; queue: string }[]>
  /** Parks a todo that is held until the condition holds; its holder is fenced out. */
  join(
    id: string,
    children: string[],
    until: JoinUntil,
    limits?: Omit<JoinTerms, 'until'>,
  ): Promise<TodoView>
  /**
   * Makes a new todo with the conversation of a dead letter, and with its artifacts if they are wanted.
   * Refuses: wrong_state, duplicate.
   */
  retry(id: string, artifacts?: boolean): Promise<TodoView>
  /** Queues with todos that wait for an agent, from which no live endpoint may claim; by name. */
  unservedQueues(): Promise<UnservedQueue[]>
  /** What this todo waits for, since when, until when, and what would move it. */
  why(id: string, caller: Caller): Promise<Why>
  cancel(id: string): Promise<TodoView>
  /** Looks at the installation; those who ask while that goes on are given the same. */
  diagnose(): Promise<Diagnosis>
}

interface OperatorParts
  extends Pick<Parts, 'database' | 'registry' | 'metrics' | 'pages' | 'wakes'> {
  /** Without the pooler, if there is one. */
  databaseUrl: string
  reply: Reply
  sendRate: SendRate
  submitter: Submitter
  childTasks: ChildTasks
  revocation: Revocation
}

const MAX_EVENTS = 1000
const MAX_ATTEMPTS = 100
const MAX_CHILDREN = 100

export const createOperatorService = (parts: OperatorParts): OperatorService => {
  const { database, registry, metrics, pages, reply, sendRate, submitter, childTasks } = parts
  const retry = createRetry(parts)

  const find = async (id: string, scope = EVERYTHING): Promise<TodoView> =>
    orNotFound(await readView(database, id, scope))

  return {
    ...createQueues(parts),
    ...createEndpoints(parts),
    ...createSettings(parts),
    ...createSchedules(parts),
    why: createWhy(parts),
    unservedQueues: () => readUnservedQueues(database),

    list: async (filter, caller) => {
      const scope = watchScope(caller)
      return pages.read({ list: 'todos', reader: readerOf(caller) }, filter, (page) =>
        listTodos(database, page, scope),
      )
    },
    show: async (id, caller) => {
      const view = await find(id, watchScope(caller))
      const after = Math.max(0, view.todo.seq - MAX_EVENTS)
      const unread = view.todo.unread > 0
      const [children, attempts, events, [question = null], held] = await Promise.all([
        readChildren(database, id, MAX_CHILDREN),
        readAttempts(database, id, MAX_ATTEMPTS),
        readFacts(database, id, after, MAX_EVENTS),
        questionsOf(database, registry, [view.todo]),
        unread ? readHeld(database, id, 0, watchScope(caller)) : null,
      ])
      return { view, attempts, children, question, events, owed: held?.owed ?? [] }
    },
    documents: ({ id, after }, caller) => documentPage(database, id, after, watchScope(caller)),
    send: async (send) => {
      const queue = (await readQueues(database)).find(({ name }) => name === send.queue)
      return (await submitter.submit(send, orNotFound(queue), null)).view
    },
    answer: async (id, message, caller, question) => {
      const senderId = caller.kind === 'endpoint' ? caller.endpoint.id : null
      if (caller.kind === 'endpoint') sendRate.spend(caller.endpoint)
      return reply({ id, message, scope: watchScope(caller, 'answer'), senderId, question })
    },
    fork: (id, children) => {
      return childTasks.fork(children, undefined, async (session) => {
        // This locks the parent: a cancel or another fork comes before all of this, or after.
        const { todo: parent } = await transitionOne(session, 'adopt', id, {}, EVERYTHING)
        return { parent, clientId: parent.clientId }
      })
    },
    join: async (id, children, until, limits) => {
      const { todo } = orNotFound(await readBrief(database, id, EVERYTHING))
      const { owner, fence, state } = todo
      await childTasks.join(id, children, async () => {
        if (!owner) throw new Refusal('wrong_state', { id, state })
        const change = { endpoint: owner, fence, children, ...joining({ until, ...limits }) }
        return transitionOne(database, 'join', id, change, EVERYTHING)
      })
      return find(id)
    },
    retry: async (id, artifacts = false) => {
      const dead = orNotFound(await readEnds(database, id, EVERYTHING))
      return find((await retry(dead, artifacts)).id)
    },
    diagnose: createDoctor(parts),
    cancel: (id) => cancelTodo(database, metrics, id, EVERYTHING),
  }
}
