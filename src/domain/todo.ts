/**
 * The shapes that everything above the store works with. Messages, parts and artifacts are A2A 1.0
 * JSON (spec 4.1); times are Dates by the database's clock.
 */

import type { Disposition, EventVerb, Outcome, ReadyReason, State } from './lifecycle.ts'
import type { Amounts } from './spend.ts'

/** The member of a send's metadata with its idempotency key, for clients that cannot set headers. */
export const IDEMPOTENCY_MEMBER = 'urn:switchboard:idempotency-key'

/** The member that says how long the call waits. Like the configuration, it is about the answer. */
export const WAIT_MEMBER = 'urn:switchboard:wait'

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

/** Exactly one of text, raw, url, data. `raw` is base64. */
export interface Part {
  text?: string
  raw?: string
  url?: string
  data?: Json
  metadata?: JsonObject
  filename?: string
  mediaType?: string
}

export interface Message {
  messageId: string
  contextId?: string
  taskId?: string
  role: 'ROLE_USER' | 'ROLE_AGENT'
  parts: Part[]
  metadata?: JsonObject
  extensions?: string[]
  referenceTaskIds?: string[]
}

export interface Artifact {
  artifactId: string
  name?: string
  description?: string
  parts: Part[]
  metadata?: JsonObject
  extensions?: string[]
}

/** What went wrong, as the agent or the server reports it. */
export interface Failure {
  code: string
  message: string
}

/** A todo's row, without its documents. `seq` is that of its newest event. */
export interface Todo {
  id: string
  queue: string
  contextId: string
  /** The endpoint that sent it; null if an operator did. */
  clientId: string | null
  /** On whose behalf its client sent it (author.ts); null where nobody was named. */
  author: string | null
  state: State
  priority: number
  attempt: number
  maxAttempts: number
  attemptsTotal: number
  fence: string
  owner: string | null
  claimant: string | null
  leaseExpiresAt: Date | null
  interruptedAt: Date | null
  interruptHeldUntil: Date | null
  /** When a pending todo becomes (or became) claimable. */
  dueAt: Date | null
  nextRetryAt: Date | null
  progressAt: Date | null
  seq: number
  unread: number
  /** The newest status: which event set it, and when. */
  statusSeq: number
  statusAt: Date
  createdAt: Date
  updatedAt: Date
  finishedAt: Date | null
  /** Limits on the time it may take; null is none (docs/lifecycle.md, "Clocks of a todo"). */
  scheduleToStartSeconds: number | null
  startToCloseSeconds: number | null
  heartbeatSeconds: number | null
  /** Schedule-to-close: the moment past which there is no retry. */
  closeAt: Date | null
  /** Since when the attempt runs, not counting the time spent in interrupts. */
  startedAt: Date | null
  /** The line of its conversation; null if todos run side by side. */
  line: string | null
  /** At the front of its line: it may be claimed, is claimed, or waits for its retry. */
  front: boolean
  parentId: string | null
  depth: number
  /** What it may do; null is everything. A child's effects are among its parent's. */
  effects: string[] | null
  /** How much it may spend; null is without limit. What its children spend counts as well. */
  budget: Amounts | null
  spent: Amounts | null
  /** Which children it waits for, and until when; null if it does not wait for any. */
  join: {
    children: string[]
    until: JoinUntil
    /** When the parent goes on all the same, as everywhere on the wire. */
    timeoutAt?: string
    /** What becomes then of the children that live. */
    onTimeout?: OnJoinTimeout
  } | null
  /** When its last join ended by the clock; null where it held, or there was none. */
  joinTimedOutAt: Date | null
  /** When the answer came to which its holder has not reacted so far. */
  unheardSince: Date | null
  /** When the open question was answered, if the line was busy then. */
  answeredAt: Date | null
  retryOf: string | null
  /** The moment that its sender or its schedule named; it cannot be claimed before. */
  notBefore: Date | null
  /** The name of the schedule that made it. */
  schedule: string | null
  /** Seconds since its last sign of progress when it was read; null if it is not claimed. */
  idleSeconds: number | null
}

/** A join holds when all, or any, of the children have ended; `each` holds at every one's end. */
export type JoinUntil = 'all' | 'any' | 'each'

export const ON_JOIN_TIMEOUT = ['leave', 'cancel'] as const
type OnJoinTimeout = (typeof ON_JOIN_TIMEOUT)[number]

/** How a parent waits for its children. */
export interface JoinTerms {
  until: JoinUntil
  timeoutSeconds?: number
  /** `leave` by default. */
  onTimeout?: OnJoinTimeout
}

/** A child as its parent sees it. */
export interface Child {
  id: string
  queue: string
  state: State
  /** Set while a failure has a retry scheduled, so that it has not ended. */
  retrying: boolean
  /** Null where it has none, and where it is left out: then its size is told. */
  result: JsonObject | null
  resultBytes: number | null
}

/** What a client said beside its message, for whoever works on it. */
export interface RequestFacts {
  /** Of the request that brought a message to a live todo; the first one's is the todo's own. */
  metadata?: JsonObject
  /** Of a message to a live todo: on whose behalf it was sent. */
  author?: string
  /** Extensions that the client requested and the card declares. */
  extensions?: string[]
  acceptedOutputModes?: string[]
  /** The W3C trace context of the request. */
  traceparent?: string
}

