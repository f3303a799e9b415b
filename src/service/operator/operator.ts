/**
 * What an operator may ask: queues, endpoints, settings, and any todo. Endpoints with the verbs
 * `watch` and `answer` may look and answer in their own queues.
 */

import type { Metrics } from '../../base/metrics.ts'
import type { Caller, Endpoint, EndpointVerb } from '../../domain/endpoint.ts'
import { EVERYTHING, watchScope } from '../../domain/endpoint.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import { phaseOf } from '../../domain/lifecycle.ts'
import type { QueuePolicy } from '../../domain/policy.ts'
import {
  DEFAULT_POLICY,
  IDEMPOTENCY_WINDOW,
  isIdempotencyWindow,
  LEASE,
} from '../../domain/policy.ts'
import { PUSH_SETTINGS } from '../../domain/push.ts'
import type { Queue, QueueCard } from '../../domain/queue.ts'
import type {
  Attempt,
  Child,
  Event,
  JoinUntil,
  Message,
  Receipt,
  Todo,
  TodoFilter,
  TodoPage,
  TodoView,
} from '../../domain/todo.ts'
import type { Why } from '../../domain/why.ts'
import { type Slots, whyOf } from '../../domain/why.ts'
import {
  addEndpoint,
  newToken,
  readEndpoints,
  revokeEndpoint,
  rotateEndpoint,
  updateEndpoint,
} from '../../store/admin/endpoints.ts'
import { putQueue, readQueues, removeQueue } from '../../store/admin/queues.ts'
import { readSettings, writeSetting } from '../../store/admin/settings.ts'
import { readChildren } from '../../store/move/children.ts'
import { readClaimers, readQueueSlots } from '../../store/move/concurrency.ts'
import { transitionOne } from '../../store/move/move.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readAttempts } from '../../store/todos/attempts.ts'
import { readEvents } from '../../store/todos/events.ts'
import { listTodos } from '../../store/todos/list.ts'
import { readView } from '../../store/todos/view.ts'
import type { Registry } from '../registry.ts'
import type { Revocation } from '../sweeps/revocation.ts'
import { cancelTodo } from '../tasks/cancel.ts'
import type { ChildTasks, NewChild } from '../tasks/children.ts'
import type { Send } from '../tasks/client.ts'
import { deadlineOf } from '../tasks/question-deadline.ts'
import type { Question } from '../tasks/questions.ts'
import { questionsOf } from '../tasks/questions.ts'
import type { Reply } from '../tasks/reply.ts'
import { createRetry } from '../tasks/retry.ts'
import type { Submitter } from '../tasks/submit.ts'
import { excerpt } from '../tasks/text.ts'

/** All there is to know of a todo. */
export interface Shown {
  view: TodoView
  attempts: Attempt[]
  events: Event[]
  children: Child[]
  /** What is asked at the moment and nobody has answered. */
  question: Question | null
}

interface Vend {
  name: string
  queues: string[]
  verbs: EndpointVerb[]
  defaultLeaseSeconds?: number
  interruptTtlSeconds?: number
  effects?: string[]
  expiresInSeconds?: number
  sendPerMinute?: number
  /** Todos it may hold claimed at once. */
  concurrency?: number
}

/** Null is no limit any more. */
interface Limits {
  concurrency?: number | null
}

interface QueueLimits extends Limits {
  retentionDays?: number | null
}

export interface OperatorService {
  putQueue(put: {
    name: string
    card?: Partial<QueueCard>
    policy?: Partial<Omit<QueuePolicy, keyof QueueLimits>> & QueueLimits
  }): Promise<Queue>
  listQueues(): Promise<Queue[]>
  removeQueue(name: string): Promise<void>
  vend(vend: Vend): Promise<{ endpoint: Endpoint; token: string }>
  listEndpoints(): Promise<Endpoint[]>
  revoke(id: string, cancelTasks: boolean): Promise<Endpoint>
  rotate(id: string): Promise<{ endpoint: Endpoint; token: string }>
  updateEndpoint(
    id: string,
    change: Partial<Omit<Vend, 'expiresInSeconds' | 'concurrency'>> & Limits,
  ): Promise<Endpoint>
  /** Every known key with its value, or null where unset. */
  getSettings(): Promise<Record<string, string | null>>
  setSetting(key: string, value: string): Promise<void>
  unsetSetting(key: string): Promise<void>
  list(filter: TodoFilter, caller: Caller): Promise<TodoPage>
  show(id: string, caller: Caller): Promise<Shown>
  send(send: Omit<Send, 'metadata'>): Promise<TodoView>
  /**
   * With `question`, the seq of a question, it answers that one or is refused with wrong_state;
   * without, it is for whatever the todo asks or does.
   */
  answer(
    id: string,
    message: Message,
    caller: Caller,
    question?: number,
  ): Promise<{ view: TodoView; receipt: Receipt }>
  /** Children of any live todo, within its budget. */
  fork(id: string, children: NewChild[]): Promise<{ id: string; queue: string }[]>
  /** Parks a todo that is held until the condition holds; its holder is fenced out. */
  join(id: string, children: string[], until: JoinUntil): Promise<TodoView>
  /** A new todo with the message of a dead letter. Refuses: wrong_state, duplicate. */
  retry(id: string): Promise<TodoView>
  /** What this todo waits for, since when, until when, and what would move it. */
  why(id: string, caller: Caller): Promise<Why>
  cancel(id: string): Promise<TodoView>
}

