/** What the handlers' thread and the thread of the leases tell each other. Errors cross as their members. */
import { AgentApiError, ConnectionError } from '../errors.ts'
import type { Beat, Claim, Lease } from './keeper.ts'

/** To the thread. `agent` numbers the agents of the process, `call` their claims. */
export type Order = { agent: number } & (
  | { op: 'open'; url: string; token: string; maxBlockedMs: number }
  | { op: 'claim'; call: number; claim: Claim }
  | { op: 'abort'; call: number }
  | {
      op: 'change'
      key: string
      change: Pick<Lease, 'fence' | 'holdSeconds'>
      renewed: boolean
    }
  | { op: 'beat' | 'drop'; key: string }
  | { op: 'close' }
)

/** From the thread; todos as JSON, since a clone would not keep the class of an exact number. */
export type Word = {
  agent: number
} & (
  | { op: 'claimed'; call: number; todos: string }
  | { op: 'refused'; call: number; error: PlainError }
  | { op: 'renewed'; key: string; beat: Beat }
  | { op: 'failed'; key: string; error: PlainError; lapsed: boolean }
)

export type PlainError =
  | { kind: 'api'; refusal: ConstructorParameters<typeof AgentApiError>[0] }
  | { kind: 'connection'; message: string; sent: boolean }
  | { kind: 'other'; message: string }

export const toPlain = (error: unknown): PlainError => {
  if (error instanceof AgentApiError) {
    const { code, reason, message, data, status, retryAfterSeconds } = error
    return { kind: 'api', refusal: { code, reason, message, data, status, retryAfterSeconds } }
  }
  if (error instanceof ConnectionError) {
    return { kind: 'connection', message: error.message, sent: error.sent }
  }
  return { kind: 'other', message: error instanceof Error ? error.message : String(error) }
}

export const fromPlain = (plain: PlainError): Error => {
  switch (plain.kind) {
    case 'api':
      return new AgentApiError(plain.refusal)
    case 'connection':
      return new ConnectionError(plain.message, plain.sent)
    case 'other':
      return new Error(plain.message)
  }
}

/** Comparable between threads, where `performance.now` is not; and no clock that anybody sets. */
export const threadClock = (): number => performance.timeOrigin + performance.now()
