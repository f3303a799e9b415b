/**
 * A row of a method table: what a method takes, what right it needs and what it does. A protocol
 * version, the agent API and the operator API are each one record of such rows; rpc/ runs them and
 * knows nothing else about a method. Rows know no transport: HTTP+JSON calls the same ones.
 */
import type { z } from 'zod'
import type { Caller } from '../../domain/endpoint.ts'
import type { Dialect } from '../../domain/push.ts'
import type { Queue } from '../../domain/queue.ts'
import type { AnswerLinks } from '../../service/board/answer-links.ts'
import type { BoardSessions } from '../../service/board/sessions.ts'
import type { AgentService } from '../../service/claims/agent.ts'
import type { OperatorService } from '../../service/operator/operator.ts'
import type { PushService } from '../../service/push/configs.ts'
import type { Access } from '../../service/tasks/access.ts'
import type { ClientService } from '../../service/tasks/client.ts'
import type { Watch } from '../../service/watch/watch.ts'

export interface Services {
  client: ClientService
  agent: AgentService
  operator: OperatorService
  answerLinks: AnswerLinks
  boardSessions: BoardSessions
  push: PushService
  watch: Watch
}

/** What every call is given besides its params. */
export interface Call {
  services: Services
  caller: Caller
  /** Fires when the client hangs up or the server stops. Ends the waiting, never a todo. */
  signal: AbortSignal
  /** Whether the client is still there: one that has sent all it will may have gone since. */
  isPeerThere(): boolean | Promise<boolean>
  /** Waits as part of a call that reads whole tasks: others read meanwhile. Refuses: rate_limited. */
  rest(wait: Promise<void>): Promise<void>
  /** The request's `Host`, unread: how its client reached this node. */
  host?: string | undefined
  /** The request's `Last-Event-ID`, unread; null when there was none. */
  lastEventId: string | null
  /** The request's `Idempotency-Key`, unread; null when there was none. */
  idempotencyKey: string | null
  /** The request's `traceparent`, unread; absent or null when there was none. */
  traceparent?: string | null
  /** Names this request in the log and in the answer to a fault. */
  requestId: string
}

/** A call to one queue's A2A interface. */
export interface QueueCall extends Call {
  queue: Queue
  /** What the caller may do there. */
  access: Access
  /** URIs of the extensions that the client requested and the queue's card declares. */
  extensions: ReadonlySet<string>
  /** The version of the protocol that the client speaks: its webhooks are written in it. */
  dialect: Dialect
  /** Sets a header of the answer, before it is sent. */
  setHeader(name: string, value: string): void
  /** The id of a new task in a dialect whose clients choose ids; derived from theirs, never theirs. */
  newTaskId?: string
}

/** One result of a stream. `id` is a cursor the client may resume from. */
export interface StreamItem<R = unknown> {
  id?: string
  result: R
}

/** Throws a `forbidden` refusal if the caller lacks the right. Checked before the params are. */
export type Right<C> = (ctx: C) => unknown

interface RowBase<C> {
  params: z.ZodType
  /** Replaces in the params, before they are checked, what must not be a reason to refuse them. */
  mend?(params: unknown): unknown
  right: Right<C>
  /** Whether it reads and answers whole tasks: only so many of these run at a time. */
  reads?: boolean
}

/** `P` and `R`, what it reads and answers, matter where another row calls this one. */
export interface UnaryRow<C, P = unknown, R = unknown> extends RowBase<C> {
  kind: 'unary'
  call(ctx: C, params: P): Promise<R>
}

export interface StreamRow<C, P = unknown, R = unknown> extends RowBase<C> {
  kind: 'stream'
  call(ctx: C, params: P): Promise<AsyncIterable<StreamItem<R>>>
}

export type Row<C extends Call = Call> = UnaryRow<C> | StreamRow<C>
export type MethodTable<C extends Call = Call> = Readonly<Record<string, Row<C>>>

const anyone = (): void => undefined

/**
 * A method that answers once. `call` gets what the schema made of the request's params. Without
 * a `right`, any authenticated caller may call it.
 */
export const unary = <S extends z.ZodType, R, C extends Call = Call>(
  params: S,
  call: (ctx: C, params: z.output<S>) => Promise<R>,
  right: Right<C> = anyone,
): UnaryRow<C, z.output<S>, R> => ({ kind: 'unary', params, right, call })

/**
 * A method that answers with a stream. What `call` throws before it returns the iterable is
 * answered as plain JSON; what the iterable throws ends the stream with one error frame.
 */
export const stream = <S extends z.ZodType, R, C extends Call = Call>(
  params: S,
  call: (ctx: C, params: z.output<S>) => Promise<AsyncIterable<StreamItem<R>>>,
  right: Right<C> = anyone,
): StreamRow<C, z.output<S>, R> => ({ kind: 'stream', params, right, call })

/** A row that reads and answers whole tasks. */
export const reading = <R extends object>(row: R): R & { reads: true } => ({ ...row, reads: true })

/**
 * A row of another version, written in this one: its right and its call, with params and result
 * translated. `to` may be left out if the params are those of the row already.
 */
export const over = <C extends Call, P, R, S extends z.ZodType, W>(
  row: UnaryRow<C, P, R>,
  params: S,
  from: (result: R, read: z.output<S>) => W,
  ...[to]: z.output<S> extends P ? [to?: (read: z.output<S>) => P] : [to: (read: z.output<S>) => P]
): UnaryRow<C, z.output<S>, W> => ({
  kind: 'unary',
  params,
  right: row.right,
  reads: row.reads ?? false,
  call: async (ctx, read) => from(await row.call(ctx, to ? to(read) : (read as P)), read),
})