export interface OperatorParts {
  database: Database
  metrics: Metrics
  reply: Reply
  submitter: Submitter
  childTasks: ChildTasks
  revocation: Revocation
  registry: Registry
}

/** What may be set while everything runs, and what a value must be. */
const SETTINGS: Readonly<Record<string, { help: string; accepts: (value: string) => boolean }>> = {
  interrupt_lease_ttl_seconds: {
    help: 'seconds an interrupt may wait; 0 or less: for ever',
    // Anything goes: the sweep logs a value that does not parse and keeps the default.
    accepts: () => true,
  },
  interrupt_max_wait_seconds: {
    help: 'seconds a live holder may extend its wait to',
    accepts: (value) => /^[1-9]\d{0,8}$/.test(value),
  },
  sse_retry_ms: {
    help: 'milliseconds a client waits before it reconnects an event stream',
    accepts: (value) => /^\d{1,7}$/.test(value),
  },
  [IDEMPOTENCY_WINDOW.setting]: {
    help: `seconds the key of a send is kept, ${IDEMPOTENCY_WINDOW.minSeconds} at least`,
    accepts: isIdempotencyWindow,
  },
  default_queue: {
    help: 'the queue whose card is at /.well-known/agent-card.json',
    accepts: (value) => value !== '',
  },
  ...Object.fromEntries(
    Object.entries(PUSH_SETTINGS).map(([key, { help, pattern }]) => [
      key,
      { help, accepts: (value: string) => pattern.test(value) },
    ]),
  ),
}

const EVENTS_SHOWN = 1000
const ATTEMPTS_SHOWN = 100
const CHILDREN_SHOWN = 100

const BLANK_CARD: Omit<QueueCard, 'name'> = {
  description: 'An agent behind switchboard',
  version: '1.0.0',
  skills: [],
}

