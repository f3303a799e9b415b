/**
 * What can be asked of switchboard: the services' faces, which protocol and http are written
 * against. Domain types in, domain types out; a refusal is thrown (domain/errors.ts).
 */

import type { Caller, Endpoint, EndpointVerb, Scope } from '../domain/endpoint.ts'
import type { InterruptState, Phase, State } from '../domain/lifecycle.ts'
import type { BusyPolicy, QueuePolicy, Timeouts } from '../domain/policy.ts'
import type {
  Delivery,
  DeliveryFilter,
  DeliveryPage,
  NewPushConfig,
  PushConfig,
} from '../domain/push.ts'
import type { AgentExtension, Queue, QueueCard } from '../domain/queue.ts'
import type {
  Artifact,
  Attempt,
  Child,
  Event,
  EventDetail,
  Failure,
  FeedEvent,
  JoinUntil,
  JsonObject,
  Message,
  Part,
  Receipt,
  StoredMessage,
  Todo,
  TodoFilter,
  TodoPage,
  TodoView,
} from '../domain/todo.ts'
import type { Why } from '../domain/why.ts'

export type { AgentExtension, Queue, QueueCard }

/* ---------------------------------------------------------------- clients */

/** The member of a send's metadata that names it, where no header can: no part of what it says. */
export const IDEMPOTENCY_MEMBER = 'urn:switchboard:idempotency-key'

/** The one that says how long its call waits: about the answer, as the configuration is. */
export const WAIT_MEMBER = 'urn:switchboard:wait'

export interface Send {
  queue: string
  /** Of the todo to be made, by the server's own choice; else it draws one. */
  id?: string
  /** As it came; ids of the server's making are filled in. */
  message: Message
  metadata?: JsonObject
  /** 0 first, 1 by default, 2 last. */
  priority?: number
  /** Over those of the queue. */
  timeouts?: Timeouts
  /** Where its conversation is busy; to wait its turn unless said otherwise. */
  busy?: BusyPolicy
  /** What the task may do, among what its sender may. */
  effects?: string[]
  /** The sender's name for this send: under it, the same send again makes nothing new. */
  idempotencyKey?: string
  /** A webhook for the task, kept with it or not at all. */
  push?: NewPushConfig
}

export interface Sent {
  view: TodoView
  /** Wait for a settled state written after this event; 0 if the todo was settled at once. */
  after: number
  /** What became of a message to a live todo, or of a repeated send; absent for a new todo. */
  receipt?: Receipt
  /** Of the webhook that came with the message, if one was kept: shown this once. */
  pushSecret?: string
}

export interface ClientService {
  /**
   * Makes a todo, or hands a message to the live todo it names: an answer to its question, else
   * into its inbox. Refuses: forbidden, not_found, finished, invalid (context mismatch), duplicate
   * (there is a todo with the chosen id), idempotency_conflict (the key was used for another send).
   */
  send(send: Send, caller: Caller): Promise<Sent>
  get(id: string, scope: Scope, options?: { artifacts?: boolean }): Promise<TodoView>
  list(filter: TodoFilter, scope: Scope): Promise<TodoPage>
  /** A todo canceled before is returned as it is. Refuses: not_found, not_cancelable. */
  cancel(id: string, scope: Scope): Promise<TodoView>
}

/* ----------------------------------------------------------------- webhooks */

interface PushPage {
  configs: PushConfig[]
  nextPageToken: string
}

export interface PushService {
  /**
   * Makes a config, or replaces the one with its id. A finished todo takes one, and never tells it.
   * Refuses: not_found, invalid.
   */
  create(
    todoId: string,
    config: NewPushConfig,
    scope: Scope,
    caller: Caller,
  ): Promise<{ config: PushConfig; secret: string }>
  /** Refuses: not_found, for the config as for the todo. */
  get(todoId: string, id: string, scope: Scope): Promise<PushConfig>
  list(
    todoId: string,
    page: { pageSize?: number; pageToken?: string },
    scope: Scope,
  ): Promise<PushPage>
  /** One that is not there is as good as deleted. Refuses: not_found, for the todo. */
  delete(todoId: string, id: string, scope: Scope): Promise<void>

  /** For operators: another secret; the one before signs, too, until the moment that is told. */
  rotateSecret(
    todoId: string,
    id: string,
    overlapSeconds?: number,
  ): Promise<{ secret: string; previousUntil: Date }>
  /** The delivery log, newest first, within what the caller may watch. */
  deliveries(filter: DeliveryFilter, caller: Caller): Promise<DeliveryPage>
  /** Owes a dead delivery again. Refuses: not_found, wrong_state. */
  retry(id: string): Promise<Delivery>
}

/* ----------------------------------------------------------------- agents */

