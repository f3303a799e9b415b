/**
 * A todo of the operator API, as far as the command line reads it, and the small questions about
 * it: has it ended, does it ask, which one is meant.
 */

import type { Amounts, Artifact, Child, Message, Part, PriorAttempt } from '../agent-kit/wire.ts'
import { defined } from '../base/defined.ts'
import { exactText } from '../base/exact-json.ts'
import { INTERRUPT_STATES } from '../domain/lifecycle.ts'
import type { Client } from './client.ts'
import { CliError, EXIT } from './exit.ts'
import { span } from './output.ts'

export interface Todo {
  id: string
  queue: string
  contextId: string
  /** Absent where nobody is named. */
  author?: string
  state: string
  attempt: number
  maxAttempts: number
  claimant: string | null
  leaseExpiresAt: string | null
  interruptedAt: string | null
  heldUntil: string | null
  dueAt: string | null
  nextRetryAt: string | null
  progressAt: string | null
  /** How long a claimed one has shown no progress, by the server's clock. */
  idleSeconds: number | null
  unread: number
  budget?: Amounts
  spent?: Amounts
  createdAt: string
  /** While it waits for its children, and until when at most. */
  join?: { children: string[]; until: string; timeoutAt?: string }
  joinTimedOutAt?: string
  finishedAt: string | null
  retryOf: string | null
  notBefore?: string
  schedule?: string
  message: Message | null
  history: Message[]
  artifacts?: Artifact[]
  result: { error?: unknown; detail?: unknown } | null
}

export type Attempt = PriorAttempt & { cause: string | null }

export interface TodoEvent {
  id: string
  queue: string
  author?: string
  seq: number
  from: string | null
  to: string
  verb: string
  attempt: number
  claimant: string | null
  ready: string | null
  detail: {
    text?: string
    note?: string
    percent?: number
    error?: { code: string; message: string }
    retryAt?: string
    owed?: number
    spent?: Amounts
    schedule?: string
  } | null
  at: string
}

export interface ShownTodo extends Todo {
  attempts: Attempt[]
  events: TodoEvent[]
  deadlines?: Record<string, string | null>
  /** What is asked at the moment and nobody has answered. */
  question?: { seq: number; deadline: string | null } | null
  children: Child[]
}

export interface TodoPage {
  todos: Todo[]
  nextPageToken: string
}

export const hasEnded = (todo: Todo): boolean => todo.finishedAt !== null

/** True while a question of the agent is open. */
export const asks = (todo: Todo): boolean => todo.interruptedAt !== null

/** Shorter silences are normal while work goes on. */
const IDLE_SHOWN_SECONDS = 30

/** `idle 2m 5s` for a claimed todo that has been silent for a while, else empty. */
export const idleText = ({ idleSeconds }: Pick<Todo, 'idleSeconds'>): string =>
  (idleSeconds ?? 0) > IDLE_SHOWN_SECONDS ? `idle ${span((idleSeconds ?? 0) * 1000)}` : ''

/** The agent's newest words: its question, or its last message. */
export const lastWords = (todo: Todo): string => {
  const message = todo.history.findLast(({ role }) => role === 'ROLE_AGENT')
  return message === undefined ? '' : partsText(message)
}

/** Every part as text; data as JSON, a reference as its address. */
export const partsText = (document: { parts: Part[] }): string =>
  document.parts
    .map((part) => {
      if (part.text !== undefined) return part.text
      if (part.url !== undefined) return part.url
      if ('data' in part) return exactText(part.data)
      return part.filename ?? '(binary)'
    })
    .join('\n')

/** What went wrong with a todo that did not end well; empty for any other. */
export const errorText = ({ result }: Todo): string => {
  const error = result?.error
  if (error === undefined) return ''
  const cause = error as { code?: string; message?: string } | string
  const text =
    typeof cause === 'string' ? cause : [cause.code, cause.message].filter(Boolean).join(': ')
  return typeof result?.detail === 'string' ? `${text}: ${result.detail}` : text
}

const FULL_ID = 36
const PAGES = 5

/**
 * The whole id: a whole one as it is given, or the beginning or the end of one if only one of the
 * newest todos begins or ends so. Throws CliError (not found; ambiguous).
 */
export const resolveId = async (client: Client, given: string): Promise<string> => {
  if (given.length >= FULL_ID) return given
  const found: string[] = []
  let pageToken: string | undefined
  for (let page = 0; page < PAGES && pageToken !== ''; page++) {
    const params = defined({ pageSize: 100, pageToken })
    const { todos, nextPageToken } = await client.call<TodoPage>('todos.list', params)
    const ids = todos.map(({ id }) => id)
    found.push(...ids.filter((id) => id.startsWith(given) || id.endsWith(given)))
    pageToken = nextPageToken
  }
  const [id, second] = found
  if (id === undefined) throw new CliError(EXIT.notFound, `No task ${given}`)
  if (second !== undefined)
    throw new CliError(EXIT.usage, `More than one task begins or ends with ${given}`)
  return id
}

/** The same, where `latest` stands for the newest todo with an open question. */
export const resolveIdOrLatest = (client: Client, given: string): Promise<string> =>
  given === 'latest' ? newestQuestion(client) : resolveId(client, given)

const newestQuestion = async (client: Client): Promise<string> => {
  const pages = await Promise.all(
    INTERRUPT_STATES.map((state) => client.call<TodoPage>('todos.list', { state, pageSize: 1 })),
  )
  const [newest] = pages
    .flatMap(({ todos }) => todos)
    .sort((a, b) => (b.interruptedAt ?? '').localeCompare(a.interruptedAt ?? ''))
  if (newest === undefined) throw new CliError(EXIT.notFound, 'No task is waiting for an answer')
  return newest.id
}