export const createOperatorService = (parts: OperatorParts): OperatorService => {
  const { database, registry, metrics, reply, submitter, childTasks, revocation } = parts
  const retry = createRetry({ database, submitter, childTasks })

  const knownSetting = (key: string): (typeof SETTINGS)[string] => {
    const setting = Object.hasOwn(SETTINGS, key) ? SETTINGS[key] : undefined
    if (!setting) {
      throw invalid('key', `is not a setting; there are ${Object.keys(SETTINGS).join(', ')}`)
    }
    return setting
  }

  const requireQueues = async (queues: readonly string[] | undefined): Promise<void> => {
    if (!queues) return
    const known = new Set((await readQueues(database)).map(({ name }) => name))
    const unknown = queues.filter((queue) => !known.has(queue))
    if (unknown.length > 0) throw invalid('queues', `there is no queue ${unknown.join(', ')}`)
  }

  const found = async (id: string): Promise<TodoView> => {
    const view = await readView(database, id, EVERYTHING)
    if (!view) throw new Refusal('not_found')
    return view
  }

  const roomIn = async ({ queue }: Todo): Promise<Slots | null> => {
    const limit = (await registry.queue(queue))?.policy.concurrency
    return limit === undefined ? null : readQueueSlots(database, queue, limit)
  }

  return {
    putQueue: async ({ name, card, policy }) => {
      const before = (await readQueues(database)).find((queue) => queue.name === name)
      const { concurrency, retentionDays, ...merged } = {
        ...DEFAULT_POLICY,
        ...before?.policy,
        ...policy,
        backoff: { ...DEFAULT_POLICY.backoff, ...before?.policy.backoff, ...policy?.backoff },
        timeouts: { ...before?.policy.timeouts, ...policy?.timeouts },
      }
      const queue = await putQueue(database, {
        name,
        card: { ...BLANK_CARD, name, ...before?.card, ...card },
        policy: {
          ...merged,
          ...(typeof concurrency === 'number' && { concurrency }),
          ...(typeof retentionDays === 'number' && { retentionDays }),
        },
      })
      metrics.seedQueue(name)
      return queue
    },
    listQueues: () => readQueues(database),
    removeQueue: (name) => removeQueue(database, name),

    vend: async (vend) => {
      await requireQueues(vend.queues)
      const token = newToken()
      const endpoint = await addEndpoint(database, token, {
        name: vend.name,
        queues: vend.queues,
        verbs: vend.verbs,
        defaultLeaseSeconds: vend.defaultLeaseSeconds ?? LEASE.defaultSeconds,
        interruptTtlSeconds: vend.interruptTtlSeconds ?? null,
        effects: vend.effects ?? null,
        sendPerMinute: vend.sendPerMinute ?? null,
        concurrency: vend.concurrency ?? null,
        expiresInSeconds: vend.expiresInSeconds ?? null,
      })
      return { endpoint, token }
    },
    listEndpoints: () => readEndpoints(database),
    revoke: async (id, cancelTasks) => {
      const endpoint = await revokeEndpoint(database, id)
      if (!endpoint) throw new Refusal('not_found')
      await revocation.settle(id)
      if (cancelTasks) await revocation.cancelAllOf(endpoint)
      return endpoint
    },
    rotate: async (id) => {
      const token = newToken()
      const endpoint = await rotateEndpoint(database, id, token)
      if (!endpoint) throw new Refusal('not_found')
      return { endpoint, token }
    },
    updateEndpoint: async (id, change) => {
      await requireQueues(change.queues)
      const endpoint = await updateEndpoint(database, id, change)
      if (!endpoint) throw new Refusal('not_found')
      return endpoint
    },

    getSettings: async () => {
      const set = await readSettings(database)
      return Object.fromEntries(Object.keys(SETTINGS).map((key) => [key, set.get(key) ?? null]))
    },
    setSetting: async (key, value) => {
      const { accepts, help } = knownSetting(key)
      if (!accepts(value)) throw invalid('value', `does not fit ${key}: ${help}`)
      await writeSetting(database, key, value)
    },
    unsetSetting: async (key) => {
      knownSetting(key)
      await writeSetting(database, key, null)
    },

    list: (filter, caller) => listTodos(database, filter, watchScope(caller)),
    show: async (id, caller) => {
      const view = await readView(database, id, watchScope(caller))
      if (!view) throw new Refusal('not_found')
      const [children, attempts, events] = await Promise.all([
        readChildren(database, id, CHILDREN_SHOWN),
        readAttempts(database, id, ATTEMPTS_SHOWN),
        readEvents(
          database,
          [{ id, after: Math.max(0, view.todo.seq - EVENTS_SHOWN) }],
          EVENTS_SHOWN,
        ),
      ])
      const [question] = await questionsOf(database, registry, [view.todo])
      const shown = { view, attempts, children, question: question ?? null }
      return { ...shown, events: events.map(withoutDocuments) }
    },
    send: async (send) => {
      const found = (await readQueues(database)).find(({ name }) => name === send.queue)
      if (!found) throw new Refusal('not_found')
      return (await submitter.submit(send, found, null)).view
    },
    answer: async (id, message, caller, question) => {
      const sender = caller.kind === 'endpoint' ? caller.endpoint.id : null
      return reply(id, message, watchScope(caller, 'answer'), sender, null, undefined, question)
    },
    fork: async (id, children) => {
      const made = await database.transaction(async (session) => {
        // Locks the parent: whoever cancels it or forks it too comes before all of this, or after.
        const { todo } = await transitionOne(session, 'adopt', id, {}, EVERYTHING)
        return childTasks.add(session, todo, children, todo.clientId)
      })
      for (const { queue } of made) metrics.todosSent.inc({ queue })
      return made
    },
    join: async (id, children, until) => {
      const { todo } = await found(id)
      await childTasks.check(id, children)
      const holder = { endpoint: todo.owner ?? '', fence: todo.fence }
      if (!todo.owner) throw new Refusal('wrong_state', { id, state: todo.state })
      const change = { ...holder, children, joinUntil: until }
      const moved = await transitionOne(database, 'join', id, change, EVERYTHING)
      metrics.attemptsEnded.inc({ queue: moved.todo.queue, outcome: 'released' })
      await childTasks.look(id)
      return found(id)
    },
    retry: async (id) => {
      const { id: again } = await retry(await found(id))
      return found(again)
    },
    why: async (id, caller) => {
      const found = await readView(database, id, watchScope(caller), false)
      if (!found) throw new Refusal('not_found')
      const { todo, result } = found
      const [[latest], endpoints] = await Promise.all([
        readAttempts(database, id, 1),
        readEndpoints(database),
      ])
      const waits = phaseOf(todo) === 'waiting'
      const asker = endpoints.find((endpoint) => endpoint.id === latest?.endpointId) ?? null
      const question = found.messages.find(({ seq }) => seq === todo.statusSeq)?.message
      return whyOf({
        todo,
        holder: latest?.claimant ?? asker?.name ?? null,
        question: phaseOf(todo) === 'interrupted' && question ? excerpt(question) : null,
        deadline: await deadlineOf(registry, todo, asker),
        waitsBehind: found.waitsBehind,
        children: todo.join ? await readChildren(database, id, CHILDREN_SHOWN) : [],
        room: waits ? await roomIn(todo) : null,
        claimers: waits ? await readClaimers(database, todo.queue) : [],
        error: typeof result?.error === 'string' ? result.error : null,
      })
    },
    cancel: (id) => cancelTodo(database, metrics, id, EVERYTHING),
  }
}

/** The conversation and artifacts are shown once, not again with each event. */
const withoutDocuments = (event: Event): Event => ({ ...event, message: null, artifact: null })