export interface Claim {
  /** Narrowed to the endpoint's queues; absent: all of them. */
  queues?: readonly string[]
  limit: number
  waitMs: number
  leaseSeconds?: number
  claimant?: string
}

export interface ClaimedTodo {
  view: TodoView
  unread: StoredMessage[]
  /** Newest first, at most 5, the open one not among them. */
  priorAttempts: Attempt[]
  /** What it forked, in order. */
  children: Child[]
}

/** A child to be made. What it leaves out comes from its parent, or from its queue. */
export interface NewChild {
  queue: string
  message: Message
  effects?: string[]
  deadlineSeconds?: number
  maxAttempts?: number
}

/** Names the todo and the claim it is held under. `fence` is a number as a decimal string. */
export interface Held {
  id: string
  fence: string
}

export interface AgentService {
  claim(claim: Claim, caller: Caller, signal: AbortSignal): Promise<ClaimedTodo[]>
  heartbeat(
    held: Held & { leaseSeconds?: number; holdSeconds?: number },
    caller: Caller,
  ): Promise<Todo>
  progress(held: Held & { note?: string; percent?: number }, caller: Caller): Promise<Todo>
  say(held: Held & { message: Message }, caller: Caller): Promise<Todo>
  artifact(
    held: Held & { artifact: Artifact; append: boolean; lastChunk: boolean },
    caller: Caller,
  ): Promise<Todo>
  interrupt(
    held: Held & { state: InterruptState; message: Message; hold: boolean; schema?: JsonObject },
    caller: Caller,
  ): Promise<{ todo: Todo; deadline: Date | null }>
  /** Waits up to waitMs for a message after `after`, or for the todo to leave the holder. */
  messages(
    held: Held & { after: number; waitMs: number },
    caller: Caller,
    signal: AbortSignal,
  ): Promise<{ state: State; messages: StoredMessage[] }>
  acknowledge(held: Held & { through: number }, caller: Caller): Promise<Todo>
  complete(
    held: Held & {
      message?: Message
      artifacts?: Artifact[]
      result?: JsonObject
      summary?: string
      acknowledge?: number
      direct?: boolean
    },
    caller: Caller,
  ): Promise<Todo>
  fail(
    held: Held & {
      error: Failure
      message?: Message
      retryable: boolean
      retryInSeconds?: number
      summary?: string
    },
    caller: Caller,
  ): Promise<Todo>
  release(held: Held & { summary?: string; inSeconds?: number }, caller: Caller): Promise<Todo>
  reject(held: Held & { message?: Message }, caller: Caller): Promise<Todo>
  /** Children within the budget of the todo that is held. */
  fork(
    held: Held & { children: NewChild[] },
    caller: Caller,
  ): Promise<{ id: string; queue: string }[]>
  /** Parks the parent until the condition holds. */
  join(held: Held & { children: string[]; until: JoinUntil }, caller: Caller): Promise<Todo>
  get(id: string, caller: Caller): Promise<{ view: TodoView; attempts: Attempt[] }>
  list(filter: TodoFilter, caller: Caller): Promise<TodoPage>
}

/* -------------------------------------------------------------- operators */

/** All there is to know of a todo. */
export interface Shown {
  view: TodoView
  attempts: Attempt[]
  events: Event[]
  children: Child[]
  /** What is asked at the moment and nobody has answered. */
  question: Question | null
}

