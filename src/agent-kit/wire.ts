/**
 * The shapes of the agent API as an agent sees them: A2A 1.0 messages and what a claim brings.
 * They are spelled out here and not taken from the server, so that the kit stays usable by a
 * program that has nothing else of it. Times are RFC 3339 strings of the server's clock.
 */

import { randomUUID } from 'node:crypto'
import type { ExactNumber } from '../base/exact-json.ts'

/** A number that no double is equal to is an ExactNumber, and goes back with the same digits. */
type Json = null | boolean | number | string | ExactNumber | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

/** Exactly one of text, raw (base64), url, data. */
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

/** A message the holder owes an answer to, until it has acknowledged it. */
export interface OwedMessage {
  seq: number
  message: Message
  receivedAt: string
  /** The seq of the question that it answers; absent where it answers none. */
  answers?: number
  /** The endpoint that sent it; absent for an operator. */
  sender?: string
  /** On whose behalf its client sent it; absent where nobody is named. */
  author?: string
  /** What its client said beside it; absent where that is nothing. */
  request?: RequestFacts
}

/** What a client said beside its message. */
export interface RequestFacts {
  /** Of the request of a message to a live todo. */
  metadata?: JsonObject
  /** Likewise: on whose behalf it was sent. */
  author?: string
  /** Extensions that the client asked for and the queue's card declares. */
  extensions?: string[]
  acceptedOutputModes?: string[]
  /** The W3C trace context of the request. */
  traceparent?: string
}

/** An earlier attempt at the same todo. `died`: its holder vanished instead of reporting. */
export interface PriorAttempt {
  seq: number
  attempt: number
  claimant: string | null
  claimedAt: string
  lastHeartbeatAt: string | null
  endedAt: string | null
  outcome: string | null
  disposition: string | null
  died: boolean
  summary: string | null
}

/** What may be spent, or was: whole numbers. */
export interface Amounts {
  tokens?: number
  cents?: number
  calls?: number
}

/** A child as its parent sees it. `retrying`: it failed, and has not ended yet. */
export interface Child {
  id: string
  queue: string
  state: string
  retrying: boolean
  result: JsonObject | null
  /** What the claim had no room for; the kit reads it before the handler begins. */
  resultBytes?: number
}

/** A todo as its claim hands it over. `fence` is a number as a decimal string. */
export interface ClaimedTodo {
  id: string
  queue: string
  contextId: string
  state: string
  attempt: number
  maxAttempts: number
  fence: string
  leaseExpiresAt: string
  createdAt: string
  /** The moment it was meant for, where its sender or its schedule named one; and the schedule. */
  notBefore?: string
  schedule?: string
  /** The message that made the todo. */
  message: Message
  /** Every message so far, oldest first. */
  history: Message[]
  unread: OwedMessage[]
  artifacts: Artifact[]
  /** What an earlier holder or the reaper left, such as `result.interrupt`. */
  result: JsonObject | null
  priorAttempts: PriorAttempt[]
  attemptsTotal: number
  metadata: JsonObject | null
  effects: string[] | null
  /** How much it may spend, and has spent with its children; absent: no limit, nothing. */
  budget?: Amounts
  spent?: Amounts
  deadlines: { startToClose?: string; scheduleToClose?: string; heartbeatSeconds?: number }
  parentId?: string
  /** What this todo forked, in order. */
  children: Child[]
  /** When its last join ran out of time; absent where it held, or there was none. */
  joinTimedOutAt?: string
  /** The endpoint that sent it; null for an operator. */
  sender: string | null
  /** On whose behalf its client sent it; absent where nobody is named. */
  author?: string
  /** Extensions of A2A that its client asked for and the queue's card declares. */
  extensions: string[]
  configuration?: { acceptedOutputModes: string[] }
  /** The W3C trace context of the request that made the todo. */
  traceparent?: string
  /** What the claim had no room for; the kit reads it before the handler begins. */
  omitted?: { messages: number; artifactBytes: number }
}

/** One of what a todo holds, as `todos.documents` lists it: a message, or a chunk of an artifact. */
export interface ListedDocument {
  seq: number
  message?: Message
  receivedAt?: string
  answers?: number
  /** The holder has not acknowledged it. */
  unread?: true
  artifact?: { artifact: Artifact; append: boolean; lastChunk: boolean }
}

/** What an agent says: plain text, or the parts of a message; the kit fills in the rest. */
export type Sayable = string | (Omit<Message, 'messageId' | 'role'> & { messageId?: string })

export const toMessage = (said: Sayable): Message => {
  const draft = typeof said === 'string' ? { parts: [{ text: said }] } : said
  return { messageId: randomUUID(), ...draft, role: 'ROLE_AGENT' }
}

/** The text of a message's or an artifact's text parts, one line for each part. */
export const textOf = (document: { parts: readonly Part[] }): string =>
  document.parts.flatMap((part) => (part.text === undefined ? [] : [part.text])).join('\n')
