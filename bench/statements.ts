/**
 * The store's own statements, captured: a store function is run on a session that notes what it
 * would have sent. So a ceiling is measured with the very SQL of the store, never with a copy.
 */
import { randomUUID } from 'node:crypto'
import { newId } from '../src/base/uuid.ts'
import { EVERYTHING } from '../src/domain/endpoint.ts'
import type { Message } from '../src/domain/todo.ts'
import { addTodo, type NewTodo } from '../src/store/move/add.ts'
import { readClaimed } from '../src/store/move/claim.ts'
import { transitionOne } from '../src/store/move/move.ts'
import type { Session } from '../src/store/postgres/database.ts'

export interface Captured {
  name: string
  text: string
  /** Of each `$n`, its name among the store's parameters. */
  order: readonly string[]
  values: readonly unknown[]
}

/** The first statement that `work` runs. It is answered with no rows, and what comes of it ignored. */
const capture = async (work: (session: Session) => Promise<unknown>): Promise<Captured> => {
  let first: Captured | undefined
  const session: Session = {
    run: async ({ name, text, order }, values) => {
      first ??= { name, text, order, values: order.map((key) => values[key] ?? null) }
      return []
    },
    query: async () => [],
    wake: () => {},
  }
  await work(session).catch(() => {})
  if (!first) throw new Error('no statement was run')
  return first
}

export const QUEUE = 'bench'

/** A message of about 1 kB. */
export const newMessage = (): Message => ({
  messageId: randomUUID(),
  role: 'ROLE_USER',
  parts: [{ text: 'Book the 7:42 to Lisbon and tell the others. '.repeat(20) }],
})

export const newTodo = (): NewTodo => {
  const id = newId()
  const contextId = newId()
  return {
    id,
    queue: QUEUE,
    contextId,
    clientId: null,
    priority: 1,
    maxAttempts: 5,
    message: { ...newMessage(), taskId: id, contextId },
    detail: { text: 'Book the 7:42 to Lisbon and tell the others.' },
  }
}

const ANSWER: Message = {
  messageId: 'answer',
  role: 'ROLE_AGENT',
  parts: [{ text: 'Booked; the others know.' }],
}

/** What a claim and a completion are given, by the store variants and the captured ones alike. */
export const claimChange = (endpoint: string) => ({
  endpoint,
  leaseSeconds: 300,
  claimant: 'bench',
})
export const completeChange = (endpoint: string, fence: string) => ({
  endpoint,
  fence,
  message: ANSWER,
  detail: { text: 'Booked; the others know.' },
})

export const captureAdd = (): Promise<Captured> => capture((s) => addTodo(s, newTodo()))

export const captureClaim = (endpoint: string, limit: number): Promise<Captured> =>
  capture((s) => readClaimed(s, [QUEUE], limit, claimChange(endpoint)))

export const captureComplete = (endpoint: string): Promise<Captured> =>
  capture((s) =>
    transitionOne(s, 'complete', randomUUID(), completeChange(endpoint, '1'), EVERYTHING),
  )

/** The values of a captured statement, some of them replaced by name. */
export const valuesWith = (
  { order, values }: Captured,
  replaced: Readonly<Record<string, unknown>>,
): unknown[] => order.map((name, index) => (name in replaced ? replaced[name] : values[index]))