/** A message as stored, with its position in the todo's order. */
export interface StoredMessage {
  seq: number
  message: Message
  receivedAt: Date
  /** The seq of the question it answered; null for any other message. */
  answers: number | null
  /** It answered a request for authorization: only its sender and the holder may see it. */
  secret: boolean
  /** The endpoint that sent it; null for an operator's, and for the agent's own. */
  sender: string | null
  /** What else its request said; null where that is nothing. */
  request: RequestFacts | null
}

/** What became of a message to a live todo, as its sender may read it. */
export interface Receipt {
  messageId: string
  /** The message's position in the todo's order. */
  seq: number
  /**
   * `resumed`: it answered the question and the holder goes on. `requeued`: it answered a parked
   * question. `deferred`: it answered the question, and the holder goes on as soon as another todo
   * of the conversation is done. `inbox`: it is owed to the holder, or to the next one. `repeated`:
   * it was there already. `created`: it made a todo, although questions of its sender stay open in
   * the conversation.
   */
  outcome: 'resumed' | 'requeued' | 'deferred' | 'inbox' | 'repeated' | 'created'
  /** The seq of the question it answered. */
  answers: number | null
  /** The todos of the conversation whose questions stay open, oldest first. */
  openQuestions?: string[]
}

export interface Attempt {
  seq: number
  attempt: number
  endpointId: string
  claimant: string | null
  claimedAt: Date
  lastHeartbeatAt: Date | null
  progressAt: Date | null
  leaseExpiresAt: Date | null
  endedAt: Date | null
  outcome: Outcome | null
  disposition: Disposition | null
  /** True when the holder vanished instead of reporting. */
  died: boolean
  summary: string | null
  cause: string | null
}

/** A todo with its documents. */
export interface TodoView {
  todo: Todo
  /** Every message, oldest first, the current status message included. */
  messages: StoredMessage[]
  /** Absent if the reader did not ask for them. */
  artifacts?: Artifact[]
  metadata: JsonObject | null
  result: JsonObject | null
  /** The todo at the front of its conversation, while this one waits in line; else null. */
  waitsBehind: string | null
  /** That one is another client's, which is none of this one's business. */
  behindOther: boolean
  /** The todo that redoes this dead letter; else null. */
  retriedAs: string | null
  /** What is left out, because one answer does not show so much; absent where nothing is. */
  omitted?: { messages: number; artifactBytes: number }
  /** The agent asked that a waiting send be answered with its bare message. */
  direct: boolean
}

/** One committed fact about a todo. `message` and `artifact` are the documents that it carried. */
export interface Event {
  todoId: string
  seq: number
  queue: string
  contextId: string
  /** Of its todo. */
  author: string | null
  verb: EventVerb
  from: State | null
  to: State
  /** Set while a failure has a retry scheduled, so that the state reads as waiting. */
  retrying: boolean
  attempt: number
  fence: string
  owner: string | null
  claimant: string | null
  ready: ReadyReason | null
  detail: EventDetail | null
  at: Date
  message: Message | null
  artifact: ArtifactChunk | null
  /** It is the last of a page that was full before the events came to an end. */
  cut?: boolean | null
}

/** The same without the documents. */
export type Fact = Omit<Event, 'message' | 'artifact' | 'cut'>

export interface ArtifactChunk {
  artifact: Artifact
  /** Of the event, and not of the artifact. */
  metadata?: JsonObject
  append: boolean
  lastChunk: boolean
  /** By which the chunk is known when its agent sends it again. */
  key?: string
}

/** What one line on the board needs, small and bounded. It never holds the text of an answer. */
export interface EventDetail {
  /** What the agent says of the event itself, for the client. */
  metadata?: JsonObject
  text?: string
  note?: string
  percent?: number
  error?: Failure
  retryAt?: string
  /** What was spent. */
  spent?: Amounts
  /** How many messages nobody has read, of a todo that has failed for good or was rejected. */
  owed?: number
  /** Of a new todo: when it is due, and which schedule made it. */
  notBefore?: string
  schedule?: string
}

/** An event in the order of the board's feed. Positions grow; they may have gaps. */
export interface FeedEvent extends Fact {
  position: number
  /** Up to where events before it may have been deleted; absent if none were. */
  deleted?: readonly Horizon[]
}

/** Up to which position events of a queue have been deleted. */
export interface Horizon {
  queue: string
  position: number
}

/** One document in the order of the todo's events. */
export interface StoredDocument {
  seq: number
  message: StoredMessage | null
  /** The message is not acknowledged. */
  owed: boolean
  artifact: ArtifactChunk | null
}

/** One page of todos, newest status first. */
export interface TodoPage {
  todos: TodoView[]
  nextPageToken: string
  pageSize: number
  totalSize: number
}

/** What a list can be narrowed by; every given member must hold. */
export interface TodoFilter {
  ids?: readonly string[]
  queue?: string
  /** Any of these. */
  queues?: readonly string[]
  contextId?: string
  states?: readonly State[]
  /** Which `pending` todos count: `only` those that wait for children, or `never` those. */
  joining?: 'only' | 'never'
  /** Which `failed` todos count: `only` those with a retry scheduled, or `never` those. */
  retrying?: 'only' | 'never'
  statusAfter?: Date
  /** How far the total is counted; absent means to the end where that is known, else to 10,000. */
  countTo?: number
  pageSize: number
  pageToken?: string
  includeArtifacts: boolean
  /** `ends`: of its messages the first and that of the status; else all of them. */
  documents?: 'ends'
}