/** An open question: its place in the todo's order, and until when it may be answered. */
export interface Question {
  seq: number
  deadline: Date | null
  /** What the data part of its answer must look like; null where anything goes. */
  schema: JsonObject | null
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

/* ------------------------------------------------------------------ board */

/** A todo as a card needs it. */
export interface BoardCard {
  view: TodoView
  /** While it asks. */
  question: Question | null
  /** The name of the endpoint that sent it; null where an operator did. */
  client: string | null
  /** While it is held: what was said of its progress last. */
  progress: Pick<EventDetail, 'note' | 'percent'> | null
}

/** A lane is a phase of life; `dead` are the dead letters among those that have ended. */
export type BoardLane = Phase | 'dead'

export interface BoardPage {
  cards: BoardCard[]
  /** How many there are, counted up to {@link BoardService.countedTo}. */
  total: number
  nextPageToken: string
}

/** Null narrows nothing. */
export interface BoardFilter {
  queues: readonly string[] | null
  states: readonly State[] | null
  contextId: string | null
}

export interface BoardService {
  countedTo: number
  lane(
    lane: BoardLane,
    filter: BoardFilter,
    page: { size: number; token?: string },
    caller: Caller,
  ): Promise<BoardPage>
  /** Those of these todos that the caller may watch. */
  cards(ids: readonly string[], caller: Caller): Promise<BoardCard[]>
  /** Names of the queues the caller may watch. */
  queues(caller: Caller): Promise<string[]>
}

/** One minute of what went on. */
export interface ActivityMinute {
  at: Date
  /** Todos that ended, and how many of them as dead letters. */
  finished: number
  dead: number
  /** How long those claimed in it had been claimable, in seconds; null where none was. */
  waited: { mean: number; max: number } | null
  /** At its end: since when the oldest claimable todo was so, in seconds. */
  oldest: number
}

export interface Activity {
  /** The last hour, oldest first; the minute that runs is the last one. Null: all queues. */
  read(queues: readonly string[] | null): Promise<{ minutes: ActivityMinute[] }>
}

/** A session of the board, without its secret. */
export interface BoardSession {
  id: string
  /** Whose token opened it; null for the admin's, or a one-time code. */
  endpoint: Endpoint | null
  /** False once that token is worth nothing. */
  live: boolean
  createdAt: Date
  expiresAt: Date
}

export interface BoardSessions {
  sessionSeconds: number
  /** A code that logs an operator in once within so many seconds. */
  issueCode(seconds: number): Promise<string>
  /**
   * The secret of a new session; null when token or code are worth nothing. Refuses: forbidden,
   * when the token is good but may not watch.
   */
  login(proof: { token: string } | { code: string }): Promise<string | null>
  /** Who the session belongs to, asked anew each time: a revoked token ends its sessions. */
  authenticate(secret: string): Promise<Caller | null>
  end(secret: string): Promise<void>
  list(): Promise<BoardSession[]>
  /** One session, or (null) all; how many there were. Refuses: not_found. */
  revoke(id: string | null): Promise<number>
}

/** A question as somebody with a link to it sees it. */
export interface LinkedQuestion {
  /** `changed`: the todo does not ask this any more, and nobody answered. */
  status: 'open' | 'answered' | 'expired' | 'changed'
  /** The name of the agent that asks, and what it was sent to do. */
  agent: string
  task: Message | null
  asked: Message
  state: State
  schema: JsonObject | null
  /** Until when it may be answered by this link. */
  until: Date
  /** Who answered, as far as it is known, and when. */
  answered: { by: string | null; at: Date; here: boolean } | null
}

export interface AnswerLinks {
  /** Refuses: not_found, wrong_state (it asks nothing). */
  create(
    id: string,
    seconds: number | undefined,
    caller: Caller,
  ): Promise<{ url: string; question: number; expiresAt: Date }>
  /** Null where the secret is none of ours, or the todo is gone. */
  open(secret: string): Promise<LinkedQuestion | null>
  /** The question as it is afterwards, whoever answered it. Refuses: invalid (the schema). */
  answer(
    secret: string,
    answer: { parts: Part[]; by: string | null },
  ): Promise<{ question: LinkedQuestion; taken: boolean } | null>
}

/* --------------------------------------------------------------- watching */

/** The cursor lies before what is kept: everything up to `oldest` is gone. */
export interface Gap {
  gap: true
  oldest: number
}

/** The reader fell too far behind and must resume from its last id. */
export class TooSlow extends Error {}

export interface Watch {
  /** The todo once it is settled by an event after `after`. Rejects when the signal fires. */
  settle(id: string, after: number, signal: AbortSignal): Promise<TodoView>
  /**
   * The todo's events after `after`, in order, until the terminal one. `justRead`: its caller has read
   * or made it this moment, so that nothing lies behind `after` but what was rung since. Throws TooSlow.
   */
  follow(
    id: string,
    after: number,
    signal: AbortSignal,
    options?: { justRead?: boolean },
  ): AsyncIterable<Event>
  /**
   * Opens the feed after a position (`now`: from here on). `null` queues means every queue. Where
   * it begins is settled when this resolves, however much later the first event is asked for.
   */
  feed(
    after: number | 'now',
    queues: readonly string[] | null,
    signal: AbortSignal,
  ): Promise<OpenFeed>
  /** Where the feed is now: everything up to here can be read by others. */
  position(): Promise<number>
}

export interface OpenFeed {
  /** Whoever has seen all up to here misses nothing of `events`. */
  from: number
  events: AsyncIterable<FeedEvent | Gap>
  /**
   * Hands `take` what comes from now on, by a plain call, instead of `events`: for a reader that has
   * taken all of these. Null where there is something else to be taken from them first. Over, and
   * `end` called, where something has not been taken, which leaves it to `events`; or by the off that
   * is returned.
   */
  live?(take: (events: readonly FeedEvent[]) => boolean, end: () => void): (() => void) | null
}

/** Who a bearer token belongs to; null when it belongs to nobody, is revoked or has expired. */
export type Authenticate = (token: string) => Promise<Caller | null>

/** The queue's public face; null when there is no such queue. `null` asks for the default one. */
export type ReadQueue = (name: string | null) => Promise<Queue | null>
